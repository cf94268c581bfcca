"""An epoch's admissions: a row for each submission, deferral with a bound, grace, and nobody harmed by another."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from affine_dagster.admission import batch
from affine_dagster.admission.batch import admit, genesis_texts
from affine_dagster.admission.judging import Admitted, ManifestFile
from affine_dagster.hub.local import LocalHub
from affine_dagster.reasons import AffineError
from affine_dagster.settings import AdmissionSettings, GenesisModel, HubSettings, ScoringSettings, Settings
from affine_dagster.tables import ADMISSIONS, SUBMISSIONS, SWAPS

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
    def go(judge: Judge, new: pl.DataFrame, epoch: int, earlier: pl.DataFrame | None = None, budget: int = 100) -> pl.DataFrame:
        monkeypatch.setattr(batch, "judge", lambda hub, settings, repo, revision, templates: judge(repo))
        settings = SETTINGS.model_copy(update={"admission": SETTINGS.admission.model_copy(update={"revisions_per_epoch": budget})})
        return admit(LocalHub(tmp_path), settings, new, ADMISSIONS.empty() if earlier is None else earlier, epoch, frozenset())

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


def of_owner(coldkey: str, *names: str, epoch: int = 1, block: int | None = None) -> pl.DataFrame:
    made = submissions(epoch, *names).with_columns(coldkey=pl.lit(coldkey))
    return made if block is None else made.with_columns(block=pl.lit(block, pl.Int64))


def judged(frame: pl.DataFrame) -> list[str]:
    """The submissions that came in, in commit order; all others must say that they wait in line."""
    others = frame.filter(pl.col("state") != "admitted").select("state", "reason", "fault").unique().rows()
    assert others in ([], [("deferred", "admission_budget", None)])
    return frame.filter(pl.col("state") == "admitted")["submission_id"].to_list()


def test_an_epoch_judges_so_many_revisions_and_the_earliest_first(run: Callable[..., pl.DataFrame]) -> None:
    """A flood of slow commitments delays no epoch beyond its budget."""
    calls: list[str] = []

    def judge(repo: str) -> Admitted:
        calls.append(repo)
        return FOUND

    new = pl.concat([of_owner(f"c{name}", name, block=at) for at, name in enumerate("dcba")])
    assert judged(run(judge, new, 1, budget=3)) == ["sd", "sc", "sb"]
    assert calls == ["owner/d", "owner/c", "owner/b"]


def test_the_flooder_waits_for_himself(run: Callable[..., pl.DataFrame]) -> None:
    """Fifty earlier commitments of one coldkey, under hotkeys of their own, hold up nobody else by more than one."""
    flood = of_owner("flooder", *(f"f{at:02d}" for at in range(50)), block=1)
    new = pl.concat([flood, of_owner("honest", "a", block=2), of_owner("other", "b", block=3)])
    first = run(lambda repo: FOUND, new, 1, budget=3)
    assert judged(first) == ["sf00", "sa", "sb"]
    assert judged(run(lambda repo: FOUND, new, 2, first, budget=3)) == ["sf01", "sf02", "sf03"]


def test_swapped_hotkeys_stand_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "judge", lambda *_: FOUND)
    new = pl.concat([of_owner("c1", "a", block=1), of_owner("c2", "b", block=2), of_owner("c3", "c", block=3)])
    swap = {"epoch": 1, "block": 1, "coldkey": "c1", "old_hotkey": "ha", "new_hotkey": "hb"}
    settings = Settings(admission=AdmissionSettings(revisions_per_epoch=2))
    frame = admit(LocalHub(tmp_path), settings, new, ADMISSIONS.empty(), 1, frozenset(), SWAPS.frame([swap]))
    assert judged(frame) == ["sa", "sc"]


def test_waiting_in_line_is_no_deferral_and_never_ends_in_a_refusal(run: Callable[..., pl.DataFrame]) -> None:
    names = [f"f{at:02d}" for at in range(10)]
    new, earlier = of_owner("one", *names), ADMISSIONS.empty()
    for epoch in range(1, 11):
        earlier = pl.concat([earlier, run(lambda repo: FOUND, new, epoch, earlier, budget=1)])
    last = earlier.filter(pl.col("submission_id") == "sf09")
    assert last["state"].to_list() == ["deferred"] * 9 + ["admitted"]
    assert last["deferrals"].to_list() == [0] * 10


def test_a_revision_that_is_judged_anyway_comes_in_over_the_budget(run: Callable[..., pl.DataFrame]) -> None:
    """The same revision under many names costs once."""
    new = pl.concat([of_owner(name, name, block=at) for at, name in enumerate("abc")])
    same = new.with_columns(repo=pl.when(pl.col("submission_id") == "sb").then("repo").otherwise(pl.lit("owner/same")))
    assert judged(run(lambda repo: FOUND, same, 1, budget=1)) == ["sa", "sc"]


def test_a_budget_is_spent_once_however_often_its_epoch_is_run(run: Callable[..., pl.DataFrame]) -> None:
    """Killed after its rows were written, an epoch that begins again admits nobody more: the plan hangs on it."""
    new = pl.concat([of_owner(name, name, block=at) for at, name in enumerate("abcd")])
    first = run(lambda repo: FOUND, new, 1, budget=2)
    assert run(lambda repo: FOUND, new, 1, first, budget=2).equals(first)


ARRIVALS = st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=5)


@given(ARRIVALS, st.integers(1, 4))
@examples(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nobody_starves(run: Callable[..., pl.DataFrame], arrivals: list[list[int]], budget: int) -> None:
    """Each epoch judges the oldest commitment of all, works while it has budget, and keeps every owner's order."""
    earlier, known, seen = ADMISSIONS.empty(), SUBMISSIONS.empty(), 0
    total = sum(len(owners) for owners in arrivals)
    for epoch in range(1, len(arrivals) + total + 2):
        for owner in arrivals[epoch - 1] if epoch <= len(arrivals) else []:
            known = pl.concat([known, of_owner(f"c{owner}", f"{seen:03d}", epoch=epoch, block=seen)])
            seen += 1
        done = set(earlier.filter(pl.col("state") == "admitted")["submission_id"])
        waiting = [name for name in known["submission_id"] if name not in done]
        made = run(lambda repo: FOUND, known, epoch, earlier, budget=budget)
        came = judged(made)
        assert len(came) == min(budget, len(waiting))
        assert came[:1] == waiting[:1]
        owner_of = dict(known.select("submission_id", "coldkey").iter_rows())
        for owner in set(owner_of.values()):
            line = [name for name in waiting if owner_of[name] == owner]
            mine = [name for name in came if owner_of[name] == owner]
            assert line[: len(mine)] == mine
        earlier = pl.concat([earlier, made])
    assert earlier.filter(pl.col("state") == "admitted").height == total


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
