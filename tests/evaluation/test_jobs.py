"""Local processes: a job is done when its results are there, lost workers are started again, and no process outlives its launcher.

No model is loaded here: the worker needs none where the ledger lacks nothing, and fails before it where the hub has nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from evaluation_parts import EPOCH, FakeEngine, World, make_world, planned

from affine_dagster.environments.registry import environments
from affine_dagster.evaluation.events import JobEvent
from affine_dagster.evaluation.job import EvaluationJob
from affine_dagster.evaluation.jobs import LocalProcesses
from affine_dagster.evaluation.lease import is_leased, lease
from affine_dagster.evaluation.worker import EXIT_LEASED, main
from affine_dagster.reasons import REASONS, Fault


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = make_world(tmp_path)
    made.environments = {family.name: family for family in environments(("chain_sum", "bit_count"))}
    made.freeze_tasks()
    return made


_OTHERS: set[int] = set()
"""Children that were there before the test: a sandbox of another one, say. No launcher started them."""


@pytest.fixture(autouse=True)
def _note_others() -> None:
    _OTHERS.clear()
    _OTHERS.update(_children())


def _children() -> list[int]:
    return [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


def children() -> list[int]:
    return [pid for pid in _children() if pid not in _OTHERS]


def missing(world: World, name: str = "gone") -> EvaluationJob:
    """A job whose repository is not there, so that its worker fails before any model is loaded."""
    model = world.publish(name)
    shutil.rmtree(world.settings.hub.path / model["repo"])
    return world.jobs(planned(model, tasks=10))[0]


def finished(world: World, name: str = "a") -> EvaluationJob:
    """A job whose results are all there and whose repository is gone."""
    from evaluation_parts import Digits

    model = world.publish(name)
    (job,) = world.jobs(planned(model, tasks=10))
    world.worker(job, FakeEngine(), environments=lambda name: Digits(name, world.environments[name].version)).run()
    shutil.rmtree(world.settings.hub.path / model["repo"])
    return job


def processes(world: World, **changes: Any) -> LocalProcesses:
    return LocalProcesses(world.settings, **changes)


def test_the_results_decide_and_not_how_a_process_ended(world: World) -> None:
    """Case K7: everything is in the ledger, the model is gone; the job is done, and no row was added."""
    job = finished(world)
    before = world.ledger.rollouts(EPOCH)
    (outcome,) = processes(world).run([job], lambda event: None)
    assert (outcome.reason, outcome.tries) == (None, 1)
    assert world.ledger.rollouts(EPOCH).equals(before)


def test_one_job_that_fails_costs_no_other_job_anything_and_says_why(world: World) -> None:
    """Case K10: what the hub does never blames a model; the outcome is a reason, no row is written."""
    bad, good = missing(world), finished(world)
    events: list[JobEvent] = []
    outcomes = processes(world).run([bad, good], events.append)
    assert [(outcome.weights_digest, outcome.reason, outcome.tries) for outcome in outcomes] == [
        (bad.weights_digest, "not_found", 3), (good.weights_digest, None, 1),
    ]
    assert world.ledger.rollouts(EPOCH, weights_digest=bad.weights_digest).is_empty()
    assert [event.reason for event in events if event.event == "failed"] == ["not_found"] * 3
    assert children() == []


def test_a_worker_that_is_lost_again_and_again_is_the_platforms_fault(world: World) -> None:
    def kill(event: JobEvent) -> None:
        if event.event == "started":
            for pid in children():
                os.kill(pid, signal.SIGKILL)

    (outcome,) = processes(world).run([finished(world)], kill)
    assert (outcome.reason, outcome.tries) == ("worker_lost", 3)
    assert "signal 9" in outcome.detail
    assert REASONS["worker_lost"].fault is Fault.PLATFORM


def test_a_worker_that_is_lost_once_is_started_again(world: World) -> None:
    starts: list[JobEvent] = []

    def kill_first(event: JobEvent) -> None:
        if event.event == "started":
            starts.append(event)
            if len(starts) == 1:
                os.kill(children()[0], signal.SIGKILL)

    (outcome,) = processes(world).run([finished(world)], kill_first)
    assert (outcome.reason, outcome.tries) == (None, 2)


def test_an_interrupted_launcher_leaves_no_process_and_keeps_the_rows(world: World) -> None:
    """Cases E23, D11: a run that is cancelled keeps what it committed, and nothing of it starts later."""
    rows = finished(world)
    started: list[int] = []

    def interrupt(event: JobEvent) -> None:
        started.extend(children())
        for pid in started:
            os.kill(pid, signal.SIGSTOP)  # so that it cannot end by itself
        raise KeyboardInterrupt

    def too_long(number: int, frame: object) -> None:
        raise TimeoutError

    standing = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(20)
    try:
        with pytest.raises(KeyboardInterrupt):
            processes(world).run([rows], interrupt)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, standing)
    assert started
    assert children() == []
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert world.ledger.rewards(EPOCH).height == 20


def test_a_worker_beyond_its_wall_limit_is_killed(world: World) -> None:
    ticks: Iterator[float] = iter(range(0, 10**9, 10_000))
    (outcome,) = processes(world, clock=lambda: float(next(ticks))).run([finished(world)], lambda event: None)
    assert outcome.reason == "worker_lost"


def test_a_slow_model_gets_one_wall_limit_and_not_one_a_batch(world: World) -> None:
    """A worker that commits a little before each limit would else hold the epoch for as many limits as it has batches."""
    job = finished(world)
    rows = world.ledger.rollouts(EPOCH, environments=["chain_sum"])
    starts: list[JobEvent] = []

    def commit_and_reach_the_limit(event: JobEvent) -> None:
        if event.event == "started" and len(starts) < 4:
            starts.append(event)
            world.ledger.append(rows.with_columns(index=pl.col("index") + 1000 * len(starts)), 100 * len(starts))
            os.kill(children()[0], signal.SIGALRM)

    (outcome,) = processes(world).run([job], commit_and_reach_the_limit)
    assert (outcome.reason, outcome.tries) == ("worker_lost", 1)


def test_a_worker_ends_itself_at_its_wall_limit_when_nobody_is_left_to_end_it(tmp_path: Path) -> None:
    """Case K10: a client that times out leaves no process behind; the worker owns its lifetime."""
    world = make_world(tmp_path, job_seconds=0.2, attempts=1)
    world.environments = {family.name: family for family in environments(("chain_sum", "bit_count"))}
    world.freeze_tasks()
    model = world.publish("stuck")
    access = world.settings.hub.path / model["repo"] / f"{model['revision']}.access.json"
    access.unlink()
    os.mkfifo(access)  # whoever reads it waits for ever
    (outcome,) = processes(world).run(world.jobs(planned(model)), lambda event: None)
    assert (outcome.reason, outcome.detail.split(";")[0]) == ("worker_lost", f"ended by signal {signal.SIGALRM.value}")


def test_a_job_that_already_runs_is_waited_for_and_not_run_twice(world: World) -> None:
    """Cases D2, D11: two launchers, one lease."""
    job = finished(world)
    launcher = processes(world)
    events: list[str] = []
    held = lease(world.settings.hub.cache.parent / "jobs" / f"{job.lease_name}.lease")
    assert held.__enter__()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            assert events == ["waiting"]
            held.__exit__(None, None, None)
        time.sleep(seconds if len(pauses) > 3 else 0)

    launcher.pause = pause
    (outcome,) = launcher.run([job], lambda event: events.append(event.event))
    assert (outcome.reason, outcome.tries) == (None, 1)
    assert events[:2] == ["waiting", "started"]


def test_a_worker_does_nothing_while_another_has_the_lease(world: World, tmp_path: Path) -> None:
    job = missing(world)
    file = tmp_path / "job.json"
    file.write_bytes(job.to_json())
    with lease(tmp_path / "a.lease") as taken:
        assert taken
        assert main(file, tmp_path / "a.lease") == EXIT_LEASED


def test_a_lease_is_free_when_its_holder_is_dead(tmp_path: Path) -> None:
    """Case H25: a lock file held by a dead pid."""
    path = tmp_path / "a.lease"
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException), lease(path):
            os.write(write, b"x")
            signal.pause()
        os._exit(1)
    os.read(read, 1)
    assert is_leased(path)
    assert path.read_text() == f"{pid}\n"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert not is_leased(path)
    with lease(path) as taken:
        assert taken
    for descriptor in (read, write):
        os.close(descriptor)


def test_the_lease_is_one_a_model_and_epoch_whatever_the_environments(world: World) -> None:
    model = world.publish("a")
    (whole,), (part,) = world.jobs(planned(model)), world.jobs(planned(model), environments=["bit_count"])
    assert whole.lease_name == part.lease_name
    assert whole.name != part.name
    assert set(whole.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_a_worker_gets_no_secret_of_its_launcher(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hush")
    seen: list[bytes] = []

    def look(event: JobEvent) -> None:
        if event.event == "started":
            seen.extend(Path(f"/proc/{pid}/environ").read_bytes() for pid in children())

    processes(world).run([finished(world)], look)
    assert b"OMP_NUM_THREADS=1" in seen[0]
    assert b"hush" not in seen[0]
