"""The development chain's file under kill -9 at every line, under several processes, and under threads."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from affine_dagster.chain.keys import hotkey_from_uri
from affine_dagster.chain.local import LocalChain
from affine_dagster.chain.local_world import LocalWorld

NETUID = 120


def _run(what: str, path: Path) -> list:
    script = Path(__file__).with_name("processes.py")
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, str(script), what, str(path)], capture_output=True, text=True, timeout=120, check=True, env=environment
    )
    return json.loads(done.stdout)


def test_killed_at_any_line_the_chain_has_all_of_a_write_or_nothing(tmp_path):
    seen = _run("kill_at_each_line", tmp_path / "chain.db")
    assert all(state["sound"] == "ok" for state in seen)
    assert all(state["commitments"] == state["calls"] and state["trail"] == 0 for state in seen)
    steps = [(late["commitments"] - early["commitments"], late["head"] - early["head"]) for early, late in itertools.pairwise(seen)]
    assert set(steps) == {(0, 0), (1, 0), (1, 1)}  # killed before the first write's end, between the two writes, after both
    assert {state["status"] for state in seen[1:-1]} == {signal.SIGKILL}
    assert seen[-1]["status"] == 0
    assert len(seen) > 50


def test_processes_that_write_at_once_lose_nothing_and_share_no_position(tmp_path):
    codes, *rows = _run("together", tmp_path / "chain.db")
    assert codes == [0, 0, 0, 0]
    assert len(rows) == 60
    positions = [(block, index) for _, block, index, _ in rows]
    assert positions == sorted(set(positions))
    for number in range(4):
        address = hotkey_from_uri(f"//Writer{number}").ss58_address
        assert [data for hotkey, _, _, data in rows if hotkey == address] == [f"{number}-{turn}" for turn in range(15)]


def test_threads_share_one_chain_object(world):
    world.found()
    chain = world.seen_by(world.keys.first)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            chain.commit(NETUID, f"{number}".encode())
            chain.head()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.hand.advance()
    assert failures == []
    found = chain.commitments(NETUID, after=0, until=2)
    assert sorted(item.data for item in found) == [f"{number}".encode() for number in range(8)]


def test_those_who_found_a_file_at_once_see_one_chain(tmp_path):
    path, seen, ready = tmp_path / "deep" / "chain.db", [], threading.Barrier(6)

    def work() -> None:
        ready.wait()
        LocalWorld(path)
        seen.append(LocalChain(path).block(0))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 6
    assert len(set(seen)) == 1
    assert not list(path.parent.glob(".chain-*"))


def test_a_write_that_cannot_get_the_lock_times_out_as_a_refusal(tmp_path, refusal, monkeypatch):
    monkeypatch.setattr("affine_dagster.chain.local_file.BUSY_SECONDS", 0.05)
    path = tmp_path / "chain.db"
    holder, other = LocalWorld(path), LocalWorld(path)
    with holder._file.writing():
        assert refusal(other.advance) == "timeout"
    assert other.advance() == 1
