"""Run by ``test_local_processes.py`` in an interpreter of its own, which may fork: nothing here has threads.

``kill_at_each_line <file>``: for each line of the adapter that a commitment and a block run through, a child process that is
killed with SIGKILL just before it, and then a look at the file. ``together <file>``: children that write at once. Both print
what they saw as JSON; the test judges it.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import types
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from affine_dagster.chain import local, local_calls, local_file
from affine_dagster.chain.keys import hotkey_from_uri
from affine_dagster.chain.local import LocalChain
from affine_dagster.chain.local_state import SubnetParameters
from affine_dagster.chain.local_world import LocalWorld

NETUID = 120
WRITERS, EACH = 4, 15
OURS = {module.__file__ for module in (local, local_calls, local_file)}


def found(path: Path) -> None:
    world = LocalWorld(path)
    world.add_subnet(NETUID, hotkey_from_uri("//Owner").ss58_address, parameters=SubnetParameters(commit_space=10**9))
    for number in range(WRITERS):
        world.register(NETUID, hotkey_from_uri(f"//Writer{number}").ss58_address)
    world.advance()
    world.close()


def in_child(work: Callable[[], None]) -> int:
    """The wait status of a child that did the work."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def step(path: Path) -> None:
    chain = LocalChain(path, hotkey_from_uri("//Writer0"))
    chain.commit(NETUID, b"x")
    LocalWorld(path).advance()


def killed_before_line(path: Path, line: int) -> Callable[[], None]:
    def work() -> None:
        seen = 0

        def trace(frame: types.FrameType, event: str, _argument: object) -> object:
            nonlocal seen
            if frame.f_code.co_filename not in OURS:
                return None
            if event == "line":
                seen += 1
                if seen == line:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)  # type: ignore[arg-type]
        step(path)
        sys.settrace(None)

    return work


def look(path: Path) -> dict[str, object]:
    with closing(sqlite3.connect(path)) as sql:
        def one(query: str) -> object:
            return sql.execute(query).fetchone()[0]

        return {
            "sound": one("PRAGMA integrity_check"),
            "head": one("SELECT head FROM progress"),
            "commitments": one("SELECT count(*) FROM commitment"),
            "calls": one("SELECT count(*) FROM extrinsic WHERE call = 'commit'"),
            "trail": one("SELECT count(*) FROM trail t WHERE NOT EXISTS (SELECT 1 FROM extrinsic e WHERE e.block = t.block)"),
        }


def kill_at_each_line(path: Path) -> list[dict[str, object]]:
    found(path)
    seen: list[dict[str, object]] = [{"status": 0, **look(path)}]
    for line in range(1, 2000):
        status = in_child(killed_before_line(path, line))
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        seen.append({"status": status, **look(path)})
        if not killed:
            return seen
    return seen


def together(path: Path) -> list[list[object]]:
    found(path)

    def writer(number: int) -> Callable[[], None]:
        def work() -> None:
            chain = LocalChain(path, hotkey_from_uri(f"//Writer{number}"))
            world = LocalWorld(path)
            for turn in range(EACH):
                chain.commit(NETUID, f"{number}-{turn}".encode())
                if turn % 3 == number % 3:
                    world.advance()

        return work

    children = []
    for number in range(WRITERS):
        child = os.fork()
        if child == 0:
            writer(number)()
            os._exit(0)
        children.append(child)
    codes = [os.waitpid(child, 0)[1] for child in children]
    head = LocalWorld(path).advance()
    rows = LocalChain(path).commitments(NETUID, after=0, until=head)
    return [codes, *[[item.hotkey, item.block, item.extrinsic_index, (item.data or b"").decode()] for item in rows]]


if __name__ == "__main__":
    print(json.dumps({"kill_at_each_line": kill_at_each_line, "together": together}[sys.argv[1]](Path(sys.argv[2]))))
