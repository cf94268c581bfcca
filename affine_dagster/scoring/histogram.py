"""The integer histogram: what a running contest or an assay keeps of its rewards.

Rewards are quantised to thousandths, so that shards merge exactly, in any order and grouping, and every e-value can be
recomputed from the counts. What must not go in: any statistic beyond counting and the mean.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from affine_dagster.reasons import AffineError

__all__ = ["MISSING", "STEPS", "Histogram", "quantise", "quantised"]

STEPS = 1000
"""Steps of a quantised reward in [0, 1]."""

MISSING = -(2**14)
"""The quantised value of a task without a result (a fault that is not the model's)."""

Steps = npt.NDArray[np.int32]


def quantise(rewards: Iterable[float | None]) -> Steps:
    """Rewards in [0, 1] as thousandths, rounded half to even; None becomes :data:`MISSING`. See :func:`quantised`."""
    listed = list(rewards)
    known = np.array([reward is not None for reward in listed], dtype=bool)
    return quantised(np.array([0.0 if reward is None else reward for reward in listed], dtype=np.float64), known)


def quantised(values: npt.NDArray[np.float64], known: npt.NDArray[np.bool_]) -> Steps:
    """Rewards in [0, 1] as thousandths, rounded half to even; those that are not ``known`` become :data:`MISSING`.

    Raises ``bad_table`` on NaN, infinity and values outside [0, 1] (cases S1, S5, E7): such a reward is a fault of the ledger.
    """
    wrong = known & ~((values >= 0) & (values <= 1))  # NaN compares false
    if wrong.any():
        raise AffineError("bad_table", f"a reward must be a number in [0, 1], not {float(values[wrong][0])!r}")
    return np.where(known, np.rint(values * STEPS), MISSING).astype(np.int32)


@dataclass(frozen=True)
class Histogram:
    """Counts a bin, in thousandths, and the number of tasks without a result.

    ``bins`` holds (bin, count) in ascending order, counts above 0. Differences lie in -1000..1000, rewards in 0..1000.
    """

    bins: tuple[tuple[int, int], ...] = ()
    missing: int = 0

    def __post_init__(self) -> None:
        keys = [key for key, _ in self.bins]
        sound = all(-STEPS <= key <= STEPS and count > 0 for key, count in self.bins) and self.missing >= 0
        if not sound or any(left >= right for left, right in itertools.pairwise(keys)):
            raise AffineError("bad_table", f"not a histogram of thousandths: {self.bins}, missing {self.missing}")

    @property
    def observed(self) -> int:
        """Tasks with a result."""
        return sum(count for _, count in self.bins)

    @property
    def tasks(self) -> int:
        """All tasks, those without a result included."""
        return self.observed + self.missing

    @property
    def mean(self) -> float | None:
        """Mean of the observed values, in reward; None without any."""
        observed = self.observed
        return sum(key * count for key, count in self.bins) / (STEPS * observed) if observed else None

    @property
    def second_moment(self) -> float | None:
        """Mean of the squared observed values; None without any. For 0/1 rewards it is the share of discordant tasks."""
        observed = self.observed
        return sum(key * key * count for key, count in self.bins) / (STEPS * STEPS * observed) if observed else None

    def __add__(self, other: Histogram) -> Histogram:
        """The histogram of both lots of tasks."""
        counts = Counter(dict(self.bins))
        counts.update(dict(other.bins))
        return Histogram(tuple(sorted(counts.items())), self.missing + other.missing)

    def negated(self) -> Histogram:
        """The histogram of the negated values."""
        return Histogram(tuple((-key, count) for key, count in reversed(self.bins)), self.missing)

    def filled(self, value: int) -> Histogram:
        """The histogram with each missing task counted as ``value`` (thousandths): the worst case of a bound."""
        if not self.missing:
            return self
        return Histogram(self.bins) + Histogram(((value, self.missing),))

    @classmethod
    def of_steps(cls, steps: Steps) -> Histogram:
        """The histogram of quantised values, ``MISSING`` counted as missing. Values in -1000..1000."""
        known = steps[steps != MISSING]
        counts = np.bincount(known + STEPS, minlength=2 * STEPS + 1)
        bins = tuple((int(at) - STEPS, int(counts[at])) for at in np.flatnonzero(counts))
        return cls(bins, int(steps.size - known.size))

    @classmethod
    def of_pairs(cls, challenger: Steps, incumbent: Steps) -> Histogram:
        """The histogram of challenger minus incumbent on the same tasks; missing where either side is."""
        if challenger.shape != incumbent.shape:
            raise AffineError("bad_table", f"pairs need the same tasks: {challenger.shape} and {incumbent.shape}")
        unknown = (challenger == MISSING) | (incumbent == MISSING)
        return cls.of_steps(np.where(unknown, MISSING, challenger - incumbent).astype(np.int32))

    @classmethod
    def of_differences(cls, challenger: Iterable[float | None], incumbent: Iterable[float | None]) -> Histogram:
        """The histogram of the differences of two models' rewards on the same tasks, None where there is no result.

        Each reward is quantised first, so a difference is exact: round(1000·r_c) − round(1000·r_i).
        """
        return cls.of_pairs(quantise(challenger), quantise(incumbent))

    @classmethod
    def of_rewards(cls, rewards: Iterable[float | None]) -> Histogram:
        """The histogram of one model's rewards, None where there is no result."""
        return cls.of_steps(quantise(rewards))

    def to_rows(self) -> list[dict[str, int]]:
        """The bins as the table column ``histogram`` has them."""
        return [{"bin": key, "count": count} for key, count in self.bins]

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]] | None, missing: int) -> Histogram:
        """The histogram of a table's row."""
        return cls(tuple(sorted((int(row["bin"]), int(row["count"])) for row in rows or ())), int(missing))
