"""In which type this machine multiplies matrices faster: processors differ by a factor of two either way.

    python -m affine_dagster.league.real.precision

prints its name. Measured on one thread, on a product of the real model's shape: one processor made 70 GFLOPS in bfloat16 and 115 in
float32, another was faster in bfloat16 by as much, and both know the same instructions. What must not go in: a choice for a real subnet,
whose settings fix the type, since completions depend on it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Literal, get_args

from affine_dagster.league.make import worker_environment
from affine_dagster.reasons import AffineError

__all__ = ["Precision", "faster", "measured_precision"]

Precision = Literal["float32", "bfloat16"]

_ROWS, _WIDTH, _HEIGHT = 512, 576, 1536
_TRIES = 15


def measured_precision() -> Precision:
    """The faster type here, measured in a process of its own, since the caller needs no torch. Raises ``league_failed``."""
    command = [sys.executable, "-W", "ignore", "-m", "affine_dagster.league.real.precision"]
    made = subprocess.run(command, env=worker_environment(), capture_output=True, text=True, check=False)  # noqa: S603 - our own module
    for name in get_args(Precision):
        if made.stdout.strip() == name:
            return name  # type: ignore[no-any-return]
    raise AffineError("league_failed", f"precision: {(made.stdout + made.stderr)[-1000:].strip()}")


def faster(clock: Callable[[], float]) -> Precision:
    """The type whose quickest of some products is quicker; the tries alternate, so that a busy moment meets both."""
    import torch

    torch.set_num_threads(1)
    best: dict[Precision, float] = {}
    pairs = {
        name: (torch.ones((_ROWS, _WIDTH), dtype=getattr(torch, name)), torch.ones((_HEIGHT, _WIDTH), dtype=getattr(torch, name)))
        for name in get_args(Precision)
    }
    for _ in range(_TRIES):
        for name, (rows, weights) in pairs.items():
            began = clock()
            torch.nn.functional.linear(rows, weights)
            best[name] = min(best.get(name, float("inf")), clock() - began)
    return min(best, key=lambda name: best[name])


if __name__ == "__main__":
    print(faster(time.perf_counter))
