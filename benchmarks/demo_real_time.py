"""Seconds that ``affine demo-real`` takes from an empty cache: each model's making and the job apart; and what it found.

Set-up (``make demo-real`` installs two packages and downloads 93 MB) is not in it. What must not go in: what the demo shows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from affine_dagster.league.real.source import check_packages
from benchmarks._figures import Figure, median_of, spent

__all__ = ["run"]

BOUND_SECONDS = 20 * 60.0
"""For models and job together, on two cores (the project's issue 4)."""

KEPT_OUT = ("PYTHONPATH", "DAGSTER_HOME", "OMP_NUM_THREADS")
_MADE = re.compile(r"^Making the models, once: (\d+) s, (\d+) CPU-seconds$", re.MULTILINE)
_MODEL = re.compile(r"^(\w+) +(\d+) +(\d+) +(?:-|\d+ of \d+) *$", re.MULTILINE)
_JOB = re.compile(r"^job: ([\d.]+) s$", re.MULTILINE)


def run() -> list[Figure]:
    """One run with every cache of ours empty. What the command printed after the job is printed here too."""
    check_packages()
    kept = {name: value for name, value in os.environ.items() if name not in KEPT_OUT and not name.startswith("AFFINE_")}
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).parent / "affine"), "demo-real", "--home", f"{folder}/home", "--cache", f"{folder}/cache"]
        with spent() as whole:
            made = subprocess.run(command, env=kept, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise RuntimeError(f"affine demo-real ended with {made.returncode}: {(made.stdout + made.stderr)[-1500:]}")
    job, models = _JOB.search(made.stdout), _MADE.search(_plain(made.stdout))
    if job is None or models is None:
        raise RuntimeError(f"affine demo-real told no times: {made.stdout[-1500:]}")
    print(made.stdout[job.end() :].rstrip(), flush=True)
    making = int(models.group(2))
    parts = [
        median_of(f"  making {name}, CPU", [float(cpu)], "s", note=f"wall {wall} s")
        for name, wall, cpu in _MODEL.findall(_plain(made.stdout)[models.end() :])
    ]
    return [
        median_of("affine demo-real: all, wall", [whole.wall], "s", other=[BOUND_SECONDS], against="the bound"),
        median_of("affine demo-real: all, CPU", [whole.cpu], "s", other=[2 * BOUND_SECONDS], against="two cores for the bound"),
        median_of("  making the models, wall", [float(models.group(1))], "s"),
        median_of("  making the models, CPU", [float(making)], "s"),
        *parts,
        median_of("  the job (two epochs), wall: what a second run takes", [float(job.group(1))], "s"),
        median_of("  the job, CPU", [whole.cpu - making], "s"),
    ]


def _plain(text: str) -> str:
    """The text with each line's outer spaces gone: tables are centred under their titles."""
    return "\n".join(line.strip() for line in text.splitlines())
