"""Betting confidence sequences: intervals for a mean that hold at every sample size at once.

For a mean reward in [0, 1] and for a mean difference in [-1, 1], from integer histograms. What must not go in: how an
interval is used (``scores.py`` shows it, ``frontier.py`` snaps it to the credit grid).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.evidence import log_mean
from affine_dagster.scoring.histogram import STEPS, Histogram

__all__ = ["Interval", "difference_interval", "log_capital", "reward_interval", "surely_positive"]

_STAKES = tuple(0.02 * (0.95 / 0.02) ** (step / 23) for step in range(24))
"""geomspace(.02, .95, 24): stakes from cautious to bold (rules.md, frontier_credits)."""

_HALVINGS = 21
"""Bisection steps: 2**-21 of the unit interval is under 5e-7, of [-1, 1] under 1e-6."""


@dataclass(frozen=True)
class Interval:
    """Both ends of an interval, in reward."""

    lower: float
    upper: float


def log_capital(histogram: Histogram, mean: float) -> float:
    """Log of E(m) = mean_λ Π (1 + λ·(d − m)/(1 + m)), λ in geomspace(.02, .95, 24), against "the true mean is at most m".

    Values in reward, -1 < m. E falls as m rises, for all values of at least -1. 30 wins, 60 ties and 10 losses at m = 0
    give E = 37.263 (rules.md). Missing tasks are not counted: fill them first.
    """
    gains = [((key / STEPS - mean) / (1 + mean), count) for key, count in histogram.bins]
    return log_mean([math.fsum(count * math.log1p(stake * gain) for gain, count in gains) for stake in _STAKES])


def reward_interval(histogram: Histogram, alpha: float) -> Interval:
    """The mean reward in [0, 1] at two-sided miscoverage ``alpha``; a missing task counts 0 below and 1 above.

    Ends are rounded away from each other by less than 1e-6. Without data: [0, 1].
    """
    if histogram.bins and histogram.bins[0][0] < 0:
        raise AffineError("bad_table", "a histogram of rewards has no bins under 0")
    return _interval(histogram.filled(0), _mirrored(histogram.filled(STEPS)), alpha, 0.0, lambda value: 1 - value)


def difference_interval(histogram: Histogram, alpha: float) -> Interval:
    """The mean difference in [-1, 1] at two-sided miscoverage ``alpha``; a missing task counts −1 below and +1 above.

    Ends are rounded away from each other by less than 1e-6. Without data: [-1, 1].
    """
    return _interval(histogram.filled(-STEPS), histogram.filled(STEPS).negated(), alpha, -1.0, lambda value: -value)


def surely_positive(histogram: Histogram, alpha: float) -> bool:
    """Whether the lower end of :func:`difference_interval` is above 0, by one look at 0 instead of a bisection."""
    return log_capital(histogram.filled(-STEPS), 0.0) >= -math.log(alpha / 2)


def _interval(low: Histogram, high: Histogram, alpha: float, floor: float, back: Callable[[float], float]) -> Interval:
    if not 0 < alpha < 1:
        raise AffineError("bad_settings", f"an interval needs alpha in (0, 1), not {alpha}")
    return Interval(_lower(low, floor, alpha / 2), back(_lower(high, floor, alpha / 2)))


def _mirrored(histogram: Histogram) -> Histogram:
    """The histogram of 1 − reward."""
    return Histogram(tuple((STEPS - key, count) for key, count in reversed(histogram.bins)), histogram.missing)


@lru_cache(maxsize=4096)
def _lower(histogram: Histogram, floor: float, alpha: float) -> float:
    """The largest mean (within a step) that one-sided evidence rejects; ``floor``, the least possible mean, if it rejects none."""
    bound = -math.log(alpha)
    rejected, kept = floor, 1.0
    for _ in range(_HALVINGS):
        middle = (rejected + kept) / 2
        if log_capital(histogram, middle) >= bound:
            rejected = middle
        else:
            kept = middle
    return rejected
