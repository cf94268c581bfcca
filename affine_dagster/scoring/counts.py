"""Histograms of many pairs at once, as sorted arrays: what array code reads where one :class:`Histogram` is read at a time.

What must not go in: any statistic (``evidence.py``), and whose the rows are (``pairs.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.histogram import MISSING, STEPS, Histogram

__all__ = ["Counts"]

Integers = npt.NDArray[np.int64]

_WIDTH = 4096
"""Keys a row when rows and bins are sorted together; bins lie in -1000..1000, and a missing task in the first place."""


@dataclass(frozen=True)
class Counts:
    """Sparse histograms, one a row.

    ``rows``, ``bins`` (thousandths, -1000..1000) and ``counts`` (above 0), int64 of equal length, are sorted by row and bin, each pair
    once; ``missing`` is int64 of shape (height,).
    """

    rows: Integers
    bins: Integers
    counts: Integers
    missing: Integers

    @property
    def height(self) -> int:
        """How many histograms."""
        return int(self.missing.size)

    @property
    def observed(self) -> Integers:
        """Tasks with a result, of shape (height,)."""
        return self._summed(self.counts)

    @property
    def tasks(self) -> Integers:
        """All tasks, of shape (height,)."""
        return self.observed + self.missing

    def _summed(self, values: Integers) -> Integers:
        """Values of entries added up by row; whole numbers, so in any order."""
        found = np.zeros(self.height, dtype=np.int64)
        np.add.at(found, self.rows, values)
        return found

    @classmethod
    def empty(cls, height: int) -> Counts:
        """Histograms without a task."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, none, np.zeros(height, dtype=np.int64))

    @classmethod
    def of_values(cls, row: Integers, values: Integers, height: int) -> Counts:
        """Values in -1000..1000 or ``MISSING``, each in its row, in any order."""
        known = values != MISSING
        keys, counts = np.unique(row[known] * _WIDTH + values[known] + STEPS, return_counts=True)
        missing = np.bincount(row[~known], minlength=height)
        return cls(keys // _WIDTH, keys % _WIDTH - STEPS, counts.astype(np.int64), missing.astype(np.int64))

    @classmethod
    def of_histograms(cls, histograms: Sequence[Histogram]) -> Counts:
        """One row a histogram."""
        flat = [(row, key, count) for row, one in enumerate(histograms) for key, count in one.bins]
        columns = np.array(flat, dtype=np.int64).reshape(-1, 3).T
        return cls(columns[0], columns[1], columns[2], np.array([one.missing for one in histograms], dtype=np.int64))

    @classmethod
    def stacked(cls, parts: Sequence[Counts]) -> Counts:
        """The rows of all parts, one after the other."""
        if not parts:
            return cls.empty(0)
        above = np.cumsum([0, *(one.height for one in parts)])
        rows = np.concatenate([one.rows + at for one, at in zip(parts, above, strict=False)])
        return cls(
            rows, np.concatenate([one.bins for one in parts]), np.concatenate([one.counts for one in parts]),
            np.concatenate([one.missing for one in parts]),
        )

    def part(self, first: int, last: int) -> Counts:
        """The rows ``first`` to ``last`` - 1."""
        start, stop = np.searchsorted(self.rows, [first, last])
        return Counts(self.rows[start:stop] - first, self.bins[start:stop], self.counts[start:stop], self.missing[first:last])

    def histograms(self) -> list[Histogram]:
        """One histogram a row."""
        edges = np.searchsorted(self.rows, np.arange(self.height + 1)).tolist()
        entries = list(zip(self.bins.tolist(), self.counts.tolist(), strict=True))
        missing = self.missing.tolist()
        return [Histogram(tuple(entries[edges[row] : edges[row + 1]]), missing[row]) for row in range(self.height)]

    def filled(self, value: int) -> Counts:
        """The histograms with each missing task counted as ``value`` (thousandths): the worst case of a bound."""
        short = np.flatnonzero(self.missing)
        none = np.zeros_like(self.missing)
        return Counts(self.rows, self.bins, self.counts, none) + Counts(short, np.full(short.size, value), self.missing[short], none)

    def mirrored(self, centre: int) -> Counts:
        """The histograms of ``centre`` − value."""
        order = np.lexsort((-self.bins, self.rows))
        return Counts(self.rows[order], centre - self.bins[order], self.counts[order], self.missing)

    def __add__(self, other: Counts) -> Counts:
        """Row by row the histogram of both lots of tasks. Raises ``bad_table`` on another number of rows."""
        if self.height != other.height:
            raise AffineError("bad_table", f"histograms of {self.height} and of {other.height} rows")
        if not other.rows.size:
            return Counts(self.rows, self.bins, self.counts, self.missing + other.missing)
        both = np.concatenate([self.rows * _WIDTH + self.bins, other.rows * _WIDTH + other.bins]) + STEPS
        keys, place = np.unique(both, return_inverse=True)
        counts = np.zeros(keys.size, dtype=np.int64)
        np.add.at(counts, place, np.concatenate([self.counts, other.counts]))
        return Counts(keys // _WIDTH, keys % _WIDTH - STEPS, counts, self.missing + other.missing)
