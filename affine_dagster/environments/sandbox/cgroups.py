"""Control groups for a sandbox, where the caller may make them: a hard limit on its memory and processes beside the rlimits.

Both hierarchies are known: one folder in the unified one (v2), or one each under ``memory`` and ``pids`` (v1). What must not go in: a
promise: where none can be made the sandbox stands on rlimits and its wall kill, and says so (``Layers``).
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ControlGroup", "control_group", "remove_stale"]

_PREFIX = "affine-sandbox-"
_REMOVALS = 100
_BETWEEN_REMOVALS = 0.01
"""Seconds. A killed process leaves its group only when the kernel has ended it, which is after its namespace is seen to be gone."""

_V1 = {"memory": "memory.limit_in_bytes", "pids": "pids.max"}
_V2 = {"memory": "memory.max", "pids": "pids.max"}


@dataclass(frozen=True)
class ControlGroup:
    """The folders of one sandbox; ``limited``: which of ``memory`` and ``pids`` are limited by them."""

    folders: tuple[Path, ...] = ()
    limited: tuple[str, ...] = ()

    def add(self, pid: int) -> None:
        """Put a process (and all that it starts from now on) into the group. Raises OSError."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Take the folders away: at once, or as soon as what was killed in them has ended, for which a second is waited.

        One in which something outlives that is removed by the next start on this machine (:func:`remove_stale`).
        """
        for folder in self.folders:
            for _ in range(_REMOVALS):
                if _removed(folder):
                    break
                time.sleep(_BETWEEN_REMOVALS)


def _removed(folder: Path) -> bool:
    """False while something lives in it; what cannot be removed for another reason is left."""
    try:
        folder.rmdir()
    except OSError as failure:
        return failure.errno != errno.EBUSY
    return True


def control_group(name: str, memory_bytes: int, processes: int, root: Path = Path("/sys/fs/cgroup")) -> ControlGroup:
    """A new group with limits, as far as the machine allows: without any folder where nothing may be made."""
    if (root / "cgroup.controllers").exists():
        return _made({"memory": root, "pids": root}, _V2, name, memory_bytes, processes)
    return _made({kind: root / kind for kind in _V1}, _V1, name, memory_bytes, processes)


def _made(parents: dict[str, Path], files: dict[str, str], name: str, memory_bytes: int, processes: int) -> ControlGroup:
    folders: list[Path] = []
    limited: list[str] = []
    for kind, limit in (("memory", memory_bytes), ("pids", processes)):
        folder = parents[kind] / f"{_PREFIX}{os.getpid()}-{name}"
        try:
            folder.mkdir(exist_ok=True)
            (folder / files[kind]).write_text(str(limit))
        except OSError:  # no cgroup of this kind, or no right to make one: this layer is absent, and is listed as absent
            if folder not in folders:
                with suppress(OSError):
                    folder.rmdir()
            continue
        folders += [] if folder in folders else [folder]
        limited.append(kind)
    return ControlGroup(tuple(folders), tuple(limited))


def remove_stale(root: Path = Path("/sys/fs/cgroup")) -> None:
    """Remove the groups of owners that are gone (killed before they could clean up)."""
    for parent in (root, *(root / kind for kind in _V1)):
        for folder in parent.glob(f"{_PREFIX}*"):
            owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
            if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                with suppress(OSError):
                    folder.rmdir()
