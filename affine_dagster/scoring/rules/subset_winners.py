"""The rule of September 2025: one winner for each subset of environments, larger subsets worth more.

Source: the subnet's validator of September 2025. Known defects, kept: dominance is not antisymmetric ((.51, .50) and (.50, .51) at 1,000
tasks dominate each other) and not transitive, and as it was deployed the clause for the earlier of two equals never fired.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from affine_dagster.scoring.rules.matrix import Entrant
from affine_dagster.scoring.rules.protocol import Round, Ruling, placings

__all__ = ["SubsetWinners", "dominates"]

_Z = 0.84
_NOT_WORSE = 0.002
_BETTER = 0.0015


@dataclass(frozen=True)
class _Standing:
    entrant: Entrant
    means: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class _Pair:
    """In which environments one of two is not worse, is better, and cannot be told from the other: one bit each."""

    not_worse: int
    better: int
    alike: int


def _pair(one: _Standing, other: _Standing) -> _Pair:
    not_worse = better = alike = 0
    for at, (mine, theirs) in enumerate(zip(one.means, other.means, strict=True)):
        spread = mine * (1 - mine) / max(one.counts[at], 1) + theirs * (1 - theirs) / max(other.counts[at], 1)
        allowed = max(_NOT_WORSE, _Z * math.sqrt(spread))
        not_worse |= (mine >= theirs - allowed) << at
        better |= (mine >= theirs + min(_BETTER, allowed)) << at
        alike |= (abs(mine - theirs) <= allowed) << at
    return _Pair(not_worse, better, alike)


def dominates(pair: _Pair, subset: int, *, earlier: bool) -> bool:
    """Whether the first of a pair dominates the second on a subset of environments. ``earlier``: whether being earlier decides a tie."""
    if subset & ~pair.not_worse == 0 and subset & pair.better:
        return True
    return earlier and subset & ~pair.alike == 0


@dataclass(frozen=True)
class SubsetWinners:
    """Points κ·2^s (κ for s = 1) for each non-empty subset of s environments that an entrant wins, shared among the eligible.

    Eligible: at least ``least`` + 1 % of the most results of anybody, in every environment. The winner on a subset dominates most others
    on it; of several the best mean over it, then the earliest. If nobody is eligible, the winner on all environments takes all.
    ``as_deployed``: two that cannot be told apart do not dominate each other, whoever came first.
    """

    least: int = 150
    as_deployed: bool = True
    name: str = "subset_winners"
    version: int = 1
    window_blocks: int | None = 20_000

    def begin(self) -> None:
        """It has no state: the round's results are the window's."""

    def advance(self, state: None, given: Round) -> Ruling[None]:
        """One epoch."""
        counts, means = given.matrix.counts.tolist(), given.matrix.means.tolist()
        everybody = [_Standing(one, tuple(mean), tuple(ran)) for one, mean, ran in zip(given.matrix.entrants, means, counts, strict=True)]
        asked = [self.least + int(0.01 * most) for most in given.matrix.counts.max(axis=0, initial=0).tolist()]
        eligible = [one for one in everybody if all(ran >= least for ran, least in zip(one.counts, asked, strict=True))]
        points = self._points(eligible, len(asked)) if eligible else self._best(everybody, len(asked))
        whole = sum(points.values())
        reasons = {name: ("subsets_won", f"{won} of {whole} points") for name, won in points.items()}
        shares = {name: won / whole for name, won in points.items()}
        return Ruling(None, placings(given.matrix.entrants, shares, reasons, given.matrix.covered(asked)))

    def _points(self, pool: Sequence[_Standing], width: int) -> dict[str, int]:
        """Whole points by hotkey, in units of κ."""
        pairs = {(i, j): _pair(one, other) for i, one in enumerate(pool) for j, other in enumerate(pool) if i != j}
        points: dict[str, int] = {}
        for size in range(1, width + 1):
            for chosen in combinations(range(width), size):
                winner = pool[self._winner(pool, pairs, chosen)].entrant.hotkey
                points[winner] = points.get(winner, 0) + (1 if size == 1 else 2**size)
        return points

    def _best(self, pool: Sequence[_Standing], width: int) -> dict[str, int]:
        if not pool or not width:
            return {}
        pairs = {(i, j): _pair(one, other) for i, one in enumerate(pool) for j, other in enumerate(pool) if i != j}
        return {pool[self._winner(pool, pairs, range(width))].entrant.hotkey: 1}

    def _winner(self, pool: Sequence[_Standing], pairs: dict[tuple[int, int], _Pair], chosen: Sequence[int]) -> int:
        subset = sum(1 << at for at in chosen)
        over = [0] * len(pool)
        for (i, j), pair in pairs.items():
            earlier = not self.as_deployed and pool[i].entrant.position < pool[j].entrant.position
            over[i] += dominates(pair, subset, earlier=earlier)

        def key(i: int) -> tuple[float, float, tuple[int, int]]:
            return -over[i], -sum(pool[i].means[at] for at in chosen), pool[i].entrant.position

        return min(range(len(pool)), key=key)
