"""What a program does against the machine ends with the program; the next honest one in the same sandbox is none the worse."""

from __future__ import annotations

import pytest
from sandbox_programs import CALLS, ENOSYS, EPERM, attacked, program, refused, system_call, value

from affine_dagster.environments.sandbox.pool import SandboxPool
from affine_dagster.environments.sandbox.port import Limits


def test_a_fork_bomb_makes_no_process(pool: SandboxPool) -> None:
    outcome = attacked(pool, program("""
        import os
        made = 0
        while made < 1000:
            os.fork()
            made += 1
    """))
    assert refused(outcome, "PermissionError", "BlockingIOError")


def test_an_endless_loop_ends_at_the_cpu_limit(pool: SandboxPool) -> None:
    assert attacked(pool, program("while True: pass")).ending == "cpu_limit"


WAITS = {
    "for a lock": "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
    "for a lock, a while": "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire(timeout=600)",
    "for a condition": "import threading\nwith threading.Condition() as condition:\n    condition.wait()",
    "for an item": "import queue\nqueue.SimpleQueue().get()",
    "for input": "import os\nfor number in range(32):\n    try: os.read(number, 1)\n    except OSError: pass",
    "on a clock": "import time\ntime.sleep(600)",
    "for a child": "import os\nos.wait()",
    "for a signal": "import signal\nsignal.pause()",
    "for a descriptor": "import select\nselect.select([0], [], [], 600)",
    "stopped": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "for its own lock of the result pipe":
        "import fcntl, struct\nlock = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)\nfor number in range(3, 32):\n    try:\n"
        "        fcntl.fcntl(number, 37, lock)\n        fcntl.fcntl(number, fcntl.F_SETLKW, lock)\n    except OSError: pass",
    "for a lock of a file":
        "import fcntl, json\nwith open(json.__file__) as file:\n    fcntl.lockf(file, fcntl.LOCK_SH)\n    fcntl.flock(file, fcntl.LOCK_EX)",
    "stopped by its own pipe":
        "import fcntl, os, signal\nfor number in range(3, 32):\n    try:\n        fcntl.fcntl(number, fcntl.F_SETOWN, os.getpid())\n"
        "        fcntl.fcntl(number, 10, int(signal.SIGSTOP))\n        fcntl.fcntl(number, fcntl.F_SETFL, os.O_ASYNC | os.O_WRONLY)\n"
        "        os.write(number, b'v')\n    except OSError: pass",
    "with a signal for the server":
        "import fcntl, os, signal\nfor number in range(3, 32):\n    try:\n        fcntl.fcntl(number, fcntl.F_SETOWN, 1)\n"
        "        fcntl.fcntl(number, 10, int(signal.SIGINT))\n        fcntl.fcntl(number, fcntl.F_SETFL, os.O_ASYNC | os.O_WRONLY)\n"
        "        os.write(number, b'v')\n    except OSError: pass",
    "on a pipe of its own": "import os\nr, w = os.pipe()\nos.read(r, 1)",
}


@pytest.mark.parametrize("command", ["F_SETLK", "F_SETLKW", "F_GETLK", "F_SETOWN", "F_SETFL", "F_SETLEASE", "F_NOTIFY", "F_SETPIPE_SZ"])
def test_of_a_descriptor_only_its_flags_can_be_asked_for(pool: SandboxPool, command: str) -> None:
    """Locks wait and are seen by other sandboxes, leases stop the machine's own readers, owners get signals."""
    outcome = attacked(pool, program(f"import fcntl, json\nwith open(json.__file__) as file:\n    fcntl.fcntl(file, fcntl.{command}, 0)"))
    assert refused(outcome, "PermissionError")


@pytest.mark.parametrize("way", sorted(WAITS))
def test_a_program_that_waits_gets_no_time_to_wait(pool: SandboxPool, way: str) -> None:
    """Waiting uses no processor time, and would hold a sandbox until its wall limit: with patience, since starving looks the same."""
    outcome = attacked(pool, program(WAITS[way]), Limits(cpu_seconds=5.0, wall_seconds=30.0))
    assert outcome.ending in ("died", "finished")


@pytest.mark.parametrize(
    "way", ["print('x' * 10_000)", "import sys; sys.stdout.write('x' * 10_000)", "import sys; sys.stderr.write('x' * 10_000)"]
)
def test_ten_gigabytes_of_print_go_nowhere(pool: SandboxPool, way: str) -> None:
    outcome = attacked(pool, program(f"for _ in range(1_000_000):\n    {way}"))
    assert outcome.ending == "cpu_limit" or value(outcome) is None


def test_ten_gigabytes_into_the_result_pipe_end_at_the_output_limit(pool: SandboxPool) -> None:
    outcome = attacked(pool, program("""
        import os
        line = b'x' * 65536
        for _ in range(160_000):
            for number in range(3, 32):
                try:
                    os.write(number, line)
                except OSError:
                    pass
    """))
    assert outcome.ending == "output_limit"


def test_a_huge_result_ends_at_the_output_limit(pool: SandboxPool) -> None:
    assert attacked(pool, program("return 'x' * 1_000_000")).ending == "output_limit"


