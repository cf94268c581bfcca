"""What starting one evaluation worker costs: a real process, on a model of the smallest league, until its first batch is committed.

What must not go in: anything but the start; how fast a model answers is ``league_cost``'s.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dagster import DagsterInstance

from affine_dagster.cli.main import default_cache
from affine_dagster.cli.runs import Ticker
from affine_dagster.cli.serve import dagster_environment, prepare_home
from affine_dagster.evaluation.events import JobEvent
from affine_dagster.evaluation.job import Assignment, EvaluationJob
from affine_dagster.evaluation.jobs import EvalJobs, JobOutcome, LocalProcesses, Progress
from affine_dagster.evaluation.tasksets import CONTEST
from affine_dagster.league.make import make_league
from affine_dagster.league.recipes import TINY
from affine_dagster.league.world import Entry, Scenario, World, make_world, play_epoch
from affine_dagster.resources import EvaluationResource, SettingsResource
from affine_dagster.settings import StoreSettings
from benchmarks._figures import Figure, Spent, median_of, spent, variables

__all__ = ["start_up"]

REPEATS = 5
TASKS = 50
"""One batch at the defaults."""

SETTINGS = f"""
[evaluation]
batch_tasks = {TASKS}
tasks_per_epoch = {TASKS}
assay_tasks = {TASKS}
"""


class _Remembered(EvaluationResource):
    """Local processes, as ever; what they were given stands in ``_GIVEN``."""

    def jobs(self) -> EvalJobs:
        """The real runner, with a memory."""
        return _Memory(LocalProcesses(self.settings.load()))


_GIVEN: list[EvaluationJob] = []


class _Memory:
    """Passes jobs on and keeps them."""

    def __init__(self, real: EvalJobs) -> None:
        self._real = real

    def run(self, jobs: Sequence[EvaluationJob], progress: Progress) -> list[JobOutcome]:
        """See ``EvalJobs.run``."""
        _GIVEN.extend(jobs)
        return self._real.run(jobs, progress)


def start_up() -> list[Figure]:
    """Seconds from asking for a worker to its model being loaded and to its first batch, beside importing the engine alone."""
    league = make_league(default_cache() / "league", TINY)
    scenario = Scenario("base", (Entry(0, "Ada", "strong"),), settings=SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        world = make_world(Path(folder) / "world", league.models, scenario)
        job = _a_job(world)
        runs = [_worker(world, job, Path(folder) / f"repeat{number}") for number in range(REPEATS + 1)][1:]
    engine = [_import_engine() for _ in range(REPEATS)]
    against = "import torch and transformers' Llama alone"
    note = f"tiny league, one process, {TASKS} tasks of one environment; the launcher looks every 0.05 s"
    return [
        median_of("a worker, from its start to its first batch, wall", [first for _, first, _ in runs], "s",
                  other=[one.wall for one in engine], against=against, note=note),
        median_of("a worker, from its start to its model being loaded, wall", [loaded for loaded, _, _ in runs], "s"),
        median_of("a worker with that one batch, CPU", [whole.cpu for _, _, whole in runs], "s",
                  other=[one.cpu for one in engine], against=against),
    ]


def _a_job(world: World) -> EvaluationJob:
    """The challenger's job of a real epoch, cut to one batch of one environment."""
    from affine_dagster.definitions import EPOCH_JOB, build_defs

    prepare_home(world)
    path = str(world.settings_path)
    _GIVEN.clear()
    with variables(dagster_environment(world)), DagsterInstance.get() as instance:
        play_epoch(world, 0)
        resource = _Remembered(settings=SettingsResource(path=path))
        Ticker(build_defs(path, evaluation=resource), instance).tick("epochs", EPOCH_JOB)
    job = next(job for job in _GIVEN if job.contest is not None)
    return replace(job, contest=None, environments=job.environments[:1], assignments=(Assignment(CONTEST, job.epoch, 0, TASKS),))


def _worker(world: World, job: EvaluationJob, folder: Path) -> tuple[float, float, Spent]:
    """Run the job on a store that has the epoch's tables and an empty ledger: seconds to loaded, to the first batch, and all."""
    shutil.copytree(Path(world.settings().store.url) / "tables", folder / "store" / "tables")
    seen: dict[str, float] = {}
    began = time.perf_counter()

    def heard(event: JobEvent) -> None:
        seen.setdefault(event.event, time.perf_counter() - began)

    with spent() as whole:
        outcomes = LocalProcesses(world.settings(), folder / "jobs").run(
            [replace(job, store=StoreSettings(url=str(folder / "store")))], heard
        )
    if [outcome.reason for outcome in outcomes] != [None]:
        raise RuntimeError(f"the worker did not end well: {outcomes}")
    return seen["loaded"], seen["batch"], whole


def _import_engine() -> Spent:
    code = "import torch; from transformers import LlamaForCausalLM"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with spent() as taken:
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    return taken
