"""The server inside the sandbox: it takes one program at a time, forks for it, and passes on what the fork wrote.

It runs as process 1 of its own namespaces on a bare interpreter (standard library only, nothing of this project but this file and
``values.py``). It judges nothing and knows no expected value. What must not go in: anything that a program may not read, since a
fork has the server's memory, what was freed of it included. So the server never holds a program: the fork reads its own from the wall
before it gives up its rights, and what it answers passes through a buffer that is wiped.

Between the wall and the server: frames of four bytes of length and JSON, first the limits, then the program. Between the server and its
fork: a pipe whose bytes the server counts and never reads, so nothing that a program writes can be taken for the server's word.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import io
import json
import os
import resource
import select
import signal
import struct
import sys
import time
import types

from affine_dagster.environments.sandbox.values import NotPlainError, TooLargeError, decode, encode

TYPE_CHECKING = False  # see values.py
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["main"]

PRELOADED = ("bisect", "collections", "copy", "functools", "heapq", "itertools", "math", "operator", "re", "string")
"""Modules that programs use and that load in no time: loaded once, so that no program pays for them."""

_POLL_SECONDS = 0.01
_WORDS = 200
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_MODE_FILTER = 4, 22, 38, 2  # linux/prctl.h


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_void_p))


class _Nowhere(io.TextIOBase):
    """Where a program's prints go."""

    def write(self, text: str) -> int:
        return len(text)


def main(requests: int, replies: int) -> None:
    """Serve until the other side closes. ``requests``, ``replies``: file descriptors."""
    _unignore()
    for name in PRELOADED:
        __import__(name)
    libc = ctypes.CDLL(None, use_errno=True)
    _set(libc, _PR_SET_DUMPABLE, 0)
    gc.collect()
    gc.freeze()
    _send(replies, {"ready": sys.version})
    config = _receive(requests)
    while config is not None and (limits := _receive(requests)) is not None:
        _serve(limits, config, libc, (requests, replies))


def _unignore() -> None:
    """What the owner ignores is ignored here too, from the start: a program's world is the same whoever started it.

    By default, process 1 is deaf to signals from its own namespace; so Python's handler of SIGINT goes too.
    """
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # these two Python ignores everywhere
        if signal.getsignal(number) in (signal.SIG_IGN, signal.default_int_handler):
            signal.signal(number, signal.SIG_DFL)


