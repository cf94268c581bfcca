"""Fingerprints of what was admitted and of genesis, whatever the hub does to one of them."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from affine_dagster.checkpoint.digests import file_blake3
from affine_dagster.checkpoint.identity import CheckpointIdentity, identity
from affine_dagster.hub.local import Access, LocalHub
from affine_dagster.kinship import fingerprint, fingerprints, judge, unfinished
from affine_dagster.reasons import AffineError
from affine_dagster.settings import GenesisModel, ScoringSettings, Settings
from affine_dagster.tables import ADMISSIONS, FINGERPRINTS, KINSHIP


def admitted(name: str, block: int, revision: str, folder: Path) -> dict[str, object]:
    files = [{"name": path.name, "bytes": path.stat().st_size, "blake3": file_blake3(path)} for path in sorted(folder.iterdir())]
    return {
        **dict.fromkeys(ADMISSIONS.columns), "epoch": 1, "submission_id": name, "hotkey": f"h-{name}", "repo": f"o/{name}",
        "revision": revision, "block": block, "extrinsic_index": 0, "state": "admitted", "reason": "admitted", "deferrals": 0,
        "first_epoch": 1, "manifest_digest": revision, "files": files,
    }


@pytest.fixture
def hub(tmp_path: Path) -> LocalHub:
    return LocalHub(tmp_path / "hub")


@pytest.fixture
def settings(make: ModuleType, tmp_path: Path, hub: LocalHub) -> Settings:
    base = make.write_checkpoint(tmp_path / "base", seed=9)
    return Settings(scoring=ScoringSettings(genesis=(GenesisModel(repo="o/base", revision=hub.publish("o/base", base)),)))


def test_from_repositories_to_verdicts(make: ModuleType, tmp_path: Path, hub: LocalHub, settings: Settings) -> None:
    """P13: a copy in other shards, a copy of genesis, a model one bit away."""
    flipped = make.llama_tensors(1)
    flipped["model.norm.weight"][0] += 1
    folders = {
        "own": make.write_checkpoint(tmp_path / "own", seed=1),
        "shards": make.write_checkpoint(tmp_path / "shards", seed=1, shards=3),
        "base2": make.write_checkpoint(tmp_path / "base2", seed=9, shards=2),
        "near": make.write_checkpoint(tmp_path / "near", flipped),
    }
    rows = [admitted(name, at, hub.publish(f"o/{name}", folder), folder) for at, (name, folder) in enumerate(folders.items(), 1)]
    found = fingerprint(hub, settings, ADMISSIONS.frame(rows), 1, FINGERPRINTS.empty())
    assert found["submission_id"].to_list() == ["genesis-0", "own", "shards", "base2", "near"]
    assert found.filter(pl.col("submission_id") == "own")["weights_digest"].item() == identity(folders["own"]).weights_digest
    verdicts = judge(found, KINSHIP.empty(), 1).select("submission_id", "reason", "peer_submission_id").rows()
    assert verdicts == [
        ("own", "origin", None), ("shards", "exact_copy", "own"), ("base2", "genesis_copy", "genesis-0"), ("near", "origin", None),
    ]


def test_models_of_two_architectures_stand_side_by_side(make: ModuleType, tmp_path: Path, hub: LocalHub, settings: Settings) -> None:
    """P11: another architecture is another model, no copy and no crash."""
    config = {**make.CONFIG, "architectures": ["MistralForCausalLM"], "hidden_size": 4}
    mistral = make.write_checkpoint(tmp_path / "m", seed=3, config=config)
    rows = [admitted("m", 1, hub.publish("o/m", mistral), mistral)]
    found = fingerprint(hub, settings, ADMISSIONS.frame(rows), 1, FINGERPRINTS.empty())
    assert judge(found, KINSHIP.empty(), 1)["verdict"].to_list() == ["origin"]


def test_a_repository_that_cannot_be_read_stops_nobody_and_comes_again(
    make: ModuleType, tmp_path: Path, hub: LocalHub, settings: Settings
) -> None:
    """H23."""
    good, gone = make.write_checkpoint(tmp_path / "good", seed=1), make.write_checkpoint(tmp_path / "gone", seed=2)
    closed = hub.publish_at("o/gone", gone, Access(gated=True))
    rows = ADMISSIONS.frame([admitted("good", 1, hub.publish("o/good", good), good), admitted("gone", 2, closed, gone)])
    first = fingerprint(hub, settings, rows, 1, FINGERPRINTS.empty())
    assert first["submission_id"].to_list() == ["genesis-0", "good"]
    assert unfinished(rows, first)["submission_id"].to_list() == ["gone"]
    hub.publish("o/gone", gone)
    assert fingerprint(hub, settings, rows, 2, first)["submission_id"].to_list() == ["gone"]


def test_whatever_a_submitted_file_makes_a_reader_raise_stops_nobody(
    make: ModuleType, tmp_path: Path, hub: LocalHub, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One hostile repository must not block the epoch for all."""
    folders = {name: make.write_checkpoint(tmp_path / name, seed=at) for at, name in enumerate(("bad", "good"))}
    published = {name: hub.publish(f"o/{name}", folder) for name, folder in folders.items()}
    rows = ADMISSIONS.frame([admitted(name, 1, published[name], folder) for name, folder in folders.items()])

    def read(folder: Path) -> CheckpointIdentity:
        if "/bad/" in folder.as_posix():
            raise RecursionError("deep")
        return identity(folder)

    monkeypatch.setattr(fingerprints, "identity", read)
    assert fingerprint(hub, settings, rows, 1, FINGERPRINTS.empty())["submission_id"].to_list() == ["genesis-0", "good"]


