"""The lease: at most one process at a time works on a model of an epoch (cases D2, D11).

It is an advisory lock (flock) on a file, held by the worker itself for as long as it lives. The kernel gives it up when the
holder dies, ``kill -9`` included, so a lock of a dead process never has to be broken, and no pid can be mistaken for another's.
The file stays: removing it would let two processes lock two files of one name. What must not go in: what the lease is for.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["is_leased", "lease"]


@contextmanager
def lease(path: Path) -> Iterator[bool]:
    """Hold the lease of a file. Yields False, holding nothing, where another process has it. The holder's pid is written in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        taken = _lock(descriptor)
        if taken:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield taken
    finally:
        os.close(descriptor)


def is_leased(path: Path) -> bool:
    """Whether a living process holds the lease. It looks with a shared lock, so that two who look do not see each other."""
    if not path.exists():
        return False
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return not _lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
