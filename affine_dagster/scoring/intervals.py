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

_LATTICE = 2**21
"""Ends of intervals are multiples of 1/2**21, under 5e-7: exact in floating point, also times a grid of up to 1,000 steps."""


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
    """Whether the lower end of :func:`difference_interval` is above 0, by one look instead of a search."""
    return log_capital(histogram.filled(-STEPS), 1 / _LATTICE) >= -math.log(alpha / 2)


def _interval(low: Histogram, high: Histogram, alpha: float, floor: float, back: Callable[[float], float]) -> Interval:
    if not 0 < alpha < 1:
        raise AffineError("bad_settings", f"an interval needs alpha in (0, 1), not {alpha}")
    return Interval(_lower(low, floor, alpha / 2), back(_lower(high, floor, alpha / 2)))


def _mirrored(histogram: Histogram) -> Histogram:
    """The histogram of 1 − reward."""
    return Histogram(tuple((STEPS - key, count) for key, count in reversed(histogram.bins)), histogram.missing)


@lru_cache(maxsize=4096)
def _lower(histogram: Histogram, floor: float, alpha: float) -> float:
    """The largest mean on a lattice of 2**-21 that one-sided evidence rejects; ``floor``, the least possible mean, if it rejects none.

    Evidence falls along the lattice, so where the search starts changes its length, never its answer.
    """
    if not histogram.bins:
        return floor
    bound = -math.log(alpha)
    least, most = int(floor * _LATTICE), _LATTICE
    guess = int(_guess(histogram, floor, bound) * _LATTICE)

    def rejected(step: int) -> bool:
        return step <= least or (step < most and log_capital(histogram, step / _LATTICE) >= bound)

    low, stride = guess, 1
    while not rejected(low):
        low, stride = low - stride, 4 * stride
    high, stride = low + 1, 1
    while rejected(high):
        low, high, stride = high, high + stride, 4 * stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return max(low, least) / _LATTICE


def _guess(histogram: Histogram, floor: float, bound: float) -> float:
    """Where the bound is about reached: the root of log E grows almost linearly as the claimed mean falls below the observed one."""
    mean = histogram.mean or 0.0
    near, near_root, distance = mean, 0.0, math.sqrt(2 * bound / histogram.observed) / 2
    target = math.sqrt(bound)
    for _ in range(4):
        claimed = max(mean - distance, floor + 1 / _LATTICE)
        root = math.sqrt(max(log_capital(histogram, claimed), 0.0))
        if claimed in (near, mean):
            break
        slope = (root - near_root) / (near - claimed)
        distance = mean - claimed + (target - root) / slope if slope > 0 else 2 * distance
        near, near_root = claimed, root
    return min(max(mean - distance, floor), 1.0)
