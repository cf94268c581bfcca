"""Laws of keeping score that no single room can hold: what an open breaker withholds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from affine_dagster.ledger import Ledger
from affine_dagster.reasons import AffineError
from affine_dagster.scorekeeping import ScoreKeeper
from affine_dagster.scoring.rules.replay import replay, rules_named
from affine_dagster.settings import EvaluationSettings, ScoringSettings, Settings
from affine_dagster.store import Store, Tables
from affine_dagster.tables import EPOCHS, EVIDENCE, FINGERPRINTS, KINSHIP, NEURONS, PLAN, ROLLOUTS, SUBMISSIONS, SWAPS, Table

EPOCH, TASKS = 3, 200
BASE, MINE, OTHER = "b" * 64, "c" * 64, "d" * 64
HOTKEYS = ("owner", "hsccc", "hsddd")
SETTINGS = Settings(
    evaluation=EvaluationSettings(environments=("sums",), assay_tasks=TASKS), scoring=ScoringSettings(margin=0.03, tolerance=0.1, gain=0.1)
)


def rows(table: Table, *given: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in table.columns} for row in given], schema=table.schema, orient="row")


def model(digest: str, at: int) -> dict[str, Any]:
    name = "genesis-0" if digest == BASE else f"s{digest[:3]}"
    return {
        "epoch": EPOCH, "weights_digest": digest, "tensor_set_digest": digest, "submission_id": name, "repo": f"o/{name}",
        "revision": "0" * 40, "hotkey": None if digest == BASE else f"h{name}", "block": -1 if digest == BASE else at,
        "extrinsic_index": 0, "genesis": digest == BASE, "verdict": "origin", "reason": "origin",
    }


def planned(digest: str, role: str, purpose: str = "contest") -> dict[str, Any]:
    challenge = {"opponents": [BASE], "alpha": 0.05, "discordance": 0.3} if role == "challenger" else {"opponents": []}
    fixed = {"first_task": 0, "tasks": TASKS, "tasks_before": 0, "epochs_before": 0, "planned": True, "task_epoch": EPOCH}
    return model(digest, 1) | {"role": role, "purpose": purpose} | fixed | challenge


def rollouts(digest: str, right: int, purpose: str = "contest", *, broken: bool = False) -> pl.DataFrame:
    """``right`` of the tasks are answered right, or all fail for a broken engine's sake with the model's own fault."""
    fault = {"reward": 0.0, "fault": "model", "reason": "invalid_sample"}
    fixed = {
        "epoch": EPOCH, "environment": "sums", "environment_version": "1", "purpose": purpose, "task_epoch": EPOCH,
        "weights_digest": digest, "sampling_digest": "s", "attempt": 0,
    }
    given = [fixed | {"index": at, "seed": at, "reward": float(at < right)} | (fault if broken else {}) for at in range(TASKS)]
    return rows(ROLLOUTS, *given)


@pytest.fixture
def book(tmp_path: Path) -> ScoreKeeper:
    """An epoch of a base, a challenger that is much better, and one whose runs and the base's the platform spoils on demand."""
    store = Store(str(tmp_path))
    tables = Tables(store)
    models = [model(digest, at) for at, digest in enumerate((BASE, MINE, OTHER))]
    tables.write(EPOCHS, EPOCH, rows(EPOCHS, {"epoch": EPOCH, "boundary_block": 100, "commit_reveal": False, "owner_hotkey": "owner"}))
    tables.write(NEURONS, EPOCH, rows(NEURONS, *({"epoch": EPOCH, "uid": uid, "hotkey": name} for uid, name in enumerate(HOTKEYS))))
    tables.write(SUBMISSIONS, EPOCH, SUBMISSIONS.empty())
    tables.write(SWAPS, EPOCH, SWAPS.empty())
    tables.write(FINGERPRINTS, EPOCH, rows(FINGERPRINTS, *models))
    tables.write(KINSHIP, EPOCH, rows(KINSHIP, *models[1:]))
    plan = [planned(BASE, "incumbent"), planned(MINE, "challenger"), planned(OTHER, "challenger"), planned(BASE, "assayed", "assay")]
    tables.write(PLAN, EPOCH, rows(PLAN, *plan))
    return ScoreKeeper(tables, Ledger(store), SETTINGS)


