"""What a benchmark gives: figures with their intervals and what they are compared with, and the statistics they share.

What must not go in: measuring anything in particular.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Figure", "Spent", "cpu_seconds", "median_of", "share_of", "spent", "variables"]

_Z = statistics.NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Figure:
    """One measured figure.

    ``low``, ``high``: its interval (``note`` says which where it is not the usual one of ``median_of`` or ``share_of``), None
    where it was measured once. ``comparison``: what it is held against, in the same unit, which ``against`` names.
    """

    name: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    comparison: float | None = None
    against: str = ""
    note: str = ""

    def __str__(self) -> str:
        """One line for a person, and one for the note."""
        interval = "" if self.low is None or self.high is None else f" ({_short(self.low)} to {_short(self.high)})"
        other = "" if self.comparison is None else f"; {self.against}: {_short(self.comparison)} {self.unit}"
        note = f"\n      {self.note}" if self.note else ""
        return f"  {self.name}: {_short(self.value)} {self.unit}{interval}{other}{note}"


def _short(value: float) -> str:
    """Three significant digits, without exponents where a person would not write one."""
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        shown = abs(float(f"{value:.2e}"))
        digits = 0 if value == 0 else max(0, 2 - math.floor(math.log10(shown)))
        return f"{value:,.{min(digits, 6)}f}"
    return f"{value:.2e}"


def median_of(name: str, values: Sequence[float], unit: str, *, other: Sequence[float] = (), against: str = "", note: str = "") -> Figure:
    """The median of repeats; the interval is their whole range, which needs no distribution and errs wide."""
    comparison = statistics.median(other) if other else None
    spread = f"median and range of {len(values)}" if len(values) > 1 else "measured once"
    whole = len(values) > 1
    return Figure(
        name, statistics.median(values), unit, min(values) if whole else None, max(values) if whole else None,
        comparison, against, f"{spread}{'; ' if note else ''}{note}",
    )


def share_of(name: str, count: int, of: int, *, comparison: float | None = None, against: str = "", note: str = "") -> Figure:
    """A share with Wilson's 95 % interval."""
    share, z2 = count / of, _Z * _Z
    centre = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z / (1 + z2 / of) * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    counted = f"{count:,} of {of:,}, 95 % interval"
    low, high = (0.0 if count == 0 else centre - half), (1.0 if count == of else centre + half)
    return Figure(name, share, "share", low, high, comparison, against, f"{counted}{'; ' if note else ''}{note}")


@dataclass
class Spent:
    """Seconds of the wall and of the processor (this process and its children that have ended)."""

    wall: float = 0.0
    cpu: float = 0.0


def cpu_seconds() -> float:
    """Processor seconds so far, of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@contextmanager
def spent() -> Iterator[Spent]:
    """The time that the block takes, known after it."""
    taken, wall, cpu = Spent(), time.perf_counter(), cpu_seconds()
    try:
        yield taken
    finally:
        taken.wall, taken.cpu = time.perf_counter() - wall, cpu_seconds() - cpu


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the block alone."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
