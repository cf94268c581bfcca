"""Our own rule as one among others: the fold that keeps the books, told in the words of a replay.

What must not go in: any arithmetic of it (``scoring/``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from affine_dagster.scoring.rule import FrontierCredits, Outcome, PriorState
from affine_dagster.scoring.rules.protocol import Placing, Round, Ruling
from affine_dagster.scoring.weights import TOTAL
from affine_dagster.settings import Settings
from affine_dagster.tables import CONTESTS, EVIDENCE

__all__ = ["FrontierCreditsReplay"]

_PAIR = ["challenger", "incumbent"]


@dataclass(frozen=True)
class FrontierCreditsReplay:
    """Chronological marginal hypervolume (DESIGN section 4) under ``settings``; it decides on the results that there are.

    Crowned is whoever was accepted in the round; nobody is ever terminated.
    """

    settings: Settings
    name: str = "frontier_credits"
    version: int = FrontierCredits.version
    window_blocks: int | None = 0

    def begin(self) -> PriorState:
        """No evidence and no frontier."""
        return PriorState(EVIDENCE.empty(), CONTESTS.empty(), None)

    def advance(self, state: PriorState, given: Round) -> Ruling[PriorState]:
        """One epoch."""
        outcome = FrontierCredits().advance(state, given.inputs, self.settings)
        accepted = outcome.frontier.filter((pl.col("accepted_epoch") == given.inputs.epoch) & ~pl.col("genesis"))
        after = PriorState(
            _newest(pl.concat([state.evidence, outcome.evidence]), [*_PAIR, "environment"]),
            _newest(pl.concat([state.contests, outcome.contests]), _PAIR),
            outcome.frontier,
        )
        return Ruling(after, tuple(_placings(outcome, given)), crowned=tuple(accepted["hotkey"]))


def _newest(frame: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """The newest row of each pair: all that the next epoch reads."""
    return frame.sort("epoch").unique(key, keep="last", maintain_order=True)


def _placings(outcome: Outcome, given: Round) -> Iterator[Placing]:
    """One for each entrant, and for whoever else has weight: the burn hotkey, or an owner that has no model of its own."""
    weights = dict(outcome.weights.filter(pl.col("weight") > 0).select("hotkey", "weight").iter_rows())
    credits = {row["hotkey"]: row for row in outcome.credits.sort("accepted_block").iter_rows(named=True)}
    digests = {one.hotkey: one.weights_digest for one in given.matrix.entrants}
    for hotkey in dict.fromkeys([*digests, *weights]):
        credit = credits.get(hotkey)
        reason = "burned" if hotkey == given.inputs.burn_hotkey else "no_credit" if credit is None else str(credit["reason"])
        digest = digests.get(hotkey, "" if credit is None else str(credit["weights_digest"]))
        yield Placing(hotkey, digest, weights.get(hotkey, 0) / TOTAL, reason, "" if credit is None else f"credit {credit['credit']:.6f}")
