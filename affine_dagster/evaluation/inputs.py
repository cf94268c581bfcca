"""What a plan is made from, read from the tables; and which epoch's closed state an epoch starts from.

What must not go in: the plan itself (``planning.py``).
"""

from __future__ import annotations

from affine_dagster.evaluation.planning import PlanInputs
from affine_dagster.reasons import AffineError
from affine_dagster.settings import Settings, scorer_version
from affine_dagster.store import Tables
from affine_dagster.tables import (
    ADMISSIONS,
    CONTESTS,
    EPOCHS,
    EVIDENCE,
    FINGERPRINTS,
    FRONTIER,
    KINSHIP,
    PLAN,
    SUBMISSIONS,
    SWAPS,
)

__all__ = ["plan_inputs", "prior_epoch"]


def prior_epoch(tables: Tables, epoch: int, scorer: str) -> int | None:
    """The epoch before this one whose closed state it starts from; None for the first.

    Epochs follow each other without gaps: one that was killed before it had a plan must not be passed over, or what comes after
    it would depend on when it was killed. Raises ``missing_input`` while the epoch before is unfinished,
    ``scorer_without_history`` where only other scorers have closed it.
    """
    before = tables.newest_before(PLAN, epoch)
    snapshot = tables.newest_before(EPOCHS, epoch)
    if (before is not None or snapshot is not None) and before != epoch - 1:
        raise AffineError("missing_input", f"epoch {epoch - 1} is unfinished: it has no plan")
    if before is None or tables.read(FRONTIER, before, scorer) is not None:
        return before
    others = [other for other in tables.scorers(FRONTIER) if tables.read(FRONTIER, before, other) is not None]
    if others:
        raise AffineError("scorer_without_history", f"scorer {scorer} has no frontier of epoch {before}; {', '.join(others)} has")
    raise AffineError("missing_input", f"epoch {before} is unfinished: it has a plan and no frontier")


def plan_inputs(tables: Tables, settings: Settings, epoch: int) -> PlanInputs:
    """All that the plan of an epoch is made from. Raises as :func:`prior_epoch`, and ``missing_input`` for an absent table."""
    scorer = scorer_version(settings)
    before = prior_epoch(tables, epoch, scorer)
    known = -1 if before is None else before
    return PlanInputs(
        epoch=epoch,
        prior_epoch=before,
        epochs=tables.until(EPOCHS, epoch),
        submissions=tables.until(SUBMISSIONS, epoch),
        swaps=tables.until(SWAPS, epoch),
        admissions=tables.until(ADMISSIONS, epoch),
        fingerprints=tables.until(FINGERPRINTS, epoch),
        kinship=tables.until(KINSHIP, epoch),
        frontier=None if before is None else tables.need(FRONTIER, before, scorer),
        contests=tables.until(CONTESTS, known, scorer),
        evidence=tables.until(EVIDENCE, known, scorer),
        plans=tables.until(PLAN, epoch, inclusive=False),
    )
