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
from affine_dagster.kinship import Fingerprinting, fingerprint, fingerprints, judge, unfinished
from affine_dagster.reasons import AffineError
from affine_dagster.settings import AdmissionSettings, GenesisModel, ScoringSettings, Settings
from affine_dagster.tables import ADMISSIONS, FINGERPRINT_FAILURES, FINGERPRINTS, KINSHIP


def admitted(name: str, block: int, revision: str, folder: Path) -> dict[str, object]:
    files = [{"name": path.name, "bytes": path.stat().st_size, "blake3": file_blake3(path)} for path in sorted(folder.iterdir())]
    return {
        **dict.fromkeys(ADMISSIONS.columns), "epoch": 1, "submission_id": name, "hotkey": f"h-{name}", "repo": f"o/{name}",
        "revision": revision, "block": block, "extrinsic_index": 0, "state": "admitted", "reason": "admitted", "deferrals": 0,
        "first_epoch": 1, "manifest_digest": revision, "files": files,
    }


NO_FAILURE = FINGERPRINT_FAILURES.empty()


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
    found = fingerprint(hub, settings, ADMISSIONS.frame(rows), 1, FINGERPRINTS.empty(), NO_FAILURE).rows
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
    found = fingerprint(hub, settings, ADMISSIONS.frame(rows), 1, FINGERPRINTS.empty(), NO_FAILURE).rows
    assert judge(found, KINSHIP.empty(), 1)["verdict"].to_list() == ["origin"]


def test_a_repository_that_cannot_be_read_stops_nobody_and_comes_again(
    make: ModuleType, tmp_path: Path, hub: LocalHub, settings: Settings
) -> None:
    """H23."""
    good, gone = make.write_checkpoint(tmp_path / "good", seed=1), make.write_checkpoint(tmp_path / "gone", seed=2)
    closed = hub.publish_at("o/gone", gone, Access(gated=True))
    rows = ADMISSIONS.frame([admitted("good", 1, hub.publish("o/good", good), good), admitted("gone", 2, closed, gone)])
    first = fingerprint(hub, settings, rows, 1, FINGERPRINTS.empty(), NO_FAILURE)
    assert first.rows["submission_id"].to_list() == ["genesis-0", "good"]
    assert said(first) == [("gone", "deferred", "withdrawn", "model", 1)]
    assert unfinished(rows, first.rows, first.failures)["submission_id"].to_list() == ["gone"]
    hub.publish("o/gone", gone)
    later = fingerprint(hub, settings, rows, 2, first.rows, first.failures)
    assert (later.rows["submission_id"].to_list(), later.failures.height) == (["gone"], 0)


def said(made: Fingerprinting) -> list[tuple[object, ...]]:
    return made.failures.select("submission_id", "state", "reason", "fault", "deferrals").rows()


