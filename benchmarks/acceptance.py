"""Milliseconds of one acceptance: what a new point adds to a frontier of 200, exactly, and the frontier that it leaves.

Two kinds of frontier: of a market, where later models are better and strong in different places, so that most points are covered by
others; and points drawn on a sphere, of which none covers another, which no market makes. What must not go in: floating point in our own
figure; moocore's stands beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import moocore
import numpy as np
from numpy.typing import NDArray

from affine_dagster.scoring.archive import Archive
from benchmarks._figures import Figure, median_of

__all__ = ["run"]

POINTS, GRID, REPEATS, SEED = 200, 200, 25, 7
BOUND_MS = 1.0

Drawn = NDArray[np.int64]


def run() -> list[Figure]:
    """The figures, by kind of frontier and number of coordinates."""
    market = [_figure("market", _market, width, compared=width <= 8) for width in (2, 3, 4, 6, 8, 16)]
    return [*market, *(_figure("sphere", _sphere, width, compared=width <= 6) for width in (2, 3, 4, 6, 8))]


def _market(dice: np.random.Generator, width: int) -> Drawn:
    """Skills that rise from .4 to .8 over the submissions, each model a little stronger here and weaker there."""
    skill = np.linspace(0.4, 0.8, POINTS + 1)[:, None] + dice.normal(0, 0.05, (POINTS + 1, width))
    return np.floor(GRID * skill.clip(0, 1)).astype(np.int64)


def _sphere(dice: np.random.Generator, width: int) -> Drawn:
    drawn = np.abs(dice.normal(size=(POINTS + 1, width)))
    return np.floor(GRID * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.int64)


def _figure(name: str, draw: Callable[[np.random.Generator, int], Drawn], width: int, *, compared: bool) -> Figure:
    dice, taken, theirs, left = np.random.default_rng(SEED), [], [], []
    for _ in range(REPEATS):
        drawn = draw(dice, width)
        *earlier, new = map(tuple, drawn.tolist())
        archive = Archive.of(earlier)
        began = time.process_time()
        archive.adds(new)
        archive.grown(new)
        taken.append(1000 * (time.process_time() - began))
        theirs += [1000 * _moocore(drawn)] if compared else []
        left.append(len(archive.points))
    note = f"{statistics.median(left):.0f} of {POINTS} points uncovered; the bound: {BOUND_MS:g} ms up to 8 coordinates"
    title = f"one acceptance, {name}, {width} coordinates"
    return median_of(title, taken, "ms", other=theirs, against="moocore, in floating point, two volumes", note=note)


def _moocore(drawn: Drawn) -> float:
    """Seconds of what a point adds as the difference of two volumes: on a sphere of 8 coordinates 11 s, on a market of 16 minutes."""
    points, reference = -drawn.astype(np.float64), np.zeros(drawn.shape[1])
    began = time.process_time()
    moocore.hypervolume(points, ref=reference)
    moocore.hypervolume(points[:-1], ref=reference)
    return time.process_time() - began
