"""One ``affine replay`` in a process of its own: ``python -m benchmarks._replay_once <store> <epochs> <rule>`` prints what it took."""

from __future__ import annotations

import hashlib
import io
import json
import resource
import sys
import time

from rich.console import Console

from affine_dagster.cli.replay import print_replay
from benchmarks._year import year_settings

__all__ = ["main"]


def main(folder: str, epochs: str, rule: str) -> None:
    """Print as JSON the seconds of the wall and of the processor, the peak of resident memory in GiB, and a digest of what was shown."""
    shown = io.StringIO()
    began = time.perf_counter()
    print_replay(year_settings(folder), [rule], epochs, console=Console(file=shown, width=200))
    wall, used = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    digest = hashlib.sha256(shown.getvalue().encode()).hexdigest()
    print(json.dumps({"wall": wall, "cpu": used.ru_utime + used.ru_stime, "gib": used.ru_maxrss / 2**20, "digest": digest}))


if __name__ == "__main__":
    main(*sys.argv[1:])
