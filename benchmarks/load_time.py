"""Seconds to load the code location in a fresh process, beside ``import dagster`` alone.

Both are run in turn, so that a busy moment meets both. What must not go in: a check of what is imported (a test does that).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._figures import Figure, Spent, median_of

__all__ = ["run"]

REPEATS = 7
COLD_REPEATS = 3
BOUND_SECONDS = 5.0
"""What the code location may take (the project's issue 3)."""

LOCATION = "from affine_dagster.definitions import defs; defs.get_repository_def()"
DAGSTER = "import dagster"
NOTHING = "pass"
PROJECT = Path(__file__).parents[1]


def run() -> list[Figure]:
    """Wall and CPU seconds, warm; and cold, with no bytecode of any library, as just after set-up."""
    for code in (LOCATION, DAGSTER):
        _process(code)  # writes bytecode and fills the page cache
    taken: dict[str, list[Spent]] = {code: [] for code in (LOCATION, DAGSTER, NOTHING)}
    for _ in range(REPEATS):
        for code, found in taken.items():
            found.append(_process(code))
    cold = {code: [_without_bytecode(code) for _ in range(COLD_REPEATS)] for code in (LOCATION, DAGSTER)}
    bound = f"the bound is {BOUND_SECONDS:g} s"
    empty = median_of("", [one.wall for one in taken[NOTHING]], "s").value
    return [
        median_of(
            "load the code location, wall", [one.wall for one in taken[LOCATION]], "s",
            other=[one.wall for one in taken[DAGSTER]], against="import dagster", note=f"{bound}; an empty interpreter takes {empty:.3f} s",
        ),
        median_of(
            "load the code location, CPU", [one.cpu for one in taken[LOCATION]], "s",
            other=[one.cpu for one in taken[DAGSTER]], against="import dagster", note=bound,
        ),
        median_of(
            "the same without any bytecode (first load after set-up), CPU", [one.cpu for one in cold[LOCATION]], "s",
            other=[one.cpu for one in cold[DAGSTER]], against="import dagster",
        ),
    ]


def _process(code: str, **more: str) -> Spent:
    """Run code in a fresh interpreter, from its start to its end, on settings that are the defaults."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AFFINE_", "DAGSTER_"))}
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", code], cwd=PROJECT, env={**kept, **more})
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if child.returncode != 0:
        raise RuntimeError(f"a fresh process that runs {code!r} ended with {child.returncode}")
    return Spent(wall, usage.ru_utime + usage.ru_stime)


def _without_bytecode(code: str) -> Spent:
    with tempfile.TemporaryDirectory() as empty:
        return _process(code, PYTHONPYCACHEPREFIX=empty)
