"""The tests of attacks notice a wall that is missing: with a layer left away the same attack gets further."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sandbox_programs import CALLS, EPERM, program, system_call, value

from affine_dagster.environments.sandbox.pool import SandboxPool
from affine_dagster.environments.sandbox.port import Limits, Raised
from affine_dagster.environments.sandbox.server import Server


@pytest.fixture(scope="module")
def unfiltered() -> Iterator[SandboxPool]:
    made = SandboxPool(1, lambda: Server(filtered=False))
    yield made
    made.close()


@pytest.mark.skipif(__import__("platform").machine() != "x86_64", reason="the numbers are those of x86_64")
@pytest.mark.parametrize("name", ["memfd_create", "pidfd_open", "prctl", "shmget", "nanosleep", "socket", "dup"])
def test_without_the_filter_a_system_call_gets_through(unfiltered: SandboxPool, name: str) -> None:
    assert system_call(unfiltered, CALLS[name]) != EPERM


def test_without_the_filter_the_process_limit_still_stops_a_fork_bomb(unfiltered: SandboxPool) -> None:
    """RLIMIT_NPROC does not bind root: a program has a user id of its own."""
    (outcome,) = unfiltered.run([program("import os\nos.fork()")], Limits())
    assert outcome.results == (Raised("BlockingIOError", "[Errno 11] Resource temporarily unavailable"),)


def test_a_process_limit_of_its_own_lets_a_program_fork_where_the_filter_is_off(unfiltered: SandboxPool) -> None:
    (outcome,) = unfiltered.run([program("import os\npid = os.fork()\nif pid == 0:\n    os._exit(0)\nreturn pid > 0")], Limits(processes=4))
    assert value(outcome) is True


def test_without_the_filter_the_server_and_the_network_are_out_of_reach_too(unfiltered: SandboxPool) -> None:
    kill, trace, net = unfiltered.run([
        program("import os\nos.kill(1, 9)"),
        program("import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.ptrace(16, 1, 0, 0)\nreturn ctypes.get_errno()"),
        program("import socket\nsocket.create_connection(('127.0.0.1', 9), 1)"),
    ], Limits())
    assert isinstance(kill.results[0], Raised)
    assert value(trace) == EPERM
    assert isinstance(net.results[0], Raised)


def test_a_user_namespace_is_the_wall_where_the_caller_is_not_root() -> None:
    pool = SandboxPool(1, lambda: Server(own_user=False))
    try:
        assert not pool.layers().own_user
        outcomes = pool.run([program("return 7"), program("import os\nos.fork()"), program("import os\nos.kill(-1, 9)")], Limits())
        assert value(outcomes[0]) == 7
        assert all(isinstance(one.results[0], Raised) for one in outcomes[1:])
    finally:
        pool.close()
