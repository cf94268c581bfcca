"""Log e-values of one pair in one environment, from its histogram.

Win, not worse, futile and regressed are four betting e-processes over the same integer counts (DESIGN section 4; Ville 1939;
Waudby-Smith & Ramdas 2024), valid at every stopping time. Sums run over sorted bins by ``math.fsum``, so the bytes do not
depend on the order in which tasks or shards arrived. What must not go in: thresholds and verdicts (``contest.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from affine_dagster.scoring.bets import LOSING_MULTIPLIERS, WINNING_MULTIPLIERS, planned_bets
from affine_dagster.scoring.histogram import STEPS, Histogram

__all__ = ["LogEvidence", "Stakes", "log_evidence", "log_mean", "log_wealth"]


@dataclass(frozen=True)
class Stakes:
    """What the bets of a contest are laid on, all in reward: m, tau, D1 and the planned discordance q."""

    margin: float
    tolerance: float
    gain: float
    discordance: float


@dataclass(frozen=True)
class LogEvidence:
    """Natural logarithms of the four e-values of one pair in one environment; 0 without data."""

    win: float
    not_worse: float
    futile: float
    regressed: float


def log_mean(logs: Sequence[float]) -> float:
    """Log of the mean of exp(logs), without overflow; -inf entries count as 0."""
    top = max(logs)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(value - top) for value in logs) / len(logs))


def log_wealth(histogram: Histogram, centre: float, sign: float, stakes: Iterable[float]) -> float:
    """Log of mean_k Π (1 + stake_k · sign · (d − centre)), d in reward.

    Every factor must be positive: the stakes' cap (``bets.bet``) sees to it.
    """
    gains = [(sign * (key / STEPS - centre), count) for key, count in histogram.bins]
    return log_mean([math.fsum(count * math.log1p(stake * gain) for gain, count in gains) for stake in stakes])


def log_evidence(histogram: Histogram, stakes: Stakes) -> LogEvidence:
    """The four log e-values. A missing task counts as d = −1 for win and not worse, as d = +1 for futile and regressed.

    So a missing task lowers all four: it can prolong a contest, never help either side, never end it.
    """
    worst, best = histogram.filled(-STEPS), histogram.filled(STEPS)
    q, margin, tolerance, gain = stakes.discordance, stakes.margin, stakes.tolerance, stakes.gain
    return LogEvidence(
        win=log_wealth(worst, margin, 1.0, planned_bets(gain - margin, q, WINNING_MULTIPLIERS, 1 + margin)),
        not_worse=log_wealth(worst, -tolerance, 1.0, planned_bets(tolerance, q, WINNING_MULTIPLIERS, 1 - tolerance)),
        futile=log_wealth(best, gain, -1.0, planned_bets(gain - margin, q, LOSING_MULTIPLIERS, 1 - gain)),
        regressed=log_wealth(best, -tolerance, -1.0, planned_bets(tolerance, q, LOSING_MULTIPLIERS, 1 + tolerance)),
    )
