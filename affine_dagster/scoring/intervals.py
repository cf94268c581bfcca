"""Betting confidence sequences: intervals for a mean that hold at every sample size at once.

For a mean reward in [0, 1] and for a mean difference in [-1, 1], from integer histograms, for many at once. What must not go in: how an
interval is used (``scores.py`` shows it, ``frontier.py`` snaps it to the credit grid).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.counts import Counts
from affine_dagster.scoring.evidence import weighed
from affine_dagster.scoring.exact_logs import UNIT, Units, log1p_units, log_mean_units
from affine_dagster.scoring.histogram import STEPS, Histogram

__all__ = ["Interval", "Intervals", "difference_interval", "difference_intervals", "log_capital", "reward_interval", "reward_intervals",
           "surely_positive"]

Floats = npt.NDArray[np.float64]

_STAKES = np.array([0.02 * (0.95 / 0.02) ** (step / 23) for step in range(24)])
"""geomspace(.02, .95, 24): stakes from cautious to bold (rules.md, frontier_credits)."""

_LATTICE = 2**21
"""Ends of intervals are multiples of 1/2**21, under 5e-7: exact in floating point, also times a grid of up to 1,000 steps."""


@dataclass(frozen=True)
class Interval:
    """Both ends of an interval, in reward."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Intervals:
    """Both ends of many, in reward, of shape (height,) each."""

    lower: Floats
    upper: Floats

    def row(self, at: int) -> Interval:
        """One of them."""
        return Interval(float(self.lower[at]), float(self.upper[at]))


def log_capital(histogram: Histogram, mean: float) -> float:
    """Log of E(m) = mean_λ Π (1 + λ·(d − m)/(1 + m)), λ in geomspace(.02, .95, 24), against "the true mean is at most m".

    Values in reward, -1 < m. E falls as m rises, for all values of at least -1. 30 wins, 60 ties and 10 losses at m = 0
    give E = 37.263 (rules.md). A multiple of 2**-32, rounded down. Missing tasks are not counted: fill them first.
    """
    return float(_log_capitals(Counts.of_histograms([histogram]), np.array([mean]))[0]) / UNIT


def reward_intervals(counts: Counts, alpha: float) -> Intervals:
    """The mean rewards in [0, 1] at two-sided miscoverage ``alpha``; a missing task counts 0 below and 1 above.

    Ends are rounded away from each other by less than 1e-6. Without data: [0, 1].
    """
    if counts.bins.size and int(counts.bins.min()) < 0:
        raise AffineError("bad_table", "a histogram of rewards has no bins under 0")
    bound = _bound(alpha)
    return Intervals(_lower(counts.filled(0), 0, bound), 1 - _lower(counts.filled(STEPS).mirrored(STEPS), 0, bound))


def difference_intervals(counts: Counts, alpha: float) -> Intervals:
    """The mean differences in [-1, 1] at two-sided miscoverage ``alpha``; a missing task counts −1 below and +1 above.

    Ends are rounded away from each other by less than 1e-6. Without data: [-1, 1].
    """
    bound = _bound(alpha)
    return Intervals(_lower(counts.filled(-STEPS), -1, bound), -_lower(counts.filled(STEPS).mirrored(0), -1, bound))


def reward_interval(histogram: Histogram, alpha: float) -> Interval:
    """That of one histogram; see :func:`reward_intervals`."""
    return reward_intervals(Counts.of_histograms([histogram]), alpha).row(0)


def difference_interval(histogram: Histogram, alpha: float) -> Interval:
    """That of one histogram; see :func:`difference_intervals`."""
    return difference_intervals(Counts.of_histograms([histogram]), alpha).row(0)


def surely_positive(histogram: Histogram, alpha: float) -> bool:
    """Whether the lower end of :func:`difference_interval` is above 0, by one look instead of a search."""
    return log_capital(histogram.filled(-STEPS), 1 / _LATTICE) >= -math.log(alpha / 2)


def _bound(alpha: float) -> float:
    """What evidence has to reach on one side, in units."""
    if not 0 < alpha < 1:
        raise AffineError("bad_settings", f"an interval needs alpha in (0, 1), not {alpha}")
    return -math.log(alpha / 2) * UNIT


def _log_capitals(counts: Counts, means: Floats) -> Units:
    """:func:`log_capital` of each row at its own mean, in units."""
    mean = means[counts.rows]
    gains = (counts.bins / STEPS - mean) / (1 + mean)
    return log_mean_units(weighed(counts, log1p_units(gains[:, None] * _STAKES)))


def _lower(counts: Counts, floor: int, bound: float) -> Floats:
    """By row the largest mean on the lattice that one-sided evidence rejects; ``floor``, the least possible mean, if it rejects none.

    Evidence falls along the lattice, so halving finds it.
    """
    low = np.full(counts.height, floor * _LATTICE, dtype=np.int64)
    high = np.full(counts.height, _LATTICE, dtype=np.int64)
    while int((high - low).max(initial=0)) > 1:
        middle = (low + high) // 2
        rejected = (_log_capitals(counts, middle / _LATTICE) >= bound) & (middle > low)
        low, high = np.where(rejected, middle, low), np.where(rejected, high, np.maximum(middle, low + 1))
    return low / _LATTICE
