"""The evaluation worker: one model through all its tasks, once loaded, batch by batch into the ledger.

``python -m affine_dagster.evaluation.worker JOB.json LEASE`` is the same command under every implementation of ``EvalJobs``.
Results go to the ledger and nowhere else; the lines on standard output are for people. What must not go in: starting
processes (``jobs.py``), what a batch is made of (``rollouts.py``), when the evidence decides (``stopping.py``).
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import polars as pl

from affine_dagster.environments.port import Environment
from affine_dagster.environments.registry import environment
from affine_dagster.evaluation.committed import CommittedBatches
from affine_dagster.evaluation.events import JobEvent
from affine_dagster.evaluation.job import Assignment, Batch, EvaluationJob
from affine_dagster.evaluation.lease import lease
from affine_dagster.evaluation.rollouts import BatchContext, answer_batch, fault_batch
from affine_dagster.evaluation.stopping import ContestLook
from affine_dagster.evaluation.tasksets import CONTEST, task_seeds
from affine_dagster.hub.local import LocalHub
from affine_dagster.hub.port import Hub
from affine_dagster.ledger import BatchKey, Ledger, rewards_of_rollouts
from affine_dagster.reasons import AffineError, Fault
from affine_dagster.serving.port import Engine, LoadedModel, Receipt
from affine_dagster.serving.transformers import TransformersEngine
from affine_dagster.store import Store, Tables
from affine_dagster.tables import EPOCHS, REWARDS, TASKS

__all__ = ["EXIT_DONE", "EXIT_FAILED", "EXIT_LEASED", "Worker", "main", "tasks_for", "worker_of"]

EXIT_DONE = 0
EXIT_FAILED = 70
EXIT_LEASED = 75
"""Another process works on this model and epoch (EX_TEMPFAIL of sysexits.h; 70 is its EX_SOFTWARE)."""

Report = Callable[[JobEvent], None]


class Worker:
    """One run of a job. All that it touches is given, so that it runs in a test as it runs in its process."""

    def __init__(
        self, job: EvaluationJob, engine: Engine, hub: Hub, tables: Tables, ledger: Ledger,
        environments: Callable[[str], Environment] = environment, report: Report = lambda event: None,
    ) -> None:
        self._job = job
        self._engine = engine
        self._hub = hub
        self._tables = tables
        self._ledger = ledger
        self._environments = {name: environments(name) for name in job.environments}
        self._report = report
        self._open = ExitStack()
        self._model: LoadedModel | None = None
        self._tasks: dict[tuple[str, str, int], pl.DataFrame] = {}
        first = min([job.epoch, *(assignment.task_epoch for assignment in job.assignments)])
        self._committed = CommittedBatches(ledger, job.weights_digest, first, job.epoch, job.evaluation.attempts)
        self._look = None if job.contest is None else ContestLook(job.contest, job.weights_digest, job.epoch, _known(ledger, job))

    def run(self) -> None:
        """Run what is missing. Nothing is loaded where nothing is missing.

        Raises AffineError: ``wrong_weights`` (nothing was written), ``unloadable_here`` (its first batches say so in the
        ledger), ``other_environment_version``, and what the hub raises. A model that does not load is a result, not an error.
        """
        with self._open:
            try:
                for assignment, name, batch in self._due():
                    self._run_batch(assignment, name, batch)
            except AffineError as error:
                if error.code not in ("not_loadable", "unloadable_here"):
                    raise
                self._record_unloadable(error)
                if error.reason.fault is not Fault.MODEL:
                    raise

    def record_crash(self, detail: str) -> bool:
        """Make the crash of a worker data: one more attempt ``engine_crashed`` of the batch that it was at. False where none is due.

        For whoever starts workers, under the job's lease; nothing is loaded.
        """
        due = next(self._due(), None)
        if due is None:
            return False
        self._record_fault(*due, "engine_crashed", detail)
        return True

    def _due(self) -> Iterator[tuple[Assignment, str, Batch]]:
        """What is to be tried next, in the job's fixed order: a batch until each task has a result or its attempts are used up."""
        for assignment in self._job.assignments:
            last = assignment.first_task + assignment.tasks
            for batch in assignment.batches(self._job.evaluation.batch_tasks):
                for name in self._job.environments:
                    while not self._committed.is_complete(_key(assignment, name, batch)):
                        yield assignment, name, batch
                    self._report(self._event("batch", name, assignment.purpose, batch.stop - assignment.first_task, assignment.tasks))
                if batch.stop < last and assignment.purpose == CONTEST and self._look is not None and self._look.is_over(batch.stop):
                    self._report(self._event("decided", None, assignment.purpose, batch.stop - assignment.first_task, assignment.tasks))
                    break

    def _run_batch(self, assignment: Assignment, name: str, batch: Batch) -> None:
        key = _key(assignment, name, batch)
        model = self._loaded()
        tasks = self._batch_tasks(assignment, name, batch)
        self._commit(key, answer_batch(self._context(key), model, self._environments[name], tasks))

    def _record_fault(self, assignment: Assignment, name: str, batch: Batch, reason: str, detail: str) -> None:
        key = _key(assignment, name, batch)
        self._commit(key, fault_batch(self._context(key), self._batch_tasks(assignment, name, batch), reason, detail))

    def _commit(self, key: BatchKey, rows: pl.DataFrame) -> None:
        self._committed.commit(key, rows)
        if self._look is not None and key[1] == CONTEST:
            self._look.add(self._committed.rewards(key))

    def _context(self, key: BatchKey) -> BatchContext:
        job = self._job
        return BatchContext(job.epoch, job.weights_digest, job.sampling, job.serving.engine, self._committed.next_attempt(key))

    def _batch_tasks(self, assignment: Assignment, name: str, batch: Batch) -> pl.DataFrame:
        where = (name, assignment.purpose, assignment.task_epoch)
        if where not in self._tasks:
            count = assignment.first_task + assignment.tasks
            self._tasks[where] = tasks_for(self._tables, self._environments[name], assignment.purpose, assignment.task_epoch, count)
        return self._tasks[where].filter(pl.col("index").is_between(batch.first, batch.stop - 1))

    def _loaded(self) -> LoadedModel:
        """The model, loaded at its first use and identified by what the engine read, not by what it was asked to read (case V10)."""
        if self._model is None:
            job = self._job
            names = job.files or [file.name for file in self._hub.files(job.repo, job.revision)]
            folder = self._hub.folder(job.repo, job.revision, names)
            model = self._open.enter_context(self._engine.open(folder))
            _check_loaded(model.receipt, job.weights_digest)
            self._model = model
            self._report(self._event("loaded", None, None, 0, 0))
        return self._model

    def _record_unloadable(self, error: AffineError) -> None:
        """Make the failure data: a fault for each task of the first batch of each environment and purpose."""
        for assignment in self._job.assignments:
            batch = next(assignment.batches(self._job.evaluation.batch_tasks))
            for name in self._job.environments:
                if not self._committed.is_complete(_key(assignment, name, batch)):
                    self._record_fault(assignment, name, batch, error.code, error.detail)
        self._report(self._event("unloadable", None, None, 0, 0, error.code))

    def _event(
        self, event: str, environment_name: str | None, purpose: str | None, done: int, of: int, reason: str | None = None
    ) -> JobEvent:
        return JobEvent(event, self._job.name, self._job.submission_id, environment_name, purpose, done, of, reason)


