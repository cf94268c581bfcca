"""Programs for the sandbox's tests: an attack between two honest programs, and raw system calls.

What must not go in: what an attack is expected to come to.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from affine_dagster.environments.sandbox.pool import SandboxPool
from affine_dagster.environments.sandbox.port import Limits, Outcome, Program, Raised, Returned, Value

HONEST = Program("def f(a, b):\n    return a + b", "f", ((2, 3),))
QUICK = Limits(cpu_seconds=0.3, wall_seconds=3.0)


def program(body: str, *calls: tuple[Value, ...], before: str = "") -> Program:
    source = textwrap.dedent(before) + "\ndef f(a=0, b=0):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"
    return Program(source, "f", calls or ((),))


def attacked(pool: SandboxPool, attack: Program, limits: Limits = QUICK) -> Outcome:
    """The attack's outcome, run between two honest programs that get what is theirs."""
    before, outcome, after = pool.run([HONEST, attack, HONEST], limits)
    assert before == after == Outcome("finished", (Returned(5),))
    return outcome


def refused(outcome: Outcome, *errors: str) -> bool:
    """Each call ended with one of these errors."""
    return outcome.ending == "finished" and all(isinstance(one, Raised) and one.error in errors for one in outcome.results)


def value(outcome: Outcome) -> Value:
    assert outcome.ending == "finished", outcome
    (result,) = outcome.results
    assert isinstance(result, Returned), result
    return result.value


def system_call(pool: SandboxPool, call: Sequence[int]) -> Value:
    """The error number that a raw system call fails with inside."""
    return value(attacked(pool, program(f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        answer = libc.syscall(*(ctypes.c_long(part) for part in {tuple(call)!r}))
        return ctypes.get_errno() if answer == -1 else 0
    """)))


EPERM, ENOSYS = 1, 38

CALLS: dict[str, tuple[int, ...]] = {
    "fork": (57,), "vfork": (58,), "clone": (56, 17, 0, 0, 0, 0), "execve": (59, 0, 0, 0), "kill": (62, -1, 9), "tkill": (200, 1, 9),
    "ptrace": (101, 16, 1, 0, 0), "process_vm_readv": (310, 1, 0, 0, 0, 0, 0), "process_vm_writev": (311, 1, 0, 0, 0, 0, 0),
    "unshare": (272, 0x10000000), "setns": (308, 3, 0), "mount": (165, 0, 0, 0, 0, 0), "umount2": (166, 0, 2),
    "pivot_root": (155, 0, 0), "chroot": (161, 0), "memfd_create": (319, 0, 0), "socket": (41, 2, 1, 0), "io_uring_setup": (425, 1, 0),
    "bpf": (321, 0, 0, 0), "perf_event_open": (298, 0, 0, -1, -1, 0), "userfaultfd": (323, 0), "keyctl": (250, 0, 0),
    "add_key": (248, 0, 0, 0, 0, 0), "pidfd_open": (434, 1, 0), "pidfd_getfd": (438, 3, 0, 0), "prctl": (157, 38, 0, 0, 0, 0),
    "seccomp": (317, 0, 0, 0), "setrlimit": (160, 7, 0), "prlimit64": (302, 1, 7, 0, 0), "shmget": (29, 1, 4096, 0o1777),
    "msgget": (68, 1, 0o1777), "semget": (64, 1, 1, 0o1777), "mq_open": (240, 0, 0o102, 0o777, 0), "setuid": (105, 0),
    "setresuid": (117, 0, 0, 0), "capset": (126, 0, 0), "personality": (135, 0x40000), "open_by_handle_at": (304, 0, 0, 0),
    "name_to_handle_at": (303, 0, 0, 0, 0, 0), "symlink": (88, 0, 0), "mknod": (133, 0, 0, 0), "mkdir": (83, 0, 0), "unlink": (87, 0),
    "init_module": (175, 0, 0, 0), "kexec_load": (246, 0, 0, 0, 0), "reboot": (169, 0, 0, 0), "sysfs": (139, 0), "swapon": (167, 0, 0),
    "nanosleep": (35, 0, 0), "pause": (34,), "alarm": (37, 1), "setitimer": (38, 0, 0, 0), "inotify_init": (253,),
    "timerfd_create": (283, 0, 0), "eventfd2": (290, 0, 0), "pipe2": (293, 0, 0), "dup": (32, 1), "ioctl": (16, 0, 0x5412, 0),
    "syslog": (103, 10, 0, 0), "quotactl": (179, 0, 0, 0, 0), "landlock_create_ruleset": (444, 0, 0, 0),
    "mount_setattr": (442, 0, 0, 0, 0, 0), "fsopen": (430, 0, 0), "move_mount": (429, 0, 0, 0, 0, 0), "clone3": (435, 0, 0),
    "process_madvise": (440, 0, 0, 0, 0, 0), "getcpu": (309, 0, 0, 0),
}
"""Numbers and arguments of x86_64 (``asm/unistd_64.h``)."""
