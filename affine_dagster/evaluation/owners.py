"""How alpha is spent by owner: a slot is one owner on one day, and within a slot each further try gets less.

The owner is the cluster of a hotkey (``chain/owners.py``): hotkeys are cheap, and a swapped one has no coldkey any more, so that
neither a new hotkey nor a swap is a new owner. (DESIGN section 4; a lineage joins the cluster with a later issue.) What must not
go in: whether a model may run at all (``planning.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from affine_dagster.scoring.bets import try_alpha
from affine_dagster.settings import ScoringSettings

__all__ = ["OwnerBook"]


@dataclass
class OwnerBook:
    """The tries of the day by owner, earlier plans included. It counts while a plan is made and is thrown away with it.

    ``owner_of``: the owner of each hotkey; a hotkey that is not there is an owner of its own.
    """

    owner_of: Mapping[str, str]
    tries: dict[str, int]
    scoring: ScoringSettings

    @classmethod
    def of(
        cls, epoch: int, epochs: pl.DataFrame, owner_of: Mapping[str, str], first_plan: Mapping[str, Mapping[str, Any]],
        scoring: ScoringSettings,
    ) -> OwnerBook:
        """The book at the start of an epoch's plan. ``first_plan``: the row of each challenger's first planned contest."""
        day = {row["epoch"]: row["boundary_block"] // scoring.day_blocks for row in epochs.iter_rows(named=True)}
        book = cls(owner_of, {}, scoring)
        for row in first_plan.values():
            if day[row["epoch"]] == day[epoch]:
                book.spend(row["hotkey"])
        return book

    def next_try(self, hotkey: str) -> int | None:
        """The number (from 1) that a further try of this hotkey's owner would have today; None if no slot is left."""
        owner = self.owner_of.get(hotkey, hotkey)
        if owner not in self.tries and len(self.tries) >= self.scoring.owner_slots:
            return None
        return self.tries.get(owner, 0) + 1

    def spend(self, hotkey: str) -> float:
        """Take a try of the owner's slot of today and return its alpha."""
        owner = self.owner_of.get(hotkey, hotkey)
        self.tries[owner] = self.tries.get(owner, 0) + 1
        return try_alpha(self.scoring, self.tries[owner])
