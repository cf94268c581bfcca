"""A worker that dies of a crash signal: an attempt of its batch, judged by comparison, and never the end of the job.

The processes are real and die by a real signal (``tests/support/crashing_worker.py``); only their engine is a double.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from evaluation_parts import EPOCH, NAMES, Digits, FakeEngine, World, make_world, planned

from affine_dagster.environments.registry import environment
from affine_dagster.evaluation.jobs import LocalProcesses
from affine_dagster.evaluation.run import EvaluationSummary, evaluate
from affine_dagster.tables import TASKS

WORKER = Path(__file__).parents[1] / "support" / "crashing_worker.py"
ATTEMPTS = 2


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = make_world(tmp_path, tuple(Digits(name, environment(name).version) for name in NAMES), attempts=ATTEMPTS)
    made.freeze_tasks()
    return made


def crash_on(prompt: str) -> tuple[str, ...]:
    return (sys.executable, str(WORKER), prompt)


def broken_machine(signal_name: str) -> tuple[str, ...]:
    """A worker that dies at its start, whatever the model, also where the launcher's own process ignores the signal."""
    reset = "" if signal_name == "KILL" else f"signal.signal(signal.SIG{signal_name}, signal.SIG_DFL); "
    no_core = "import os, resource, signal; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
    return (sys.executable, "-S", "-E", "-c", f"{no_core}{reset}os.kill(os.getpid(), signal.SIG{signal_name})")


def run(world: World, command: Sequence[str], **changes: Any) -> EvaluationSummary:
    jobs = LocalProcesses(world.settings, command=command, pause=lambda seconds: time.sleep(0.005), **changes)
    return evaluate(world.tables, world.ledger, world.settings, EPOCH, NAMES, jobs, lambda event: None)


def ends(summary: EvaluationSummary) -> list[tuple[str | None, int]]:
    return [(outcome.reason, outcome.tries) for outcome in summary.outcomes]


def test_an_incumbent_that_crashes_on_a_rare_prompt_loses_that_batch_and_stalls_no_contest(world: World) -> None:
    """DESIGN section 4: what fails in every attempt for one model alone is its own fault; nothing of the contest stays missing."""
    base, new = world.publish("base", crashes=signal.SIGSEGV), world.publish("new")
    world.plan(planned(base, tasks=30), planned(new, "challenger", opponents=[base["weights_digest"]], tasks=30))
    seed = world.tables.need(TASKS, EPOCH).filter(purpose="contest", environment="chain_sum", index=13)["seed"].item()
    summary = run(world, crash_on(f"chain_sum:{seed}"))
    rewards = world.ledger.rewards(EPOCH)
    assert rewards.filter(fault="model").select("environment", "index", "weights_digest", "reward", "reason").rows() == [
        ("chain_sum", index, base["weights_digest"], 0.0, "model_crashes_engine") for index in range(10, 20)
    ]
    assert rewards.group_by("weights_digest").len()["len"].to_list() == [60, 60]
    assert rewards["reward"].null_count() == 0
    assert ends(summary) == [(None, 1 + ATTEMPTS), (None, 1)]


@pytest.mark.parametrize("name", ["SEGV", "ABRT", "BUS", "ILL", "FPE"])
def test_a_machine_on_which_every_model_crashes_blames_none(world: World, name: str) -> None:
    """Nobody answers the task, so that nobody alone failed; and a model that answers nothing is given up after a few batches."""
    base, new = world.publish("base"), world.publish("new")
    world.plan(planned(base), planned(new, "challenger", opponents=[base["weights_digest"]]))
    summary = run(world, broken_machine(name))
    rewards = world.ledger.rewards(EPOCH)
    assert set(rewards.select("environment", "index", "reason", "fault", "reward").rows()) == {
        (environment, index, "engine_crashed", "platform", None) for environment in NAMES for index in range(10)
    }
    assert ends(summary) == [("worker_lost", ATTEMPTS**2)] * 2


def test_a_machine_that_breaks_while_others_have_their_answers_blames_none(world: World) -> None:
    """The incumbent answered everything; then whatever ran died. The challenger never shows that the machine could still run it."""
    base, new = world.publish("base"), world.publish("new")
    rows = planned(base), planned(new, "challenger", opponents=[base["weights_digest"]])
    world.plan(*rows)
    for job in world.jobs(*rows)[:1]:
        world.worker(job, FakeEngine()).run()
    run(world, broken_machine("SEGV"))
    rewards = world.ledger.rewards(EPOCH)
    assert rewards.filter(weights_digest=base["weights_digest"])["fault"].null_count() == 80
    assert set(rewards.filter(weights_digest=new["weights_digest"])["reason"]) == {"engine_crashed"}


def test_a_crash_is_an_attempt_and_what_was_answered_before_it_stands(world: World) -> None:
    """A machine that breaks after the model's first batches costs it those that follow, as missing and not as zeros."""
    base, new = world.publish("base"), world.publish("new")
    rows = planned(base, tasks=20), planned(new, "challenger", opponents=[base["weights_digest"]], tasks=20)
    world.plan(*rows)
    first, second = world.jobs(*rows)
    world.worker(first, FakeEngine()).run()
    world.worker(replace(second, assignments=(replace(second.assignments[0], tasks=10),)), FakeEngine()).run()
    summary = run(world, broken_machine("SEGV"))
    mine = world.ledger.rewards(EPOCH).filter(weights_digest=new["weights_digest"])
    assert mine.filter(pl.col("index") < 10)["fault"].null_count() == 20
    assert set(mine.filter(pl.col("index") >= 10)["reason"]) == {"engine_crashed"}
    assert ends(summary)[1][0] == "worker_lost"


def test_crashes_of_one_job_share_one_wall_limit(world: World) -> None:
    """Else a model that crashes at every batch would hold the epoch for as many limits as it has attempts."""
    new = world.publish("new")
    row = planned(new, tasks=400)
    world.plan(row)
    (job,) = world.jobs(row)
    world.worker(replace(job, assignments=(replace(job.assignments[0], tasks=10),)), FakeEngine()).run()
    now = iter(range(0, 10**9, 300))
    summary = run(world, broken_machine("SEGV"), clock=lambda: float(next(now)))
    ((reason, tries),) = ends(summary)
    assert reason == "worker_lost"
    assert 1 < tries < 14


@pytest.mark.parametrize("name", ["KILL", "TERM", "ALRM"])
def test_a_worker_that_is_killed_from_outside_uses_up_no_attempt_of_a_batch(world: World, name: str) -> None:
    """SIGKILL may be the machine's memory killer or an operator: the platform's, and no row."""
    world.plan(planned(world.publish("a")))
    assert ends(run(world, broken_machine(name))) == [("worker_lost", ATTEMPTS)]
    assert world.ledger.batches(EPOCH) == []