@pytest.mark.parametrize("whom", ["-1", "1", "os.getppid() or 1", "0"])
def test_killing_everybody_kills_nobody(pool: SandboxPool, whom: str) -> None:
    outcome = attacked(pool, program(f"import os\nos.kill({whom}, 9)"))
    assert refused(outcome, "PermissionError", "ProcessLookupError")


@pytest.mark.parametrize(
    "path", ["/proc/1/environ", "/proc/self/environ", "/proc/self/mem", "/sys/kernel", "/dev/null", "/etc/passwd", "/root", "/tmp"]
)
def test_there_is_nothing_to_read_outside_python(pool: SandboxPool, path: str) -> None:
    assert refused(attacked(pool, program(f"open({path!r}).read()")), "FileNotFoundError", "PermissionError")


def test_the_file_system_holds_python_and_nothing_else(pool: SandboxPool) -> None:
    found = value(attacked(pool, program("import os\nreturn sorted(os.listdir('/'))")))
    assert set(found) <= {"lib", "lib64", "usr", "python", "server"}  # type: ignore[arg-type]
    assert value(attacked(pool, program("import os\nreturn os.listdir('/python/lib/python3.11/site-packages')"))) == []


def test_the_environment_is_empty(pool: SandboxPool) -> None:
    assert value(attacked(pool, program("import os\nreturn dict(os.environ)"))) == {}


def test_the_result_file_is_a_pipe_whose_bytes_are_values_at_most(pool: SandboxPool) -> None:
    """Case E7: the reward was read from a file that the agent can write. Here there is no reward inside; a forger writes values."""
    outcome = attacked(pool, program("""
        import os
        for number in range(32):
            for line in (b'reward 1.0\\n', b'value 1\\n', b'{"ending": "finished", "reward": 1.0}\\n'):
                try:
                    os.write(number, line)
                except OSError:
                    pass
        os._exit(0)
    """))
    assert outcome.ending == "died"
    assert outcome.results == ()


def test_an_exit_code_says_nothing(pool: SandboxPool) -> None:
    """Case E8: the first marker of an exit code won, and the model printed its own."""
    for code in (0, 1, 97):
        assert attacked(pool, program(f"print('EXIT_CODE:0')\nimport os\nos._exit({code})")).ending == "died"


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"])
def test_no_socket_opens(pool: SandboxPool, family: str) -> None:
    assert refused(attacked(pool, program(f"import socket\nsocket.socket(socket.{family})")), "PermissionError")


@pytest.mark.parametrize(
    "folder", ["/", "/tmp", "/python", "/python/lib/python3.11", "/python/lib/python3.11/site-packages", "/server", "/lib", "."]
)
def test_the_disk_cannot_be_filled_where_nothing_can_be_made(pool: SandboxPool, folder: str) -> None:
    outcome = attacked(pool, program(f"with open({folder!r} + '/full', 'wb') as file:\n    file.write(b'x' * 10**6)"))
    assert refused(outcome, "OSError", "PermissionError", "FileNotFoundError")


def test_nothing_that_is_there_can_be_written(pool: SandboxPool) -> None:
    outcome = attacked(pool, program("import json\nopen(json.__file__, 'a').write('x')"))
    assert refused(outcome, "OSError", "PermissionError")


@pytest.mark.parametrize(
    "body",
    ["import sys\nsys.setrecursionlimit(10**9)\ng = lambda n: g(n + 1)\ng(0)", "def g(): return g()\ng()",
     "x = []\nfor _ in range(10**5): x = [x]\nimport sys\nsys.setrecursionlimit(10**9)\nreturn repr(x)",
     "import ctypes\nctypes.string_at(0)",
     "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n    def __getattr__(self, n): return getattr(self, n)\nA().x"],
)
def test_a_stack_overflow_or_a_crash_ends_the_program_alone(pool: SandboxPool, body: str) -> None:
    outcome = attacked(pool, program(body))
    assert outcome.ending in ("died", "cpu_limit", "memory_limit") or refused(outcome, "RecursionError")


@pytest.mark.parametrize(
    "body", ["return len(bytes(10**9))", "x = []\nwhile True: x.append('x' * 10**6)", "x = 'x'\nwhile True: x += x", "return [0] * 10**9"]
)
def test_memory_ends_at_its_limit(pool: SandboxPool, body: str) -> None:
    assert attacked(pool, program(body), Limits(cpu_seconds=5.0, wall_seconds=30.0)).ending == "memory_limit"


@pytest.mark.parametrize("body", ["return 10 ** 10 ** 9", "import re\nreturn re.match('(a+)+b', 'a' * 60)", "return sum(range(10**12))"])
def test_one_long_operation_ends_at_the_cpu_limit_too(pool: SandboxPool, body: str) -> None:
    assert attacked(pool, program(body)).ending in ("cpu_limit", "memory_limit")


@pytest.mark.skipif(__import__("platform").machine() != "x86_64", reason="the numbers are those of x86_64")
@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_system_call_through_ctypes_is_not_permitted(pool: SandboxPool, name: str) -> None:
    assert system_call(pool, CALLS[name]) == (ENOSYS if name == "clone3" else EPERM)


def test_a_32_bit_system_call_is_death(pool: SandboxPool) -> None:
    """The x32 numbers share the architecture's mark, so they are refused by number."""
    outcome = attacked(pool, program("import ctypes\nreturn ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 + 39))"))
    assert outcome.ending == "died"
