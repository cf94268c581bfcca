"""What the counts of many pairs say, as e-values: the four bets and the partial win of DESIGN section 4 for differences of -1, 0 and 1.

The arithmetic of ``scoring/contest.py`` in floating point, which a simulation may use and the chain may not. What must not go in: drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from affine_dagster.league.simulation.draws import Array

__all__ = ["Seen", "seen_in"]


@dataclass(frozen=True)
class Seen:
    """E-values of pairs over their environments.

    ``partial``: of a win somewhere or broadly; ``not_worse``: the least; ``futile``: the least; ``regressed``: the largest.
    """

    partial: Array
    not_worse: Array
    futile: Array
    regressed: Array

    def wins(self, win: Array, not_worse: Array) -> Array:
        """Whether a pair is won at these thresholds, which are 1/alpha."""
        return (self.partial >= win) & (self.not_worse >= not_worse)

    def loses(self, not_worse: Array, futile: Array) -> Array:
        """Whether it has regressed or is futile."""
        return (self.regressed >= not_worse) | (self.futile >= futile)


def seen_in(engine: Any, factors: Sequence[Array], wins: Array, ties: Array, losses: Array, axis: int) -> Seen:
    """From counts by environment along ``axis``; ``factors``: of the four kinds, see ``tables.log_factors``."""
    win, not_worse, futile, regressed = (_wealth(engine, kind, wins, ties, losses) for kind in factors)
    partial = 0.5 * win.mean(axis=axis) + 0.5 * ((1 + win) / 2).prod(axis=axis)
    return Seen(partial, not_worse.min(axis=axis), futile.min(axis=axis), regressed.max(axis=axis))


def _wealth(engine: Any, bets: Array, wins: Array, ties: Array, losses: Array) -> Array:
    """mean_k exp(losses · ln f(−1) + ties · ln f(0) + wins · ln f(1)): the e-value of one kind, entry by entry."""
    total = 0.0
    for lost, tied, won in bets:
        total = total + engine.exp(wins * won + ties * tied + losses * lost)
    return total / len(bets)
