"""Small books for the leaderboard's tests: one line a fact, everything else filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
import pytest

from affine_dagster.leaderboard.standings import StandingInputs, standings
from affine_dagster.tables import (
    ADMISSIONS,
    CONTESTS,
    CREDITS,
    FINGERPRINT_FAILURES,
    FINGERPRINTS,
    FRONTIER,
    KINSHIP,
    PLAN,
    STANDINGS,
    SUBMISSIONS,
    WEIGHTS,
    Table,
)

EPOCH = 5
ENVIRONMENTS = ("left", "right")

Row = Mapping[str, Any]

_DEFAULTS: Mapping[str, Any] = {
    "epoch": EPOCH, "hotkey": "h-a", "coldkey": "c-a", "uid": 1, "block": 10, "extrinsic_index": 0, "repo": "a/model",
    "revision": "0" * 40, "genesis": False, "rule": "frontier_credits", "environments": list(ENVIRONMENTS),
}


def filled(table: Table, **values: Any) -> pl.DataFrame:
    """One row of a table: the given values, else usual ones, else null."""
    return table.frame([{name: values.get(name, _DEFAULTS.get(name)) for name in table.columns}])


@dataclass(frozen=True)
class Books:
    """The tables of one epoch so far. Every method returns books with one more fact."""

    frames: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    withheld: bool = False

    def plus(self, table: Table, **values: Any) -> Books:
        known = self.frames.get(table.name, table.empty())
        return replace(self, frames={**self.frames, table.name: known.vstack(filled(table, **values))})

    def committed(self, submission: str = "a1", **values: Any) -> Books:
        facts = {"submission_id": submission, "state": "submitted", "reason": "submitted", "repo": f"{submission}/model", **values}
        return self.plus(SUBMISSIONS, **facts)

    def judged(self, submission: str = "a1", state: str = "admitted", reason: str = "admitted", **values: Any) -> Books:
        return self.plus(ADMISSIONS, submission_id=submission, state=state, reason=reason, **values)

    def unread(self, submission: str = "a1", state: str = "deferred", reason: str = "fingerprint_failed", **values: Any) -> Books:
        """Admitted, and its files could not be read for a fingerprint."""
        return self.plus(FINGERPRINT_FAILURES, submission_id=submission, state=state, reason=reason, **values)

    def related(self, submission: str = "a1", verdict: str = "origin", reason: str = "origin", **values: Any) -> Books:
        """Kinship's verdict, and the fingerprint below it. The weights digest is the submission's id in capitals."""
        facts = {"submission_id": submission, "weights_digest": submission.upper(), **values}
        return self.plus(FINGERPRINTS, **facts).plus(KINSHIP, **facts, verdict=verdict, reason=reason)

    def origin(self, submission: str = "a1", **values: Any) -> Books:
        """A submission that admission and kinship have let through."""
        return self.committed(submission, **values).judged(submission, **values).related(submission, **values)

    def genesis(self) -> Books:
        facts = {"submission_id": "genesis-0", "hotkey": None, "block": -1, "repo": "affine/base", "genesis": True}
        made = self.plus(FINGERPRINTS, weights_digest="BASE", **facts)
        return made.member("genesis-0", weights_digest="BASE", **{name: facts[name] for name in ("hotkey", "block", "genesis")})

    def planned(self, submission: str = "a1", *, runs: bool = True, reason: str = "evaluating", **values: Any) -> Books:
        facts = {"role": "challenger", "purpose": "contest", "opponents": ["BASE"], "weights_digest": submission.upper(), **values}
        return self.plus(PLAN, submission_id=submission, planned=runs, reason=reason, task_epoch=EPOCH, tasks=100, **facts)

    def fought(self, submission: str = "a1", state: str = "undecided", incumbent: str = "BASE", **values: Any) -> Books:
        facts = {"reason": {"expired": "expired_undecided"}.get(state, state), **values}
        return self.plus(CONTESTS, challenger=submission.upper(), incumbent=incumbent, state=state, **facts)

    def member(self, submission: str = "a1", **values: Any) -> Books:
        facts = {"weights_digest": submission.upper(), "incumbent": True, "assay_complete": True, **values}
        return self.plus(FRONTIER, submission_id=submission, **facts)

    def credited(self, submission: str = "a1", reason: str = "credited", **values: Any) -> Books:
        facts = {"weights_digest": submission.upper(), "credit": 0.25, "registered": True, **values}
        return self.plus(CREDITS, submission_id=submission, reason=reason, **facts)

    def paid(self, hotkey: str = "h-a", weight: int = 65_535, *, burn: bool = False) -> Books:
        return self.plus(WEIGHTS, hotkey=hotkey, weight=weight, share=weight / 65_535, burn=burn, sendable=True, reason="sendable")

    def before(self, submission: str = "a1", **values: Any) -> Books:
        """What the epoch before said."""
        return self.plus(STANDINGS, **{"epoch": EPOCH - 1, "submission_id": submission, "since_epoch": 2, "first_epoch": 2, **values})

    def standings(self) -> pl.DataFrame:
        tables = {
            "submissions": SUBMISSIONS, "admissions": ADMISSIONS, "fingerprints": FINGERPRINTS,
            "failures": FINGERPRINT_FAILURES, "kinship": KINSHIP, "plan": PLAN,
            "contests": CONTESTS, "frontier": FRONTIER, "credits": CREDITS, "weights": WEIGHTS, "prior": STANDINGS,
        }
        frames = {name: self.frames.get(table.name, table.empty()) for name, table in tables.items()}
        return standings(StandingInputs(epoch=EPOCH, withheld=self.withheld, **frames))

    def status(self, submission: str = "a1") -> Row:
        (row,) = self.standings().filter(pl.col("submission_id") == submission).to_dicts()
        return row


@pytest.fixture
def books() -> Books:
    """Books with the genesis model alone."""
    return Books().genesis()
