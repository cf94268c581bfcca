"""Milliseconds a program costs in the sandbox beyond its own run time: in batches of 100, and alone; beside a sandbox a program.

Own run time is the processor time that the program's process used from its fork to its end. What must not go in: what programs are
for (``affine_dagster/environments``).
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks._figures import Figure, median_of

if TYPE_CHECKING:
    from affine_dagster.environments.sandbox.pool import SandboxPool
    from affine_dagster.environments.sandbox.port import Limits, Program

__all__ = ["run"]

BATCH = 100
BATCHES = 9
ALONE = 15


def run() -> list[Figure]:
    """Batches on a warm pool of one and of all cores, a fresh sandbox with one program, and a fresh interpreter without any wall."""
    from affine_dagster.environments.sandbox.pool import SandboxPool
    from affine_dagster.environments.sandbox.port import Limits, Program
    from affine_dagster.environments.sandbox.server import Server

    limits = Limits()
    calls = tuple((value, value * 7) for value in range(40))
    programs = [Program(f"def f(a, b):\n    return a + b + {number}", "f", calls) for number in range(BATCH)]
    warm = Server()
    beyond: list[float] = []
    for _ in range(BATCHES):
        began = time.perf_counter()
        own = sum(warm.run(program, limits).cpu_seconds for program in programs)
        beyond.append((time.perf_counter() - began - own) / BATCH * 1000)
    warm.end()
    alone: list[float] = []
    for _ in range(ALONE):
        began = time.perf_counter()
        server = Server()
        own = server.run(programs[0], limits).cpu_seconds
        alone.append((time.perf_counter() - began - own) * 1000)
        server.end()
    bare = [_bare(programs[0].source) for _ in range(ALONE)]
    pooled = {size: [_pooled(SandboxPool(size), programs, limits) for _ in range(3)] for size in (1, 2)}
    return [
        median_of("a program in a batch of 100, warm, beyond its own time", beyond, "ms", other=alone, against="a sandbox a program"),
        median_of("a program alone, with the start of its sandbox", alone, "ms", other=bare, against="python -S -c, without a sandbox"),
        median_of("programs a second, one sandbox", pooled[1], "programs", other=pooled[2], against="two sandboxes"),
    ]


def _bare(source: str) -> float:
    """What the interpreter alone costs."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-S", "-c", source + "\nprint(f(1, 2))"], check=True, capture_output=True)
    return (time.perf_counter() - began) * 1000


def _pooled(pool: SandboxPool, programs: Sequence[Program], limits: Limits) -> float:
    pool.run(programs, limits)
    began = time.perf_counter()
    for _ in range(3):
        pool.run(programs, limits)
    seconds = time.perf_counter() - began
    pool.close()
    return 3 * len(programs) / seconds