def played(book: ScoreKeeper, *, spoiled: bool) -> tuple[dict[str, tuple[str, str]], pl.DataFrame]:
    """The verdicts by challenger and the frontier."""
    right = {BASE: 60, MINE: 150, OTHER: 0}
    for digest, count in right.items():
        broken = spoiled and digest != MINE
        book.ledger.append(rollouts(digest, count, broken=broken), 0)
    book.ledger.append(rollouts(BASE, 60, "assay", broken=spoiled), 0)
    book.keep_integrity(EPOCH)
    contests = book.keep_evidence(EPOCH).filter(incumbent=BASE)
    verdicts = {row["challenger"]: (row["state"], row["reason"]) for row in contests.iter_rows(named=True)}
    return verdicts, book.keep_frontier(EPOCH)


def lowered(book: ScoreKeeper) -> ScoreKeeper:
    """With a breaker that two models of three open."""
    evaluation = book.settings.evaluation.model_copy(update={"breaker_models": 2})
    return ScoreKeeper(book.tables, book.ledger, book.settings.model_copy(update={"evaluation": evaluation}))


def test_without_a_breaker_the_epoch_has_its_verdicts(book: ScoreKeeper) -> None:
    verdicts, frontier = played(book, spoiled=False)
    assert verdicts == {MINE: ("won", "won"), OTHER: ("regressed", "regressed")}
    assert sorted(frontier["weights_digest"]) == [BASE, MINE]
    assert frontier.filter(weights_digest=BASE)["assay_complete"].item()


def test_an_open_breaker_stops_verdicts_and_evidence_for_and_against_everybody(book: ScoreKeeper) -> None:
    """DESIGN section 6: a platform fault must not end a contest for ever, nor win one."""
    book = lowered(book)
    verdicts, frontier = played(book, spoiled=True)
    assert verdicts == {MINE: ("undecided", "breaker_open"), OTHER: ("undecided", "breaker_open")}
    assert book.tables.need(EVIDENCE, EPOCH, book.scorer)["tasks"].sum() == 0
    assert frontier["weights_digest"].to_list() == [BASE]


def test_an_assay_that_the_platform_spoiled_begins_again(book: ScoreKeeper) -> None:
    """Else a member's coordinates, and with them its pay, would be measured on a broken engine and frozen."""
    _, frontier = played(lowered(book), spoiled=True)
    assert frontier.select("assay_epoch", "assay_complete").rows() == [(None, False)]
    assert frontier["upper"].to_list() == [[SETTINGS.scoring.grid]]


def test_evidence_does_not_begin_in_the_middle(book: ScoreKeeper) -> None:
    """A scorer that has not scored the epoch before would take the evidence of later ones for all there is."""
    book.tables.write(PLAN, EPOCH - 1, PLAN.empty())
    with pytest.raises(AffineError, match="scorer_without_history"):
        book.keep_evidence(EPOCH)
    assert book.tables.epochs(EVIDENCE, book.scorer) == []


@pytest.mark.parametrize("spoiled", [False, True])
def test_folding_our_rule_anew_gives_the_weights_that_were_kept(book: ScoreKeeper, *, spoiled: bool) -> None:
    book = lowered(book)
    played(book, spoiled=spoiled)
    book.keep_credits(EPOCH)
    kept = book.keep_weights(EPOCH)
    (again,) = replay(rules_named(["frontier_credits"], book.settings), book.history.past([EPOCH]), ["sums"], TASKS)
    paid = pl.col("weight") > 0
    assert again.filter(paid).select("hotkey", "weight").equals(kept.filter(paid).select("hotkey", "weight"))
    assert again.filter("crowned")["hotkey"].to_list() == ([] if spoiled else ["hsccc"])
