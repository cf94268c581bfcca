"""An epoch's admissions: a row for each submission, deferral with a bound, grace, and nobody harmed by another."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from affine_dagster.admission import batch
from affine_dagster.admission.batch import admit, genesis_texts
from affine_dagster.admission.judging import Admitted, ManifestFile
from affine_dagster.hub.local import LocalHub
from affine_dagster.reasons import AffineError
from affine_dagster.settings import AdmissionSettings, GenesisModel, HubSettings, ScoringSettings, Settings
from affine_dagster.tables import ADMISSIONS, SUBMISSIONS

SETTINGS = Settings(admission=AdmissionSettings(max_deferrals=3), hub=HubSettings(grace_epochs=2))
FOUND = Admitted("m" * 64, 10, (ManifestFile("config.json", 2, "f" * 64),), "LlamaForCausalLM", 7, "t" * 64, "k" * 64)
Judge = Callable[[str], Admitted]


def submissions(epoch: int, *names: str, state: str = "submitted") -> pl.DataFrame:
    return SUBMISSIONS.frame(
        {
            "epoch": epoch, "submission_id": f"s{name}", "hotkey": f"h{name}", "coldkey": "c", "uid": 1, "block": epoch * 10,
            "extrinsic_index": at, "repo": f"owner/{name}", "revision": "0" * 40, "state": state, "reason": "submitted", "detail": "",
            "raw": None,
        }
        for at, name in enumerate(names)
    )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pl.DataFrame]:
    def go(judge: Judge, new: pl.DataFrame, epoch: int, earlier: pl.DataFrame | None = None) -> pl.DataFrame:
        monkeypatch.setattr(batch, "judge", lambda hub, settings, repo, revision, templates: judge(repo))
        return admit(LocalHub(tmp_path), SETTINGS, new, ADMISSIONS.empty() if earlier is None else earlier, epoch, frozenset())

    return go


def fails(code: str, detail: str = "") -> Judge:
    def judge(repo: str) -> Admitted:
        raise AffineError(code, detail)

    return judge


def outcome(frame: pl.DataFrame) -> list[tuple[str, str, str | None, int]]:
    return list(frame.select("state", "reason", "fault", "deferrals").iter_rows())


def history(run: Callable[..., pl.DataFrame], judge: Judge, epochs: int) -> list[tuple[str, str, str | None, int]]:
    """What becomes of one submission of epoch 1 over the epochs."""
    earlier = ADMISSIONS.empty()
    for epoch in range(1, epochs + 1):
        earlier = pl.concat([earlier, run(judge, submissions(1, "a"), epoch, earlier)])
    return outcome(earlier)


def test_one_broken_submission_never_stops_another(run: Callable[..., pl.DataFrame]) -> None:
    def judge(repo: str) -> Admitted:
        if repo == "owner/bad":
            raise AffineError("non_finite", "model.norm.weight")
        if repo == "owner/ours":
            raise ZeroDivisionError("our own mistake \ud800")
        return FOUND

    frame = run(judge, submissions(1, "bad", "ours", "good"), 1)
    assert outcome(frame) == [
        ("rejected", "non_finite", "model", 0), ("deferred", "admission_failed", "evaluator", 1), ("admitted", "admitted", None, 0),
    ]
    assert "ZeroDivisionError: our own mistake" in frame["detail"][1]


def test_an_admitted_row_holds_what_was_found(run: Callable[..., pl.DataFrame]) -> None:
    row = run(lambda repo: FOUND, submissions(1, "a"), 1).to_dicts()[0]
    assert (row["manifest_digest"], row["parameters"]) == ("m" * 64, 7)
    assert row["files"] == [{"name": "config.json", "bytes": 2, "blake3": "f" * 64}]


def test_a_hub_fault_defers_and_after_the_bound_expires_without_blaming_the_miner(run: Callable[..., pl.DataFrame]) -> None:
    """H23."""
    assert history(run, fails("hub_unavailable"), 5) == [
        ("deferred", "hub_unavailable", "hub", 1), ("deferred", "hub_unavailable", "hub", 2), ("deferred", "hub_unavailable", "hub", 3),
        ("rejected", "expired_deferred", "hub", 3),
    ]


def test_an_unknown_revision_has_a_grace_and_then_is_refused(run: Callable[..., pl.DataFrame]) -> None:
    """H22; the grace is counted in rows, so it survives a restart."""
    assert history(run, fails("not_found"), 4) == [
        ("deferred", "not_found_yet", "hub", 1), ("deferred", "not_found_yet", "hub", 2), ("rejected", "not_found", "model", 2),
    ]


def test_a_revision_that_appears_within_the_grace_is_admitted(run: Callable[..., pl.DataFrame]) -> None:
    """H22."""
    first = run(fails("not_found"), submissions(1, "a"), 1)
    assert outcome(run(lambda repo: FOUND, SUBMISSIONS.empty(), 2, first)) == [("admitted", "admitted", None, 1)]


def test_a_deliberate_state_has_no_grace(run: Callable[..., pl.DataFrame]) -> None:
    """H22: gated is the miner's choice."""
    assert history(run, fails("gated"), 2) == [("rejected", "gated", "model", 0)]


