"""The past as the books and the ledger hold it, epoch by epoch, for rules that were not the one that paid.

What must not go in: any rule (``scoring/rules/``), and writing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from affine_dagster.ledger import Ledger
from affine_dagster.reasons import AffineError
from affine_dagster.scoring.models import origin_models
from affine_dagster.scoring.rules.replay import PastEpoch, present_entrants
from affine_dagster.store import Tables
from affine_dagster.tables import EPOCHS, FINGERPRINTS, KINSHIP, NEURONS, PLAN

__all__ = ["History", "epoch_range"]


def epoch_range(text: str, known: Sequence[int]) -> list[int]:
    """The epochs that ``A..B``, ``A..``, ``..B`` or ``all`` names, among those that are known, in order.

    Raises ``bad_settings`` for another form, and where it names none.
    """
    first, dots, last = ("", "..", "") if text == "all" else text.partition("..")
    if dots != ".." or not all(part == "" or (part.isascii() and part.isdigit()) for part in (first, last)):
        raise AffineError("bad_settings", f"epochs: {text!r} is not A..B, A.., ..B or all")
    chosen = [epoch for epoch in sorted(known) if (not first or epoch >= int(first)) and (not last or epoch <= int(last))]
    if not chosen:
        there = f"{min(known)}..{max(known)}" if known else "none"
        raise AffineError("bad_settings", f"epochs: {text} names none of those that have a plan: {there}")
    return chosen


@dataclass(frozen=True)
class History:
    """Reads one store."""

    tables: Tables
    ledger: Ledger

    @property
    def epochs(self) -> list[int]:
        """The epochs that have a plan, ascending."""
        return sorted(self.tables.epochs(PLAN))

    def past(self, epochs: Sequence[int]) -> Iterator[PastEpoch]:
        """These epochs, in order, each with what was known in it. Raises ``missing_input`` where a table is absent."""
        last = max(epochs, default=0)
        fingerprints, kinship = self.tables.until(FINGERPRINTS, last), self.tables.until(KINSHIP, last)
        for epoch in epochs:
            known = fingerprints.filter(pl.col("epoch") <= epoch)
            models = origin_models(known, kinship.filter(pl.col("epoch") <= epoch))
            neurons, chain = self.tables.need(NEURONS, epoch), self.tables.need(EPOCHS, epoch).row(0, named=True)
            first = neurons.filter(pl.col("uid") == 0)["hotkey"].to_list()
            yield PastEpoch(
                epoch=epoch,
                boundary_block=int(chain["boundary_block"]),
                entrants=present_entrants(known, models, neurons),
                rewards=self.ledger.rewards(epoch),
                registered=frozenset(neurons["hotkey"]),
                sink=first[0] if first else str(chain["owner_hotkey"]),
            )
