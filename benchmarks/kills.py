"""Worlds that differ after ``kill -9`` at a random point and a new start, of 200: ``python -m benchmarks.kills --points N --seed S``.

Each point is a whole run of the main job on the league ``tiny`` (two models, twenty tasks an environment, one epoch) that is
struck and started again, and then compared with an undisturbed run: the ledger by its results, tables, snapshots and the weights
on the chain. What must not go in: how a run is struck and compared (``tests/support``, which the tests use too).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks._figures import Figure, median_of, share_of

if TYPE_CHECKING:
    from killing import Strike
    from tiny_worlds import TinyWorld

__all__ = ["main", "run"]

POINTS = 200
SEED = 20260703


@dataclass(frozen=True)
class _Outcome:
    """``blows``: on living processes; 0 where the run was over before the strike. ``differences``: empty where all is the same."""

    blows: int
    seconds: float
    differences: tuple[str, ...]


def run(points: int = POINTS, seed: int = SEED, epochs: int = 1) -> list[Figure]:
    """A line a point, then the share of the runs that were hit and differ afterwards, and what a disturbance costs."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from killing import spread_strikes
    from tiny_worlds import finished

    with tempfile.TemporaryDirectory(prefix="affine-kills-") as folder:
        tiny = finished(Path(folder), epochs)
        outcomes = []
        for number, strike in enumerate(spread_strikes(points, seed)):
            outcome = _point(tiny, Path(folder) / f"p{number}", strike)
            outcomes.append(outcome)
            verdict = "; ".join(outcome.differences) or ("the same" if outcome.blows else "over before the strike")
            print(f"  {number + 1:3d} {strike}: {outcome.blows} processes killed, {outcome.seconds:.1f} s, {verdict}", flush=True)
        duration = tiny.timeline.duration
    hit = [outcome for outcome in outcomes if outcome.blows]
    note = f"seed {seed}, {points} points; a run that ends otherwise than by a kill counts as different"
    return [
        share_of("runs that differ after kill -9", sum(bool(one.differences) for one in hit), max(1, len(hit)), note=note),
        Figure("points that hit a living process", len(hit), f"of {points}"),
        median_of("a struck run, both parts", [one.seconds for one in hit], "s", other=[duration], against="undisturbed"),
    ]


def _point(tiny: TinyWorld, home: Path, strike: Strike) -> _Outcome:
    """One run. What the harness finds wrong with it (a deadline, an exit status) is a difference too."""
    from comparing import differences
    from killing import disturbed

    world = tiny.copy(home)
    began = time.monotonic()
    try:
        blows = disturbed(home, tiny.timeline, strike)
    except AssertionError as error:
        return _Outcome(1, time.monotonic() - began, (str(error),))
    found = tuple(differences(tiny.world, world))
    seconds = time.monotonic() - began
    shutil.rmtree(home)
    return _Outcome(blows, seconds, found)


def main(arguments: Sequence[str]) -> int:
    """Run with the given number of points and seed. Returns 1 where a run differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills", description="Kill the main job at random points.")
    parser.add_argument("--points", type=int, default=POINTS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--epochs", type=int, default=1)
    given = parser.parse_args(arguments)
    figures = run(given.points, given.seed, given.epochs)
    for figure in figures:
        print(figure)
    return int(figures[0].value > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
