"""A double of ``EvalJobs`` for benchmarks alone: it fills the real ledger with plausible rows and runs no model.

It speaks the port and does what a worker does around its model: the batches of the job, the task seeds, the ledger's own
writes, the look at the evidence after each batch and the early stop. Only the answers are drawn instead of generated. What
must not go in: any other part of the job, and any use outside ``benchmarks/``.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import polars as pl

from affine_dagster.environments.registry import environment
from affine_dagster.evaluation.committed import CommittedBatches
from affine_dagster.evaluation.events import JobEvent
from affine_dagster.evaluation.job import Assignment, Batch, EvaluationJob
from affine_dagster.evaluation.jobs import EvalJobs, JobOutcome, Progress
from affine_dagster.evaluation.stopping import ContestLook
from affine_dagster.evaluation.tasksets import CONTEST
from affine_dagster.evaluation.worker import tasks_for
from affine_dagster.ledger import Ledger, rewards_of_rollouts
from affine_dagster.resources import EvaluationResource
from affine_dagster.store import Store, Tables
from affine_dagster.tables import REWARDS, ROLLOUTS
from benchmarks._figures import Spent, spent

__all__ = ["GAINS", "Drawn", "DrawnJobs", "DrawnResource"]

GAINS = ((-0.05, 0.60), (0.0, 0.35), (0.06, 0.04), (0.12, 0.01))
"""(true gain over the incumbent, share of the challengers): the mix of DESIGN section 4."""

BASE_RATE = 0.5
DISCORDANCE = 0.3


@dataclass
class Drawn:
    """What the double did and what it took: its time is no part of a figure that leaves the models out."""

    rows: int = 0
    batches: int = 0
    models: int = 0
    took: list[Spent] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """Seconds of the wall."""
        return sum(one.wall for one in self.took)

    @property
    def cpu(self) -> float:
        """Seconds of the processor."""
        return sum(one.cpu for one in self.took)


class DrawnJobs:
    """The double. ``drawn`` is added to."""

    def __init__(self, drawn: Drawn) -> None:
        self._drawn = drawn

    def run(self, jobs: Sequence[EvaluationJob], progress: Progress) -> list[JobOutcome]:
        """See ``EvalJobs.run``."""
        with spent() as taken:
            for job in jobs:
                _DrawnModel(job, self._drawn).run()
                progress(JobEvent("done", job.name, job.submission_id, None, None, 0, 0))
        self._drawn.took.append(taken)
        return [JobOutcome(job.name, job.weights_digest, None, "", 1) for job in jobs]


class DrawnResource(EvaluationResource):
    """The Dagster resource of the double. What it did stands in ``DrawnResource.drawn``, which a benchmark replaces before a run."""

    drawn: ClassVar[Drawn] = Drawn()

    def jobs(self) -> EvalJobs:
        """The double."""
        return DrawnJobs(DrawnResource.drawn)


class _DrawnModel:
    """One job: the worker's loop over assignments, batches and environments."""

    def __init__(self, job: EvaluationJob, drawn: Drawn) -> None:
        store = Store(job.store.url)
        self._job, self._drawn, self._tables, ledger = job, drawn, Tables(store), Ledger(store)
        first = min([job.epoch, *(assignment.task_epoch for assignment in job.assignments)])
        self._committed = CommittedBatches(ledger, job.weights_digest, first, job.epoch, job.evaluation.attempts)
        opponents = () if job.contest is None else job.contest.opponents
        known = [rewards_of_rollouts(ledger.rollouts(job.epoch, weights_digest=one.weights_digest)) for one in opponents]
        rewards = pl.concat([REWARDS.empty(), *known])
        self._look = None if job.contest is None else ContestLook(job.contest, job.weights_digest, job.epoch, rewards)
        # a challenger's true gain hangs on its weights alone, the genesis model has none
        draw = int(job.weights_digest[:8], 16) / 2**32
        shares = np.cumsum([share for _, share in GAINS])
        self._gain = 0.0 if job.contest is None else GAINS[int(np.searchsorted(shares, draw))][0]

    def run(self) -> None:
        self._drawn.models += 1
        for assignment in self._job.assignments:
            self._assignment(assignment)

    def _assignment(self, assignment: Assignment) -> None:
        count = assignment.first_task + assignment.tasks
        names = self._job.environments
        due = {name: tasks_for(self._tables, environment(name), assignment.purpose, assignment.task_epoch, count) for name in names}
        for batch in assignment.batches(self._job.evaluation.batch_tasks):
            for name, tasks in due.items():
                self._batch(assignment, name, batch, tasks.slice(batch.first, batch.stop - batch.first))
            if assignment.purpose == CONTEST and self._look is not None and self._look.is_over(batch.stop):
                return

    def _batch(self, assignment: Assignment, name: str, batch: Batch, tasks: pl.DataFrame) -> None:
        key = (name, assignment.purpose, assignment.task_epoch, batch.number)
        if self._committed.is_complete(key):
            return
        self._committed.commit(key, self._rows(tasks))
        self._drawn.rows += tasks.height
        self._drawn.batches += 1
        if self._look is not None and assignment.purpose == CONTEST:
            self._look.add(self._committed.rewards(key))

    def _rows(self, tasks: pl.DataFrame) -> pl.DataFrame:
        """Rewards whose difference from the incumbent's on the same tasks has the discordance and, on average, the gain."""
        job = self._job
        first = int(tasks["seed"][0])
        base = np.random.default_rng(first).random(tasks.height) < BASE_RATE
        flips = np.random.default_rng([first, zlib.crc32(job.weights_digest.encode())]).random(tasks.height)
        gain = self._gain
        reward = base.copy()
        if job.contest is not None:
            reward[~base & (flips < DISCORDANCE + gain)] = True
            reward[base & (flips < DISCORDANCE - gain)] = False
        fixed = {
            "epoch": job.epoch, "weights_digest": job.weights_digest, "sampling_digest": job.sampling.digest, "attempt": 0,
            "fault": None, "reason": None, "detail": None, "finish_reason": "stop", "prompt_tokens": 20, "completion_tokens": 4,
            "loaded_weights_digest": job.weights_digest, "template_hash": "0" * 64, "tokenizer_signature": "0" * 64,
            "tensors_digest": job.weights_digest, "config_digest": "0" * 64,
            "engine": "drawn", "engine_version": "benchmark",
        }
        rows = tasks.rename({"epoch": "task_epoch"}).with_columns(
            *(pl.lit(value).alias(name) for name, value in fixed.items()),
            pl.Series("reward", reward.astype("f8")),
            pl.Series("completion", [f"the answer is {number}" for number in range(tasks.height)]),
        )
        return ROLLOUTS.check(rows.select(ROLLOUTS.schema.names()).cast(dict(ROLLOUTS.schema.items())))
