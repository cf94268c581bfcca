"""``python -m benchmarks [NAMES]``: run benchmarks one after another and print their figures; ``--list`` says which there are.

What must not go in: which benchmarks there are. Every module of the package without a leading underscore is one.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import benchmarks

__all__ = ["main", "names"]


def names() -> list[str]:
    """The benchmarks, by name."""
    return sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_"))


def main(arguments: Sequence[str]) -> int:
    """Run the named benchmarks (none named: all). Returns 1 where one could not be run; the others run nevertheless."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run benchmarks and print their figures.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(names())} (default: all)")
    parser.add_argument("--list", action="store_true", help="say which benchmarks there are")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - set(names()))
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(names())}")
    if given.list:
        for name in names():
            print(f"{name}: {_about(name)}")
        return 0
    # a shell may forbid bytecode; a validator's does not, and compiling anew in each process is not what is measured here
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    print(_header(), flush=True)
    failed = [name for name in given.names or names() if not _ran(name)]
    if failed:
        print(f"\nnot measured: {', '.join(failed)}")
    return 1 if failed else 0


def _about(name: str) -> str:
    return (importlib.import_module(f"benchmarks.{name}").__doc__ or "").strip().partition("\n")[0]


def _ran(name: str) -> bool:
    print(f"\n{name}: {_about(name)}", flush=True)
    began, load = time.monotonic(), os.getloadavg()[0]
    try:
        figures = importlib.import_module(f"benchmarks.{name}").run()
    except Exception as error:  # one benchmark that cannot run must not cost the others their figures
        print(f"  could not be measured: {type(error).__name__}: {error}", flush=True)
        return False
    for figure in figures:
        print(figure)
    print(f"  [took {time.monotonic() - began:.0f} s; load average {load:.1f} before, {os.getloadavg()[0]:.1f} after]", flush=True)
    return True


def _header() -> str:
    command = ["git", "-C", str(Path(__file__).parents[1]), "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{now}, commit {commit}, Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
