"""Digests name the tensors, not the files that hold them."""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from affine_dagster.checkpoint.configuration import ARITHMETIC_FIELDS, config_digest
from affine_dagster.checkpoint.digests import folder_headers, folder_layout, scan_file
from affine_dagster.checkpoint.identity import CheckpointIdentity, identity, weights_digest
from affine_dagster.reasons import AffineError

READ = {*ARITHMETIC_FIELDS, "architectures", "model_type", "eos_token_id"}
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def of(make: ModuleType, folder: Path, **options: object) -> CheckpointIdentity:
    shutil.rmtree(folder, ignore_errors=True)
    return identity(make.write_checkpoint(folder, **options))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shards=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_shards_and_order_never_change_a_digest(make: ModuleType, tmp_path: Path, shards: int, seed: int) -> None:
    """P13."""
    tensors = make.llama_tensors()
    names = list(tensors)
    random.Random(seed).shuffle(names)
    other = of(make, tmp_path / "b", tensors={name: tensors[name] for name in names}, shards=shards)
    assert other == of(make, tmp_path / "a", tensors=tensors)


def test_one_flipped_bit_changes_both_digests(make: ModuleType, tmp_path: Path) -> None:
    """P13."""
    first = of(make, tmp_path, seed=1)
    tensors = make.llama_tensors(1)
    tensors["model.norm.weight"].view(np.uint8)[3] ^= 1
    second = of(make, tmp_path, tensors=tensors)
    assert first.weights_digest != second.weights_digest
    assert first.tensor_set_digest != second.tensor_set_digest


def test_other_names_change_the_weights_digest_and_not_the_tensor_set(make: ModuleType, tmp_path: Path) -> None:
    tensors = make.llama_tensors()
    up, gate = "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.gate_proj.weight"
    swapped = {**tensors, up: tensors[gate], gate: tensors[up]}
    first, second = of(make, tmp_path, tensors=tensors), of(make, tmp_path, tensors=swapped)
    assert first.weights_digest != second.weights_digest
    assert first.tensor_set_digest == second.tensor_set_digest


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("config_digest", {"config": {"rope_theta": 10000.000001}}), ("config_digest", {"config": {"rms_norm_eps": 1e-5}}),
        ("config_digest", {"config": {"eos_token_id": 3}}), ("tokenizer_signature", {"words": 31}),
        ("template_hash", {"template": "{{ messages[0]['content'] }}"}),
    ],
)
def test_what_is_run_is_identified_by_all_that_changes_what_it_answers(
    make: ModuleType, tmp_path: Path, part: str, change: dict[str, Any]
) -> None:
    """Equal tensors are equal in their own digests, and another model to the ledger."""
    config = change.get("config")
    options = {**change, "config": {**make.CONFIG, **config}} if config else change
    first, second = of(make, tmp_path, seed=1), of(make, tmp_path, seed=1, **options)
    assert (first.tensor_set_digest, first.tensors_digest) == (second.tensor_set_digest, second.tensors_digest)
    assert first.weights_digest != second.weights_digest
    parts = ("config_digest", "tokenizer_signature", "template_hash")
    assert [name for name in parts if getattr(first, name) != getattr(second, name)] == [part]


UNREAD = st.text(max_size=12).filter(lambda name: name not in READ)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(UNREAD, st.none() | st.integers() | st.text(max_size=5), max_size=5))
def test_what_no_engine_reads_is_no_identity(make: ModuleType, more: dict[str, object]) -> None:
    """A comment in config.json makes no new model of an old one."""
    assert config_digest({**more, **make.CONFIG}) == config_digest(make.CONFIG)


def test_the_parts_do_not_run_into_each_other() -> None:
    parts = ("a", "b", "c", "d")
    assert len({weights_digest(*order) for order in itertools.permutations(parts)}) == 24


def test_a_tied_head_may_be_stored_or_not(make: ModuleType, tmp_path: Path) -> None:
    """H10: neither the digests nor the number of parameters differ."""
    tensors = make.llama_tensors()
    absent, stored = of(make, tmp_path, tensors=tensors), of(make, tmp_path, tensors={**tensors, HEAD: tensors[EMBEDDING]})
    for field in ("weights_digest", "tensor_set_digest", "parameters"):
        assert getattr(absent, field) == getattr(stored, field)


def test_a_head_of_its_own_counts(make: ModuleType, tmp_path: Path) -> None:
    tensors = make.llama_tensors()
    own = of(make, tmp_path, tensors={**tensors, HEAD: -tensors[EMBEDDING]})
    assert own.weights_digest != of(make, tmp_path, tensors=tensors).weights_digest
    assert own.parameters == sum(array.size for array in tensors.values()) + tensors[EMBEDDING].size


def test_the_same_bytes_in_another_shape_or_type_are_another_tensor(make: ModuleType, tmp_path: Path) -> None:
    tensors = make.llama_tensors()
    turned = {**tensors, "model.norm.weight": tensors["model.norm.weight"].reshape(2, -1)}
    retyped = {**tensors, "model.norm.weight": tensors["model.norm.weight"].view(np.int32)}
    assert len({of(make, tmp_path, tensors=version).tensor_set_digest for version in (tensors, turned, retyped)}) == 3


@pytest.mark.parametrize(
    ("dtype", "code", "values"),
    [(np.float32, "F32", 4), (np.float16, "F16", 2), (np.float64, "F64", 8), (None, "BF16", 2)],
)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf"), None])
def test_one_value_that_is_not_finite_is_found_in_every_float_type(
    make: ModuleType, tmp_path: Path, dtype: type[np.floating] | None, code: str, values: int, bad: float | None
) -> None:
    array = np.full(1000, 3.0e4, dtype=np.float32)
    if bad is not None:
        array[777] = bad
    data = (array.view(np.uint32) >> 16).astype(np.uint16).tobytes() if dtype is None else array.astype(dtype).tobytes()
    path = tmp_path / "model.safetensors"
    path.write_bytes(make.raw_safetensors([("a", code, [1000], (0, 1000 * values))], data))
    header = folder_headers(tmp_path, folder_layout(tmp_path))["model.safetensors"]
    assert scan_file(path, header).tensors[0].finite == (bad is None)


def test_a_file_that_shrinks_while_it_is_read_is_refused(make: ModuleType, tmp_path: Path) -> None:
    folder = make.write_checkpoint(tmp_path)
    headers = folder_headers(folder, folder_layout(folder))
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(AffineError) as error:
        scan_file(path, headers["model.safetensors"])
    assert error.value.code == "size_mismatch"