def _check_loaded(receipt: Receipt, asked: str) -> None:
    """Refuse another model than was asked for, be it by its tensors, configuration, template or tokenizer. Raises ``wrong_weights``.

    A digest from before FINGERPRINTS version 2 names the tensors alone.
    """
    if asked not in (receipt.weights_digest, receipt.tensors_digest):
        parts = f"tensors {receipt.tensors_digest}, config {receipt.config_digest}, template {receipt.template_hash}"
        raise AffineError("wrong_weights", f"asked for {asked}, loaded {receipt.weights_digest} ({parts})")


def _key(assignment: Assignment, name: str, batch: Batch) -> BatchKey:
    return name, assignment.purpose, assignment.task_epoch, batch.number


def _known(ledger: Ledger, job: EvaluationJob) -> pl.DataFrame:
    """The epoch's rewards of the challenger and of its opponents, without reading any other model's."""
    opponents = () if job.contest is None else job.contest.opponents
    digests = [job.weights_digest, *(opponent.weights_digest for opponent in opponents)]
    frames = [rewards_of_rollouts(ledger.rollouts(job.epoch, weights_digest=digest)) for digest in digests]
    return pl.concat([REWARDS.empty(), *frames])


def tasks_for(tables: Tables, family: Environment, purpose: str, epoch: int, count: int) -> pl.DataFrame:
    """The first ``count`` tasks (TASKS) of an environment in an epoch: the frozen ones, or those of its beacon for a newer environment.

    Raises ``other_environment_version`` where the frozen task set was drawn for another version, ``missing_input`` without the epoch.
    """
    frozen = tables.read(TASKS, epoch)
    known = TASKS.empty() if frozen is None else frozen.filter((pl.col("environment") == family.name) & (pl.col("purpose") == purpose))
    if known.is_empty():
        return task_seeds(tables.need(EPOCHS, epoch), family.name, family.version, purpose, count)
    versions = known["environment_version"].unique().to_list()
    if versions != [family.version]:
        raise AffineError("other_environment_version", f"{family.name} of epoch {epoch}: drawn for {versions}, here is {family.version}")
    chosen = known.filter(pl.col("index") < count).sort("index")
    if chosen.height < count:
        raise AffineError("missing_input", f"{family.name} of epoch {epoch}: {chosen.height} {purpose} tasks, {count} planned")
    return chosen


def worker_of(job: EvaluationJob, report: Report = lambda event: None) -> Worker:
    """The worker of a job, with the engine, the hub and the store that the job names. Nothing is loaded yet."""
    store = Store(job.store.url)
    hub = LocalHub(job.hub.path, job.hub.cache)
    return Worker(job, TransformersEngine(job.serving), hub, Tables(store), Ledger(store), report=report)


def main(job_file: Path, lease_file: Path) -> int:
    """Run a job file under its lease and return the process's exit status (``EXIT_*``); the last line says why it failed.

    The process ends itself at the job's wall limit, also when nobody is left to end it (case K10). It leaves no core file: a model
    that crashes its engine could fill the disk with them.
    """
    job = EvaluationJob.from_json(job_file.read_bytes())
    with lease(lease_file) as taken:
        if not taken:
            return EXIT_LEASED
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, job.evaluation.job_seconds)
        try:
            worker_of(job, _print).run()
        except AffineError as error:
            _print(JobEvent("failed", job.name, job.submission_id, None, None, 0, 0, error.code, error.detail))
            return EXIT_FAILED
    return EXIT_DONE


def _print(event: JobEvent) -> None:
    """Write a line for the launcher; a launcher that is gone must not end the run, so the descriptor is a file, never a pipe."""
    os.write(sys.stdout.fileno(), event.to_line())


if __name__ == "__main__":
    # everything is committed by now: the engine's own orderly shutdown would only take seconds
    os._exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
