"""Seconds that ``make demo`` takes in a fresh clone with an environment of its own: set-up, league and job apart.

The clone is of the last commit. What must not go in: what the demo shows.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from benchmarks._figures import Figure, median_of, spent

__all__ = ["run"]

BOUND_SECONDS = 180.0
"""For set-up and for the job, each, on two cores (the project's issue 3)."""

PROJECT = Path(__file__).parents[1]
LINES = {
    "set-up (virtual environment from the lock)": r"^setup: .* ready in (\d+) s$",
    "league (trained anew)": r"^league ready after ([\d.]+) s",
    "job (three epochs)": r"^job: ([\d.]+) s$",
}
KEPT_OUT = ("VENV", "VIRTUAL_ENV", "PYTHONPATH", "DAGSTER_HOME", "OMP_NUM_THREADS")


def run() -> list[Figure]:
    """One cold run from clone to table."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(PROJECT), str(clone)], check=True)
        commit = subprocess.run(["git", "-C", str(clone), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        kept = {name: value for name, value in os.environ.items() if name not in KEPT_OUT and not name.startswith("AFFINE_")}
        with spent() as whole:
            made = subprocess.run(
                ["make", "demo"], cwd=clone, env={**kept, "AFFINE_CACHE": f"{folder}/cache"}, capture_output=True, text=True, check=False
            )
    if made.returncode != 0:
        raise RuntimeError(f"make demo ended with {made.returncode}: {(made.stdout + made.stderr)[-1500:]}")
    parts = {name: float(_found(pattern, made.stdout)) for name, pattern in LINES.items()}
    bound = {"set-up (virtual environment from the lock)": BOUND_SECONDS, "job (three epochs)": BOUND_SECONDS}
    return [
        *(
            median_of(f"make demo: {name}, wall", [seconds], "s", other=[bound[name]] if name in bound else (), against="the bound")
            for name, seconds in parts.items()
        ),
        median_of("make demo: all, wall", [whole.wall], "s", note=f"commit {commit.stdout.strip()}, every cache of ours empty"),
        median_of("make demo: all, CPU", [whole.cpu], "s"),
    ]


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"make demo said nothing like {pattern!r}: {text[-1500:]}")
    return found.group(1)