def test_a_fingerprint_stands_when_its_epoch_is_run_again_and_the_hub_is_gone(
    make: ModuleType, tmp_path: Path, hub: LocalHub, settings: Settings
) -> None:
    """An origin that lost its fingerprint would hand its rights to the first copy."""
    folder = make.write_checkpoint(tmp_path / "a", seed=1)
    rows = ADMISSIONS.frame([admitted("a", 1, hub.publish("o/a", folder), folder)])
    first = fingerprint(hub, settings, rows, 1, FINGERPRINTS.empty())
    assert fingerprint(LocalHub(tmp_path / "nowhere"), settings, rows, 1, first).equals(first)


def test_a_folder_that_is_not_what_was_admitted_gets_no_fingerprint(
    make: ModuleType, tmp_path: Path, hub: LocalHub, settings: Settings
) -> None:
    folder = make.write_checkpoint(tmp_path / "a", seed=1)
    row = admitted("a", 1, hub.publish("o/a", folder), folder)
    published = hub.root / "o" / "a" / str(row["revision"]) / "config.json"
    published.chmod(0o644)
    published.write_text(json.dumps({**make.CONFIG, "rope_theta": 5}))
    assert fingerprint(hub, settings, ADMISSIONS.frame([row]), 1, FINGERPRINTS.empty())["submission_id"].to_list() == ["genesis-0"]


def test_known_models_are_not_read_again(hub: LocalHub, settings: Settings) -> None:
    first = fingerprint(hub, settings, ADMISSIONS.empty(), 1, FINGERPRINTS.empty())
    assert fingerprint(hub, settings, ADMISSIONS.empty(), 2, first).is_empty()
    assert fingerprint(hub, settings, ADMISSIONS.empty(), 1, first).equals(first)


def test_a_genesis_model_that_cannot_be_read_stops_the_epoch(hub: LocalHub) -> None:
    settings = Settings(scoring=ScoringSettings(genesis=(GenesisModel(repo="o/none", revision="0" * 40),)))
    with pytest.raises(AffineError) as error:
        fingerprint(hub, settings, ADMISSIONS.empty(), 1, FINGERPRINTS.empty())
    assert error.value.code == "not_found"