def _serve(limits: dict[str, Any], config: dict[str, Any], libc: ctypes.CDLL, own: tuple[int, int]) -> None:
    """Fork for the next program, watch it, and reply how it ended by our own measure, with the bytes that it wrote."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            request = _receive(own[0])
            _confine(limits, config, libc, writing, own)
            _write(writing, b"confined\n")  # before the program's first word, so that it can neither take this back nor say it
        except BaseException as error:  # a wall that does not stand must never be passed by a program
            os.write(writing, f"{type(error).__name__}: {error}"[:_WORDS].encode())
            os._exit(1)
        _program(request or {}, limits["output_bytes"], writing)
    os.close(writing)
    kept = bytearray(limits["output_bytes"] + 1)
    ending, count, seconds = _watch(pid, reading, kept, limits)
    os.close(reading)
    status, usage = _reap(pid)
    if ending is None:
        ending = "closed" if os.WIFEXITED(status) else "killed"
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    _send(own[1], {"ending": ending, "code": code, "cpu": usage.ru_utime + usage.ru_stime, "wall": seconds})
    _write(own[1], struct.pack("<I", count))
    _write(own[1], memoryview(kept)[:count])
    kept[:] = bytes(len(kept))


def _watch(pid: int, reading: int, kept: bytearray, limits: dict[str, Any]) -> tuple[str | None, int, float]:
    """Read until the fork has closed its pipe or a limit is passed. ``None``: it closed by itself. The count is of bytes kept."""
    began = time.monotonic()
    clock = (~pid << 3) | 2  # the CPU clock of another process: CPUCLOCK_SCHED of linux/posix-timers.h
    count = 0
    poller = select.poll()
    poller.register(reading, select.POLLIN)
    ending = None
    while ending is None:
        if poller.poll(_POLL_SECONDS * 1000):
            part = os.readv(reading, [memoryview(kept)[count:]])
            if not part:
                break
            count += part
        ending = _passed(count, time.clock_gettime(clock), time.monotonic() - began, limits)
    return ending, min(count, limits["output_bytes"]), time.monotonic() - began


def _passed(count: int, cpu: float, wall: float, limits: dict[str, Any]) -> str | None:
    if count > limits["output_bytes"]:
        return "output_limit"
    if cpu > limits["cpu_seconds"]:
        return "cpu_limit"
    return "wall_limit" if wall > limits["wall_seconds"] else None


def _reap(pid: int) -> tuple[int, resource.struct_rusage]:
    """Kill whatever is left of a fork and wait for it and for all that it left behind. This process is 1: the signal spares it."""
    _grace(pid)
    try:  # noqa: SIM105 - contextlib is not loaded in here
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:  # nothing is left to kill
        pass
    _, status, usage = os.wait4(pid, 0)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return status, usage


def _grace(pid: int) -> None:
    """A fork that has closed its pipe to end needs a moment to do so."""
    end = time.monotonic() + 0.02
    while time.monotonic() < end:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.0002)


def _confine(limits: dict[str, Any], config: dict[str, Any], libc: ctypes.CDLL, writing: int, own: tuple[int, int]) -> None:
    """Give up everything but computing and one pipe. The order matters: the filter comes last."""
    os.setsid()
    empty, unused = os.pipe()
    for stream in (0, 1, 2):
        os.dup2(empty, stream)
    for descriptor in {*own, empty, unused} - {0, 1, 2}:
        os.close(descriptor)
    if config["uid"] is not None:
        os.setgroups([])
        os.setresgid(config["uid"], config["uid"], config["uid"])
        os.setresuid(config["uid"], config["uid"], config["uid"])
    seconds = int(limits["cpu_seconds"]) + 2  # behind the server's own watch, which is finer
    for kind, value in (
        (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, limits["memory_bytes"]), (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]), (resource.RLIMIT_NOFILE, 32), (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0), (resource.RLIMIT_MEMLOCK, 0), (resource.RLIMIT_STACK, 8 * 2**20),
    ):
        resource.setrlimit(kind, (value, value))
    _set(libc, _PR_SET_DUMPABLE, 0)
    _set(libc, _PR_SET_NO_NEW_PRIVS, 1)
    if config["filter"]:
        entries = bytes.fromhex(config["filter"])
        buffer = ctypes.create_string_buffer(entries, len(entries))
        described = _Filter(len(entries) // 8, ctypes.addressof(buffer))
        _set(libc, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(described))
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), _Nowhere(), _Nowhere()


def _set(libc: ctypes.CDLL, option: int, value: int, more: Any = 0) -> None:
    if libc.prctl(option, ctypes.c_ulong(value), more, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def _program(request: dict[str, Any], room: int, writing: int) -> NoReturn:
    """Load the program and make its calls, each with arguments of its own; write a line a result, all within ``room`` bytes; end."""
    try:
        function = _loaded(request["source"], request["function"])
        _write(writing, b"loaded\n")
    except BaseException as error:
        _write(writing, b"not_loaded " + _words(error))
        os._exit(1)
    for arguments in request["calls"]:
        line = _called(function, arguments, room)
        room -= len(line)
        _write(writing, line)
        if line.startswith((b"memory", b"output")):
            break
    os._exit(0)


def _loaded(source: str, name: str) -> Any:
    module = types.ModuleType("program")
    module.__dict__["__builtins__"] = builtins
    sys.modules["program"] = module
    exec(compile(source, "program", "exec"), module.__dict__)  # noqa: S102 - it is what the sandbox is for
    function = module.__dict__.get(name)
    if not callable(function):
        raise NameError(f"there is no function {name}")  # noqa: TRY004 - what Python itself says of a name that is not there
    return function


def _called(function: Any, arguments: str, room: int) -> bytes:
    try:
        value = function(*decode(arguments))  # type: ignore[misc]
        return b"value " + encode(value, room).encode() + b"\n"
    except MemoryError:
        return b"memory\n"
    except TooLargeError:
        return b"output\n"
    except NotPlainError as error:
        return b"raised " + json.dumps(["NotPlain", str(error)]).encode() + b"\n"
    except BaseException as error:  # SystemExit and KeyboardInterrupt are a program's own affair too
        return b"raised " + _words(error)


def _words(error: BaseException) -> bytes:
    try:
        words = [str(type(error).__name__)[:_WORDS], str(error)[:_WORDS]]
        return json.dumps(words).encode() + b"\n"
    except BaseException:  # an error of a program's own that cannot be printed
        return b'["Unprintable", ""]\n'


def _receive(descriptor: int) -> dict[str, Any] | None:
    head = _read(descriptor, 4)
    if head is None:
        return None
    body = _read(descriptor, struct.unpack("<I", head)[0])
    return None if body is None else dict(json.loads(body))


def _read(descriptor: int, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        part = os.read(descriptor, min(count, 65536))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _send(descriptor: int, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    _write(descriptor, struct.pack("<I", len(body)) + body)


def _write(descriptor: int, data: bytes | memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if entry != os.environ.get("PYTHONPATH")]
    os.environ.clear()
    main(0, 1)
