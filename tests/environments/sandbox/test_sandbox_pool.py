"""A pool keeps every core busy, gives each program its own outcome, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sandbox_programs import HONEST, program

from affine_dagster.environments.sandbox.cgroups import control_group, remove_stale
from affine_dagster.environments.sandbox.pool import SandboxPool
from affine_dagster.environments.sandbox.port import Limits, Outcome, Program, Returned
from affine_dagster.environments.sandbox.server import BrokenError, Report, Server
from affine_dagster.reasons import AffineError

MIXED = [
    HONEST, program("return a * b", (3, 4)), program("raise ValueError('no')", (1, 2)), program("import os\nos._exit(3)"),
    program("return 'x' * 10**6"), program("return [a]", ([1], 0)), Program("def g(): pass", "f", ((),)), program("return bytes(10**9)"),
]
"""Every ending but the two that take time."""


@pytest.fixture(scope="module")
def alone() -> list[Outcome]:
    """What each of the mixed programs gives in a sandbox of its own."""
    outcomes = []
    for one in MIXED:
        pool = SandboxPool(1)
        outcomes += pool.run([one], Limits())
        pool.close()
    return outcomes


@settings(max_examples=25)
@given(order=st.lists(st.integers(0, len(MIXED) - 1), max_size=12))
def test_an_outcome_does_not_depend_on_its_batch(pool: SandboxPool, alone: list[Outcome], order: list[int]) -> None:
    assert pool.run([MIXED[index] for index in order], Limits()) == [alone[index] for index in order]


def test_a_pool_of_two_gives_outcomes_in_order() -> None:
    pool = SandboxPool(2)
    try:
        outcomes = pool.run([program(f"return {number}") for number in range(50)], Limits())
        assert outcomes == [Outcome("finished", (Returned(number),)) for number in range(50)]
    finally:
        pool.close()


def test_callers_on_several_threads_get_their_own(pool: SandboxPool) -> None:
    found: dict[int, list[Outcome]] = {}

    def call(number: int) -> None:
        found[number] = pool.run([program(f"return {number * 100 + index}") for index in range(10)], Limits())

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [Outcome("finished", (Returned(number * 100 + index),)) for index in range(10)] for number in range(4)}


def test_a_server_that_breaks_is_replaced_and_the_program_runs_again() -> None:
    made: list[Server] = []

    def make() -> Server:
        made.append(Server())
        return made[-1]

    pool = SandboxPool(1, make)
    try:
        assert pool.run([HONEST], Limits()) == [Outcome("finished", (Returned(5),))]
        os.kill(made[0]._process.pid, signal.SIGKILL)
        assert pool.run([HONEST], Limits()) == [Outcome("finished", (Returned(5),))]
        assert len(made) == 2
    finally:
        pool.close()


class Breaking(Server):
    """A server that breaks under a program that says so."""

    def run(self, program: Program, limits: Limits) -> Report:
        if "break" in program.source:
            raise BrokenError("the server ended")
        return super().run(program, limits)


def test_a_program_that_breaks_every_server_is_to_blame_and_no_other() -> None:
    pool = SandboxPool(1, Breaking)
    try:
        outcomes = pool.run([HONEST, Program("break", "f", ()), HONEST], Limits())
        assert [one.ending for one in outcomes] == ["finished", "died", "finished"]
    finally:
        pool.close()


class Broken(Server):
    """A server that breaks under every program."""

    def run(self, program: Program, limits: Limits) -> Report:
        raise BrokenError("the server ended")


class Wrong(Broken):
    """A server whose one and one is three."""

    def run(self, program: Program, limits: Limits) -> Report:
        if program is HONEST:
            raise BrokenError("the server ended")
        return Report(Outcome("finished", (Returned(3),)), 0.0, 0.0)


@pytest.mark.parametrize("kind", [Broken, Wrong])
def test_a_sandbox_that_breaks_under_everything_is_nobodys_wrong_answer(kind: type[Server]) -> None:
    pool = SandboxPool(1, kind)
    try:
        with pytest.raises(AffineError) as caught:
            pool.run([HONEST], Limits())
        assert caught.value.code == "sandbox_failed"
    finally:
        pool.close()


def test_a_starved_program_is_run_once_more_with_patience() -> None:
    """A machine that gives a program no processor time must not make its answer wrong."""
    limits: list[float] = []

    class Starved(Server):
        def run(self, program: Program, given: Limits) -> Report:
            limits.append(given.wall_seconds)
            if len(limits) == 1:
                return Report(Outcome("wall_limit"), 0.01, given.wall_seconds)
            return super().run(program, given)

    pool = SandboxPool(1, Starved)
    try:
        assert pool.run([HONEST], Limits(wall_seconds=2.0)) == [Outcome("finished", (Returned(5),))]
        assert limits == [2.0, 8.0]
    finally:
        pool.close()


def test_a_closed_pool_runs_nothing() -> None:
    pool = SandboxPool(1)
    pool.close()
    pool.close()
    with pytest.raises(AffineError, match="closed"):
        pool.run([HONEST], Limits())


def processes(marker: str) -> list[int]:
    """Processes whose environment or command line holds the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def test_close_leaves_no_process_and_no_control_group() -> None:
    before, groups = set(processes("sandbox/inside.py")), control_groups()
    pool = SandboxPool(2)
    pool.run([HONEST, HONEST], Limits())
    made = set(processes("sandbox/inside.py")) - before
    assert made
    pool.close()
    assert until(lambda: made.isdisjoint(processes("sandbox/inside.py")))  # another test run's among them, it may be: those end too
    assert control_groups() <= groups


