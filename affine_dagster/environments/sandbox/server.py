"""One sandbox from outside: its process, the frames to and from it, and what its endings mean.

Every byte from inside is hostile. What cannot be read as the protocol says breaks the server (:class:`BrokenError`), never the caller.
What must not go in: how many there are and what is tried again (``pool.py``).
"""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from affine_dagster.environments.sandbox.bubblewrap import ALLOW, INSTALL, command, find_bubblewrap, interpreter
from affine_dagster.environments.sandbox.cgroups import ControlGroup, control_group
from affine_dagster.environments.sandbox.port import Ending, Limits, Outcome, Program, Raised, Returned
from affine_dagster.environments.sandbox.seccomp import filter_program
from affine_dagster.environments.sandbox.values import NotPlainError, decode, encode
from affine_dagster.reasons import AffineError

__all__ = ["BrokenError", "Layers", "Report", "Server"]

_START_SECONDS = 20.0
_TOLD_SECONDS = 5.0
"""Bubblewrap tells its child's process id before it starts anything."""

_WALL_SLACK = 5.0
"""Beyond a program's own wall limit, after which the server is taken for broken."""

_REPLY_ROOM = 4096
_FIRST_USER = 0x5AFE0000
"""User ids above all that a machine gives out; each server gets one of its own."""

_USERS_A_PROCESS = 256
_NUMBERS = itertools.count(1)
"""Of the servers of this process, whichever pool they are in: two that live at once share no user and no control group."""

_SPARE_MEMORY = 128 * 2**20
MEMORY_BYTES = 2**30
"""Of a whole sandbox where there are control groups: its one program at a time, and the server."""

_WORDS = 200
_CONFINED = b"confined\n"
"""What a fork says when its walls stand, before it loads a program."""

_MEASURED: Mapping[str, Ending] = {"cpu_limit": "cpu_limit", "wall_limit": "wall_limit", "output_limit": "output_limit"}
_OWN: Mapping[bytes, Ending] = {b"memory": "memory_limit", b"output": "output_limit"}
"""Endings that the server measured, and those that a program's own process reports."""


class BrokenError(Exception):
    """The server ended, or said what the protocol does not know."""


@dataclass(frozen=True)
class Layers:
    """What stands between a program and the machine, as it was started."""

    bubblewrap: str
    python: str
    own_user: bool
    filter: bool
    control_groups: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """An outcome and what the program used, in seconds."""

    outcome: Outcome
    cpu_seconds: float
    wall_seconds: float