def test_a_verdict_stands_and_is_not_made_again(run: Callable[..., pl.DataFrame]) -> None:
    first = run(fails("non_finite"), submissions(1, "a"), 1)
    assert run(lambda repo: FOUND, submissions(1, "a"), 2, first).is_empty()


@pytest.mark.parametrize("later", [fails("not_found"), fails("hub_unavailable")])
def test_a_verdict_stands_when_its_epoch_is_run_again(run: Callable[..., pl.DataFrame], later: Judge) -> None:
    """O7: a repository that is gone at a re-run of an old epoch costs its miner nothing, and what was deferred may still come in."""
    first = run(lambda repo: FOUND, submissions(1, "a"), 1)
    assert run(later, submissions(1, "a"), 1, first).equals(first)
    deferred = run(fails("hub_unavailable"), submissions(1, "a"), 1)
    assert outcome(run(lambda repo: FOUND, submissions(1, "a"), 1, deferred)) == [("admitted", "admitted", None, 0)]


def test_judging_an_epoch_again_gives_the_same_rows(run: Callable[..., pl.DataFrame]) -> None:
    first = run(fails("hub_unavailable"), submissions(1, "a", "b"), 1)
    assert run(fails("hub_unavailable"), submissions(1, "a", "b"), 1, first).equals(first)


def test_later_submissions_and_those_without_a_model_are_left_alone(run: Callable[..., pl.DataFrame]) -> None:
    new = pl.concat([submissions(2, "later"), submissions(1, "sealed", state="sealed"), submissions(1, "a")])
    assert run(lambda repo: FOUND, new, 1)["submission_id"].to_list() == ["sa"]


def test_one_revision_named_many_times_is_judged_once(run: Callable[..., pl.DataFrame]) -> None:
    calls: list[str] = []

    def judge(repo: str) -> Admitted:
        calls.append(repo)
        return FOUND

    new = submissions(1, "a", "b", "c").with_columns(repo=pl.lit("owner/same"))
    assert run(judge, new, 1).height == 3
    assert calls == ["owner/same"]


def test_an_epoch_without_submissions_is_an_empty_frame(run: Callable[..., pl.DataFrame]) -> None:
    assert run(lambda repo: FOUND, SUBMISSIONS.empty(), 1).equals(ADMISSIONS.empty())


def test_a_hub_that_has_lost_the_genesis_models_stops_no_admissions(tmp_path: Path, make: ModuleType) -> None:
    """They were fetched in an earlier epoch, and what was fetched stays: a hub outage for one of them is no outage of admission."""
    hub = LocalHub(tmp_path / "hub")
    revision = hub.publish("base/model", make.write_checkpoint(tmp_path / "model"))
    settings = Settings(scoring=ScoringSettings(genesis=(GenesisModel(repo="base/model", revision=revision),)))
    before = genesis_texts(hub, settings)
    assert len(before) == 2
    shutil.rmtree(hub.root / "base")
    assert genesis_texts(LocalHub(tmp_path / "hub"), settings) == before
    frame = admit(hub, settings, submissions(1, "a"), ADMISSIONS.empty(), 1)
    assert outcome(frame) == [("deferred", "not_found_yet", "hub", 1)]


def test_a_genesis_model_that_was_never_fetched_is_not_guessed(tmp_path: Path) -> None:
    settings = Settings(scoring=ScoringSettings(genesis=(GenesisModel(repo="base/model", revision="0" * 40),)))
    with pytest.raises(AffineError, match="not_found"):
        genesis_texts(LocalHub(tmp_path), settings)