def control_groups() -> set[Path]:
    """Those of this process's sandboxes."""
    return set(Path("/sys/fs/cgroup").glob(f"**/affine-sandbox-{os.getpid()}-*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make control groups here")
def test_two_pools_of_one_process_share_no_control_group() -> None:
    pools, found = [SandboxPool(1), SandboxPool(1)], []
    for pool in pools:
        before = control_groups()
        pool.run([HONEST], Limits())
        found.append(control_groups() - before)
    for pool in pools:
        pool.close()
    assert len(found[0]) == len(found[1])
    assert not found[0] & found[1]


def test_what_its_owner_ignores_is_nothing_to_a_program() -> None:
    standing = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pool = SandboxPool(1)
    try:
        ignored = program("import signal\nreturn [n for n in range(1, 65) if signal.getsignal(n) == signal.SIG_IGN]")
        (outcome,) = pool.run([ignored], Limits())
    finally:
        pool.close()
        signal.signal(signal.SIGTERM, standing)
    assert outcome.results == (Returned([signal.SIGPIPE.value, signal.SIGXFSZ.value]),)


OWNER = """
import sys
sys.path[:0] = {path!r}
from affine_dagster.environments.sandbox.pool import SandboxPool
from affine_dagster.environments.sandbox.port import Limits, Program
pool = SandboxPool(1)
pool.run([Program("def f(): return 1", "f", ((),))], Limits())
print("ready", flush=True)
pool.run([Program("def f():\\n    while True: pass", "f", ((),))], Limits(cpu_seconds=60, wall_seconds=60))
"""


def test_an_owner_that_is_killed_takes_its_sandbox_with_it() -> None:
    """Kill -9 on the owner, in the middle of an endless program."""
    before = set(processes("sandbox/inside.py"))
    owner = subprocess.Popen([sys.executable, "-c", OWNER.format(path=sys.path)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"ready\n"
    made = set(processes("sandbox/inside.py")) - before
    assert made
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert until(lambda: made.isdisjoint(processes("sandbox/inside.py")))
    remove_stale()
    assert until(lambda: remove_stale() is None and not list(Path("/sys/fs/cgroup").glob(f"**/affine-sandbox-{owner.pid}-*")))


@pytest.mark.parametrize("unified", [True, False])
def test_a_control_group_is_made_in_either_hierarchy(tmp_path: Path, unified: bool) -> None:
    for kind in ("memory", "pids"):
        (tmp_path / kind).mkdir()
    if unified:
        (tmp_path / "cgroup.controllers").write_text("memory pids")
    group = control_group("1", 1000, 5, tmp_path)
    assert group.limited == ("memory", "pids")
    assert len(group.folders) == (1 if unified else 2)
    written = {file.name: file.read_text() for folder in group.folders for file in folder.iterdir()}
    assert set(written.values()) == {"1000", "5"}


def test_in_a_shared_folder_one_limit_that_cannot_be_set_leaves_the_other(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("memory")
    (tmp_path / f"affine-sandbox-{os.getpid()}-1" / "pids.max").mkdir(parents=True)
    group = control_group("1", 1000, 5, tmp_path)
    assert group.limited == ("memory",)
    assert [folder.exists() for folder in group.folders] == [True]


def test_without_control_groups_a_sandbox_says_that_the_layer_is_absent(tmp_path: Path) -> None:
    assert control_group("1", 1000, 5, tmp_path / "absent").limited == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make control groups here")
def test_the_server_is_in_its_control_group(pool: SandboxPool) -> None:
    if not pool.layers().control_groups:
        pytest.skip("this machine lets nobody make control groups")
    pool.run([HONEST], Limits())
    listed = [path.read_text().split() for path in Path("/sys/fs/cgroup").glob(f"**/affine-sandbox-{os.getpid()}-*/cgroup.procs")]
    assert listed
    assert all(listed)