class Server:
    """A started sandbox. One program at a time; to be used and ended by the thread that made it (bubblewrap dies with that thread)."""

    def __init__(self, *, bubblewrap: Path | None = None, own_user: bool | None = None, filtered: bool = True) -> None:
        """Start it and wait until it answers.

        ``own_user``: None: where the caller is root and may become that user. ``filtered`` False leaves the filter of
        system calls away, for the tests that show what it is good for. Raises ``sandbox_unavailable`` with what to install or allow.
        """
        path = bubblewrap or find_bubblewrap()
        number = next(_NUMBERS)
        user = _FIRST_USER + os.getpid() % 65536 * _USERS_A_PROCESS + number % _USERS_A_PROCESS
        self._own_user = os.geteuid() == 0 and _is_mapped(user) if own_user is None else own_user
        entries = filter_program(os.uname().machine) if filtered else b""
        self._group = ControlGroup()
        reading, writing = os.pipe()
        try:
            line = command(path, interpreter(), writing, own_user=self._own_user)
            self._process = subprocess.Popen(  # noqa: S603 - our own command line, no shell
                line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(writing,), start_new_session=True
            )
        except OSError as error:
            os.close(reading)
            raise AffineError("sandbox_unavailable", f"{path} does not start ({error.strerror}); {INSTALL}") from error
        finally:
            os.close(writing)
        self._requests, self._replies, self._complaints = _pipes(self._process)
        self._inner: int | None = None
        try:
            version = self._started(reading, str(number))
            self._send({"filter": entries.hex(), "uid": user if self._own_user else None})
        except BaseException:
            self.end()
            raise
        finally:
            os.close(reading)
        self.layers = Layers(str(path), version, self._own_user, bool(entries), self._group.limited)

    def run(self, program: Program, limits: Limits) -> Report:
        """Run a program. Raises BrokenError where the server itself fails."""
        calls = [encode(arguments, 2**24) for arguments in program.calls]
        self._send(asdict(limits))
        self._send({"source": program.source, "function": program.function, "calls": calls})
        deadline = time.monotonic() + limits.wall_seconds + _WALL_SLACK
        header = self._message(deadline)
        body = self._read(_length(self._read(4, deadline), limits.output_bytes), deadline)
        ending, code, cpu, wall = (header.get(name) for name in ("ending", "code", "cpu", "wall"))
        if not isinstance(ending, str) or not isinstance(code, int) or not isinstance(cpu, float) or not isinstance(wall, float):
            raise BrokenError("a reply that the protocol does not know")
        if not body.startswith(_CONFINED) and ending not in _MEASURED:
            raise BrokenError(f"a program could not be confined: {body[:_WORDS].decode(errors='replace')}")
        return Report(_outcome(ending, code, body.removeprefix(_CONFINED), len(calls)), cpu, wall)

    def end(self) -> None:
        """Kill it with all that is in it, and wait for it. Safe to call again."""
        self._kill()
        self._process.wait()
        if self._inner is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._inner, signal.SIGKILL)
            select.select([self._inner], [], [], _START_SECONDS)  # readable once process 1, and so its whole namespace, is gone
            os.close(self._inner)
            self._inner = None
        for stream in (self._requests, self._replies, self._complaints):
            with suppress(OSError):  # closing flushes to a process that is gone
                stream.close()
        self._group.remove()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _started(self, reading: int, name: str) -> str:
        """Wait for it; put it into its control group while it starts. Returns the version of its Python."""
        deadline = time.monotonic() + _START_SECONDS
        try:
            child = _child(reading, min(deadline, time.monotonic() + _TOLD_SECONDS))
            self._inner = os.pidfd_open(child)
            self._group = control_group(name, MEMORY_BYTES + _SPARE_MEMORY, 64)
            self._group.add(child)
            version = self._message(deadline).get("ready")
        except (BrokenError, OSError) as error:
            raise AffineError("sandbox_unavailable", f"{self._complaint() or error}; {INSTALL}; {ALLOW}") from error
        if not isinstance(version, str):
            raise AffineError("sandbox_unavailable", "what started as bwrap does not speak our protocol")
        return version.split()[0]

    def _complaint(self) -> str:
        """The last line that a start that failed printed."""
        self._kill()
        descriptor = self._complaints.fileno()
        ready, _, _ = select.select([descriptor], [], [], 1.0)
        printed = os.read(descriptor, 65536).decode(errors="replace").strip().splitlines() if ready else []
        return printed[-1][:_WORDS] if printed else ""

    def _send(self, message: dict[str, object]) -> None:
        body = json.dumps(message).encode()
        try:
            self._requests.write(struct.pack("<I", len(body)) + body)
            self._requests.flush()
        except OSError as error:
            raise BrokenError("the server no longer listens") from error

    def _message(self, deadline: float) -> dict[str, object]:
        body = self._read(_length(self._read(4, deadline), _REPLY_ROOM), deadline)
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise BrokenError("a reply that is no JSON") from error
        if not isinstance(message, dict):
            raise BrokenError("a reply that is no object")
        return message

    def _read(self, count: int, deadline: float) -> bytes:
        descriptor = self._replies.fileno()
        parts: list[bytes] = []
        while count:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise BrokenError("the server did not answer in time")
            part = os.read(descriptor, min(count, 65536))
            if not part:
                raise BrokenError("the server ended")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise BrokenError("started without pipes")
    return process.stdin, process.stdout, process.stderr


def _child(reading: int, deadline: float) -> int:
    """The server's process id, as bubblewrap tells it, in one piece or several."""
    told = b""
    while not told.rstrip().endswith(b"}"):
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(reading, 4096) if ready else b""
        if not part or len(told) > _REPLY_ROOM:
            raise BrokenError("it does not tell which process it started, as bwrap does from version 0.5 on")
        told += part
    try:
        return int(json.loads(told)["child-pid"])
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenError("it does not tell which process it started, as bwrap does from version 0.5 on") from error


def _is_mapped(user: int) -> bool:
    """Whether this user namespace has that user: the root of a rootless container has a few thousand."""
    ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return any(first <= user < first + count for first, _, count in ranges)


def _length(head: bytes, most: int) -> int:
    length = int(struct.unpack("<I", head)[0])
    if length > most:
        raise BrokenError(f"a reply of {length} bytes")
    return length


def _outcome(ending: str, code: int, body: bytes, calls: int) -> Outcome:
    """What the bytes of a program say, line by line as far as they follow the protocol; the server's own measure goes before them."""
    lines = body.split(b"\n")
    first, results = lines[0], tuple(_results(lines[1:-1], calls))
    if ending in _MEASURED:
        return Outcome(_MEASURED[ending], results)
    if first.startswith(b"not_loaded "):
        return Outcome("not_loaded", detail=": ".join(_words(first.removeprefix(b"not_loaded "))))
    if first == b"loaded" and len(lines) > 2 and lines[-2] in _OWN:
        return Outcome(_OWN[lines[-2]], results)
    if first != b"loaded" or code != 0 or len(results) != calls:
        return Outcome("died", results, f"ended with {code} after {len(results)} of {calls} calls")
    return Outcome("finished", results)


def _results(lines: Sequence[bytes], calls: int) -> list[Returned | Raised]:
    """The results before the first line that is none."""
    found: list[Returned | Raised] = []
    for line in lines[:calls]:
        kind, _, rest = line.partition(b" ")
        try:
            if kind == b"value":
                found.append(Returned(decode(rest)))
            elif kind == b"raised":
                found.append(Raised(*_words(rest)))
            else:
                break
        except NotPlainError:
            break
    return found


def _words(text: bytes) -> tuple[str, str]:
    """The two words of an error, whatever a program made of them."""
    try:
        error, message = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return "Unreadable", ""
    return str(error)[:_WORDS], str(message)[:_WORDS]