def breaks(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Reading the repository o/bad raises."""

    def read(folder: Path) -> CheckpointIdentity:
        if "/bad/" in folder.as_posix():
            raise error
        return identity(folder)

    monkeypatch.setattr(fingerprints, "identity", read)


@pytest.fixture
def two(make: ModuleType, tmp_path: Path, hub: LocalHub) -> pl.DataFrame:
    """The ADMISSIONS of ``bad``, and after it of ``good``."""
    folders = {name: make.write_checkpoint(tmp_path / name, seed=at) for at, name in enumerate(("bad", "good"))}
    published = {name: hub.publish(f"o/{name}", folder) for name, folder in folders.items()}
    return ADMISSIONS.frame([admitted(name, at, published[name], folder) for at, (name, folder) in enumerate(folders.items(), 1)])


@pytest.mark.parametrize(
    ("error", "code", "fault"),
    [
        (RecursionError("deep \ud800"), "fingerprint_failed", "evaluator"),
        (AffineError("hub_unavailable", "timeout"), "hub_unavailable", "hub"),
        (AffineError("bad_header", "what admission had read otherwise"), "fingerprint_failed", "evaluator"),
        (AffineError("not_found", "removed"), "withdrawn", "model"),
    ],
)
def test_whatever_a_submitted_file_makes_a_reader_raise_stops_nobody_and_is_said(
    hub: LocalHub, settings: Settings, two: pl.DataFrame, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str, fault: str
) -> None:
    """One hostile repository must not block the epoch for all, and its owner learns whose fault it is."""
    breaks(monkeypatch, error)
    made = fingerprint(hub, settings, two, 1, FINGERPRINTS.empty(), NO_FAILURE)
    assert made.rows["submission_id"].to_list() == ["genesis-0", "good"]
    assert said(made) == [("bad", "deferred", code, fault, 1)]


def test_a_fingerprint_is_tried_as_often_as_an_admission_and_then_given_up(
    hub: LocalHub, settings: Settings, two: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H23: no endless retries, and what was given up is not read again."""
    bounded = settings.model_copy(update={"admission": AdmissionSettings(max_deferrals=2)})
    breaks(monkeypatch, OSError("disk"))
    known, failures = FINGERPRINTS.empty(), NO_FAILURE
    for epoch in range(1, 6):
        made = fingerprint(hub, bounded, two, epoch, known, failures)
        known, failures = known.vstack(made.rows), failures.vstack(made.failures)
    assert failures.select("epoch", "state", "reason", "deferrals").rows() == [
        (1, "deferred", "fingerprint_failed", 1), (2, "deferred", "fingerprint_failed", 2), (3, "rejected", "expired_deferred", 2),
    ]
    assert "last for fingerprint_failed: OSError: disk" in failures["detail"][-1]


def test_failures_of_an_epoch_that_is_run_again_are_not_counted_twice(
    hub: LocalHub, settings: Settings, two: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch, OSError("disk"))
    first = fingerprint(hub, settings, two, 1, FINGERPRINTS.empty(), NO_FAILURE)
    again = fingerprint(hub, settings, two, 1, first.rows, first.failures)
    assert (again.rows.equals(first.rows), again.failures.equals(first.failures)) == (True, True)


def test_a_copy_overtakes_no_original_that_could_not_be_read(
    make: ModuleType, tmp_path: Path, hub: LocalHub, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy stands as the origin only until the original can be read."""
    folders = {name: make.write_checkpoint(tmp_path / name, seed=1) for name in ("bad", "copy")}
    rows = ADMISSIONS.frame([
        admitted(name, at, hub.publish(f"o/{name}", folder), folder) for at, (name, folder) in enumerate(folders.items(), 1)
    ]).with_columns(manifest_digest="submission_id")
    with monkeypatch.context() as patch:
        breaks(patch, OSError("disk"))
        first = fingerprint(hub, settings, rows, 1, FINGERPRINTS.empty(), NO_FAILURE)
    before = judge(first.rows, KINSHIP.empty(), 1)
    later = fingerprint(hub, settings, rows, 2, first.rows, first.failures)
    after = judge(first.rows.vstack(later.rows), before, 2)
    assert before.select("submission_id", "verdict").rows() == [("copy", "origin")]
    assert after.select("submission_id", "verdict").rows() == [("bad", "origin"), ("copy", "exact_copy")]


def test_a_fingerprint_stands_when_its_epoch_is_run_again_and_the_hub_is_gone(
    make: ModuleType, tmp_path: Path, hub: LocalHub, settings: Settings
) -> None:
    """An origin that lost its fingerprint would hand its rights to the first copy."""
    folder = make.write_checkpoint(tmp_path / "a", seed=1)
    rows = ADMISSIONS.frame([admitted("a", 1, hub.publish("o/a", folder), folder)])
    first = fingerprint(hub, settings, rows, 1, FINGERPRINTS.empty(), NO_FAILURE).rows
    assert fingerprint(LocalHub(tmp_path / "nowhere"), settings, rows, 1, first, NO_FAILURE).rows.equals(first)


def test_a_folder_that_is_not_what_was_admitted_gets_no_fingerprint(
    make: ModuleType, tmp_path: Path, hub: LocalHub, settings: Settings
) -> None:
    folder = make.write_checkpoint(tmp_path / "a", seed=1)
    row = admitted("a", 1, hub.publish("o/a", folder), folder)
    published = hub.root / "o" / "a" / str(row["revision"]) / "config.json"
    published.chmod(0o644)
    published.write_text(json.dumps({**make.CONFIG, "rope_theta": 5}))
    made = fingerprint(hub, settings, ADMISSIONS.frame([row]), 1, FINGERPRINTS.empty(), NO_FAILURE)
    assert made.rows["submission_id"].to_list() == ["genesis-0"]
    assert said(made) == [("a", "deferred", "hub_unavailable", "hub", 1)]


def test_known_models_are_not_read_again(hub: LocalHub, settings: Settings) -> None:
    first = fingerprint(hub, settings, ADMISSIONS.empty(), 1, FINGERPRINTS.empty(), NO_FAILURE).rows
    assert fingerprint(hub, settings, ADMISSIONS.empty(), 2, first, NO_FAILURE).rows.is_empty()
    assert fingerprint(hub, settings, ADMISSIONS.empty(), 1, first, NO_FAILURE).rows.equals(first)


def test_a_genesis_model_that_cannot_be_read_stops_the_epoch(hub: LocalHub) -> None:
    settings = Settings(scoring=ScoringSettings(genesis=(GenesisModel(repo="o/none", revision="0" * 40),)))
    with pytest.raises(AffineError) as error:
        fingerprint(hub, settings, ADMISSIONS.empty(), 1, FINGERPRINTS.empty(), NO_FAILURE)
    assert error.value.code == "not_found"
