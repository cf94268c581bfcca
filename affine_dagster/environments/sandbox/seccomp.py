"""The filter of system calls that a program runs under: an allow-list, as the classic BPF program that the kernel takes.

Allowed is what the interpreter needs to compute and to read its own modules. Not among it: new processes and threads, other programs'
processes, sockets, waiting (on a clock, or for a lock: in a process of one thread nobody would ever give it back), signals, locks of
files, anything that makes or changes files, namespaces, keys, memory of others. A call that is not allowed fails with EPERM (a ``futex``
that would wait ends the program: the C library takes the refusal for a broken kernel; ``clone3`` fails with ENOSYS, so that libraries
fall back to a call that fails properly). What must not go in: who installs it (``inside.py``). Sources: Linux
``Documentation/userspace-api/seccomp_filter.rst``; numbers from ``asm/unistd_64.h`` and ``asm-generic/unistd.h``.
"""

from __future__ import annotations

import struct

from affine_dagster.reasons import AffineError

__all__ = ["ALLOWED", "filter_program"]

_X86 = {
    "read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11,
    "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "pread64": 17, "readv": 19, "access": 21,
    "sched_yield": 24, "mremap": 25, "madvise": 28, "getpid": 39, "exit": 60, "uname": 63, "fcntl": 72, "getcwd": 79, "readlink": 89,
    "gettimeofday": 96, "getrusage": 98, "times": 100, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108,
    "sigaltstack": 131, "gettid": 186, "futex": 202, "sched_getaffinity": 204, "getdents64": 217, "clock_gettime": 228,
    "clock_getres": 229, "exit_group": 231, "openat": 257, "newfstatat": 262, "readlinkat": 267, "set_robust_list": 273,
    "getrandom": 318, "statx": 332, "rseq": 334, "faccessat2": 439,
}

_ARM = {
    "getcwd": 17, "fcntl": 25, "faccessat": 48, "openat": 56, "close": 57, "getdents64": 61, "lseek": 62, "read": 63, "write": 64,
    "readv": 65, "pread64": 67, "readlinkat": 78, "newfstatat": 79, "fstat": 80, "exit": 93, "exit_group": 94, "futex": 98,
    "set_robust_list": 99, "clock_gettime": 113, "clock_getres": 114, "sched_getaffinity": 123, "sched_yield": 124,
    "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "times": 153, "getrusage": 165,
    "gettimeofday": 169, "uname": 160, "getpid": 172,
    "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178, "brk": 214,
    "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226, "madvise": 233, "getrandom": 278, "statx": 291, "rseq": 293,
    "faccessat2": 439,
}

ALLOWED = {"x86_64": _X86, "aarch64": _ARM}
"""The numbers of the allowed calls by machine, as ``os.uname().machine`` names it."""

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*: linux/audit.h
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06  # BPF_LD|W|ABS, JMP|JEQ|K, JMP|JGE|K, ALU|AND|K, RET|K
_NUMBER, _ARCHITECTURE, _SECOND_ARGUMENT = 0, 4, 24  # offsets in struct seccomp_data; the low half of an argument: both are little-endian
_COMMANDS = {
    "futex": (0x7F, (1, 3, 4, 5, 10)),  # FUTEX_WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, WAKE_BITSET: linux/futex.h
    "fcntl": (0xFFFFFFFF, (0, 1, 2, 3, 1030)),  # F_DUPFD, GETFD, SETFD, GETFL, DUPFD_CLOEXEC: linux/fcntl.h
}
"""Of these calls the second argument, under a mask, must be one of those. What else there is waits (for a lock of a file, or of memory),
tells another sandbox something (locks again), or sends signals to any process."""
_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000  # SECCOMP_RET_*
_EPERM, _ENOSYS, _CLONE3, _X32 = 1, 38, 435, 0x40000000


def filter_program(machine: str) -> bytes:
    """The filter as ``struct sock_filter`` entries of eight bytes. Raises ``sandbox_unavailable`` for a machine without a table."""
    if machine not in ALLOWED:
        raise AffineError("sandbox_unavailable", f"there is no table of system calls for {machine}; there are {', '.join(ALLOWED)}")
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, _AUDIT[machine]), (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL),
        (_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | _ENOSYS),
    ]
    allowed = ALLOWED[machine]
    for number in sorted(number for name, number in allowed.items() if name not in _COMMANDS):
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    refused = (_RETURN, 0, 0, _ERRNO | _EPERM)
    for name, (mask, commands) in _COMMANDS.items():
        known = [step for command in commands for step in ((_EQUAL, 0, 1, command), (_RETURN, 0, 0, _ALLOW))]
        steps += [
            (_EQUAL, 0, len(known) + 3, allowed[name]), (_LOAD, 0, 0, _SECOND_ARGUMENT), (_AND, 0, 0, mask), *known, refused
        ]
    steps.append(refused)
    return b"".join(struct.pack("<HBBI", *step) for step in steps)
