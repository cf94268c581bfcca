"""Copies and broken repositories."""

from __future__ import annotations

from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from safetensors.numpy import load_file

from affine_dagster.admission.judging import judge
from affine_dagster.checkpoint.identity import identity
from affine_dagster.hub.local import LocalHub
from affine_dagster.league.recipes import Broken, Copy
from affine_dagster.league.variants import make_broken, make_copy
from affine_dagster.reasons import AffineError
from affine_dagster.settings import AdmissionSettings

REASONS = get_args(get_type_hints(Broken)["reason"])


def _judged(tmp_path: Path, folder: Path, template_hash: str) -> None:
    hub = LocalHub(tmp_path / "hub")
    judge(hub, AdmissionSettings(tokenizers="any"), "miner/model", hub.publish("miner/model", folder), {template_hash})


def test_an_exact_copy_has_the_same_bytes(source: Path, tmp_path: Path) -> None:
    make_copy(source, tmp_path / "copy", Copy("copy", "source", "exact"))
    assert {p.name: p.read_bytes() for p in source.iterdir()} == {p.name: p.read_bytes() for p in (tmp_path / "copy").iterdir()}


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
def test_a_resharded_copy_is_the_same_model_in_other_files(source: Path, tmp_path: Path, shards: int) -> None:
    """P13: a digest per tensor does not hang on shards or order."""
    make_copy(source, tmp_path / "copy", Copy("copy", "source", "resharded", shards=shards))
    assert len(list((tmp_path / "copy").glob("*.safetensors"))) == shards
    assert not (tmp_path / "copy" / "model.safetensors").exists()
    ours, theirs = identity(tmp_path / "copy"), identity(source)
    assert (ours.weights_digest, ours.tensor_set_digest) == (theirs.weights_digest, theirs.tensor_set_digest)


def test_a_resharded_copy_is_admitted(source: Path, tmp_path: Path) -> None:
    make_copy(source, tmp_path / "copy", Copy("copy", "source", "resharded"))
    _judged(tmp_path, tmp_path / "copy", identity(source).template_hash)


def test_a_noisy_copy_is_another_model_with_nearly_the_same_weights(source: Path, tmp_path: Path) -> None:
    make_copy(source, tmp_path / "copy", Copy("copy", "source", "noisy", noise=0.01, seed=3))
    before, after = load_file(source / "model.safetensors"), load_file(tmp_path / "copy" / "model.safetensors")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert after[name].dtype == tensor.dtype
        assert 0 < np.abs(after[name] - tensor).max() <= 0.06 * tensor.std()
    assert identity(tmp_path / "copy").tensor_set_digest != identity(source).tensor_set_digest


def test_noise_hangs_on_its_seed_alone(source: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        make_copy(source, tmp_path / name, Copy(name, "source", "noisy", noise=0.01, seed=seed))
    a, b, c = (identity(tmp_path / name).weights_digest for name in "abc")
    assert a == b != c


@pytest.mark.parametrize("reason", REASONS)
def test_a_broken_repository_is_refused_for_its_own_reason(source: Path, tmp_path: Path, reason: str) -> None:
    """H1, H2, H16, H17 and their kind: the fault that was put in is the fault that admission names."""
    make_broken(source, tmp_path / "broken", Broken("broken", "source", reason))  # type: ignore[arg-type]
    with pytest.raises(AffineError) as caught:
        _judged(tmp_path, tmp_path / "broken", identity(source).template_hash)
    assert caught.value.code == reason
