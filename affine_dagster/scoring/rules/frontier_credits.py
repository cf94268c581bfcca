"""Our own rule as one among others: the arithmetic that keeps the books, from one epoch to the next without a table between.

What must not go in: any arithmetic of it (``scoring/``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from affine_dagster.scoring.counts import Counts
from affine_dagster.scoring.credits import Credit, chronological_credits, credits_of
from affine_dagster.scoring.frontier import Member, Now, advance_members
from affine_dagster.scoring.pairs import Contest, EpochPairs, Pair, judge_epoch
from affine_dagster.scoring.rule import FrontierCredits
from affine_dagster.scoring.rules.protocol import Placing, Round, Ruling
from affine_dagster.scoring.weights import TOTAL, owed_units, paid_weights
from affine_dagster.settings import Settings

__all__ = ["Books", "FrontierCreditsReplay"]


@dataclass(frozen=True)
class Books:
    """What the rule knows after an epoch. ``members`` None: before the first. ``units``: the members' credits in grid cells."""

    contests: _ContestBook
    members: tuple[Member, ...] | None = None
    units: tuple[int, ...] = ()


@dataclass(frozen=True)
class FrontierCreditsReplay:
    """Chronological marginal hypervolume (DESIGN section 4) under ``settings``; it decides on the results that there are.

    Crowned is whoever was accepted in the round; nobody is ever terminated. Epochs come in ascending order.
    """

    settings: Settings
    name: str = "frontier_credits"
    version: int = FrontierCredits.version
    window_blocks: int | None = 0

    def begin(self) -> Books:
        """No evidence and no frontier."""
        return Books(_ContestBook())

    def advance(self, state: Books, given: Round) -> Ruling[Books]:
        """One epoch: the same as :class:`~affine_dagster.scoring.rule.FrontierCredits` on the tables."""
        inputs, scoring = given.inputs, self.settings.scoring
        rewards = inputs.rewards.clear() if inputs.withheld else inputs.rewards
        pairs = judge_epoch(inputs.plan, rewards, state.contests.before(inputs.epoch), self.settings, inputs.epoch)
        state.contests.add(inputs.epoch, pairs)
        now = Now(inputs.epoch, inputs.boundary_block, self.settings, inputs.withheld)
        members = tuple(advance_members(state.members, pairs.contests, inputs.plan, inputs.models, inputs.assays, now))
        after = Books(state.contests, members, _units(state, members))
        owed = credits_of(members, after.units, inputs.registered, inputs.boundary_block, scoring.half_life_blocks)
        decayed = owed_units(((one.member.hotkey, one.decayed) for one in owed), inputs.registered, inputs.burn_hotkey)
        weights = paid_weights(decayed, inputs.burn_hotkey, len(self.settings.evaluation.environments), scoring)
        crowned = tuple(one.hotkey for one in members if one.accepted_epoch == inputs.epoch and one.hotkey is not None)
        return Ruling(after, tuple(_placings(owed, weights, given, scoring.grid)), crowned=crowned)


def _units(state: Books, members: Sequence[Member]) -> tuple[int, ...]:
    """The members' credits; a credit hangs on its own v and on the u of those before it, so those up to the first change stand."""
    before = state.members or ()
    same = sum(1 for _ in takewhile(lambda pair: _measure(pair[0]) == _measure(pair[1]), zip(before, members, strict=False)))
    lower, upper = [one.lower for one in members], [one.upper for one in members]
    return tuple(chronological_credits(lower, upper, state.units[:same]))


def _measure(member: Member) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return member.lower, member.upper


def _placings(owed: Sequence[Credit], weights: Mapping[str, int], given: Round, grid: int) -> Iterator[Placing]:
    """One for each entrant, and for whoever else has weight: the burn hotkey, or an owner that has no model of its own."""
    credits = {one.member.hotkey: one for one in sorted(owed, key=lambda one: one.member.accepted_block)}
    digests = {one.hotkey: one.weights_digest for one in given.entrants}
    for hotkey in dict.fromkeys([*digests, *(hotkey for hotkey, weight in weights.items() if weight)]):
        credit, share = credits.get(hotkey), weights.get(hotkey, 0) / TOTAL
        reason = "burned" if hotkey == given.inputs.burn_hotkey else "no_credit" if credit is None else credit.reason
        digest = digests.get(hotkey, "" if credit is None else credit.member.weights_digest)
        detail = "" if credit is None else f"credit {credit.units / grid ** len(credit.member.environments):.6f}"
        yield Placing(hotkey, digest, share, reason, detail)


# --- contests -----------------------------------------------------------------------------------------------------------------

_Kept = tuple[int, Contest, bytes, bytes]
"""An epoch, a contest, and its histograms as bytes: entries of int32 (row, bin, count), and int32 of what is missing, a row."""


class _ContestBook:
    """Where every pair stood after each epoch in which it was judged, packed small: a year has a million of them."""

    def __init__(self) -> None:
        self._kept: dict[Pair, tuple[_Kept, ...]] = {}

    def add(self, epoch: int, pairs: EpochPairs) -> None:
        """Take in an epoch's contests, in place of what was known of this epoch or later."""
        width, counts = len(pairs.environments), pairs.counts
        entries = np.stack([counts.rows % width, counts.bins, counts.counts], axis=1).astype(np.int32)
        missing = counts.missing.astype(np.int32)
        edges = np.searchsorted(counts.rows, np.arange(0, counts.height + 1, width)).tolist()
        for at, ((challenger, incumbent), contest) in enumerate(pairs.contests.items()):
            pair = (challenger, sys.intern(incumbent))
            earlier = tuple(one for one in self._kept.get(pair, ()) if one[0] < epoch)[-1:]
            packed = entries[edges[at] : edges[at + 1]].tobytes(), missing[at * width : (at + 1) * width].tobytes()
            self._kept[pair] = (*earlier, (epoch, contest, *packed))

    def before(self, epoch: int) -> ContestsBefore:
        """The newest of each pair before an epoch."""
        return ContestsBefore(self._kept, epoch)


class ContestsBefore:
    """What was known of the pairs before an epoch."""

    def __init__(self, kept: Mapping[Pair, tuple[_Kept, ...]], epoch: int) -> None:
        self._kept = kept
        self._epoch = epoch

    def _newest(self, pair: Pair) -> _Kept | None:
        return next((one for one in reversed(self._kept.get(pair, ())) if one[0] < self._epoch), None)

    def contest(self, pair: Pair) -> Contest | None:
        """Where a pair stood; None for a new one."""
        known = self._newest(pair)
        return None if known is None else known[1]

    def counts(self, pair: Pair) -> Counts:
        """Its merged histograms."""
        known = self._newest(pair)
        if known is None:
            raise KeyError(pair)
        rows, bins, counts = np.frombuffer(known[2], dtype=np.int32).reshape(-1, 3).astype(np.int64).T
        return Counts(rows, bins, counts, np.frombuffer(known[3], dtype=np.int32).astype(np.int64))
