"""Seconds and memory to re-score a year of history under our rule, and how they grow from a hundredth of it.

A year of 7,300 epochs, 365,000 submissions and 100 million rewards is written as the ledger and the tables write it (``_year.py``), and
``affine replay`` is run on its first parts, in a process of its own each. ``AFFINE_YEAR_EPOCHS`` makes the year shorter. What must not
go in: how fast the year was written.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks._figures import Figure
from benchmarks._year import EPOCHS_A_YEAR, Year, year_settings

__all__ = ["run"]

PARTS = (0.01, 0.03, 0.1, 0.3, 1.0)
REPEATS = {0.01: 3, 0.03: 3, 0.1: 3, 0.3: 1, 1.0: 1}


@dataclass(frozen=True)
class _Taken:
    wall: float
    cpu: float
    gib: float
    digest: str


def run() -> list[Figure]:
    """The figures of one year."""
    epochs = int(os.environ.get("AFFINE_YEAR_EPOCHS", EPOCHS_A_YEAR))
    with tempfile.TemporaryDirectory() as home:
        folder = str(Path(home) / "store")
        sizes = _written(folder, epochs)
        found: dict[int, list[_Taken]] = {}
        for part in PARTS:
            length = max(1, round(part * epochs))
            found[length] = [_replay(folder, length) for _ in range(REPEATS[part])]
            print(f"  {length:,} epochs, {sum(sizes[:length]):,} rewards: {found[length][0].wall:.1f} s", flush=True)
    return [*_figures(found, sizes), _growth(found, sizes)]


def _written(folder: str, epochs: int) -> list[int]:
    sizes: list[int] = []
    for rewards in Year(year_settings(folder)).write(epochs):
        sizes.append(rewards)
        if len(sizes) % 500 == 0:
            print(f"  written: {len(sizes):,} of {epochs:,} epochs, {sum(sizes):,} rewards", flush=True)
    return sizes


def _replay(folder: str, epochs: int) -> _Taken:
    command = [sys.executable, "-m", "benchmarks._replay_once", folder, f"0..{epochs - 1}", "frontier_credits"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return _Taken(**json.loads(done.stdout.splitlines()[-1]))


def _figures(found: dict[int, list[_Taken]], sizes: list[int]) -> list[Figure]:
    made = []
    for length, taken in found.items():
        name, walls = f"replay of {length:,} epochs, {sum(sizes[:length]) / 1e6:.1f} million rewards", [one.wall for one in taken]
        bound = {"comparison": 180.0, "against": "bound for a year"} if length == len(sizes) else {}
        note = f"{statistics.median(one.cpu for one in taken):.1f} s of the processor; median and range of {len(taken)}"
        made.append(Figure(name, statistics.median(walls), "s", min(walls), max(walls), note=note, **bound))
        memory = max(one.gib for one in taken)
        if length == len(sizes):
            made.append(Figure("memory of the longest replay", memory, "GiB", comparison=6.0, against="bound", note="peak resident"))
    return made


def _growth(found: dict[int, list[_Taken]], sizes: list[int]) -> Figure:
    """Seconds a million rewards on the whole over those on the tenth: 1 is linear."""
    rates = {length: statistics.median(one.wall for one in taken) / sum(sizes[:length]) for length, taken in found.items()}
    whole, tenth = max(rates), sorted(rates)[2]
    return Figure("seconds a reward on the year over those on its tenth", rates[whole] / rates[tenth], "ratio", note="1 is linear growth")
