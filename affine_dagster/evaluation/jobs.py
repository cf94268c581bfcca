"""How evaluation jobs are run: the protocol, and processes on this machine.

Every implementation runs the same worker command on the same job file; results travel by the ledger, so what a run can lose is
time. A worker lives in a process group of its own that is killed whatever happens here; one that outlives its launcher
(``kill -9`` of the launcher) ends itself at its wall limit and is waited for by whoever starts the job again. What must not go
in: what a worker does (``worker.py``) and which jobs there are (``run.py``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import affine_dagster
from affine_dagster.evaluation.events import JobEvent
from affine_dagster.evaluation.job import EvaluationJob
from affine_dagster.evaluation.lease import is_leased, lease
from affine_dagster.evaluation.worker import EXIT_DONE, EXIT_FAILED, EXIT_LEASED, worker_of
from affine_dagster.ledger import Ledger
from affine_dagster.reasons import AffineError
from affine_dagster.settings import Settings
from affine_dagster.store import Store

__all__ = ["EvalJobs", "JobOutcome", "LocalProcesses", "Progress"]

Progress = Callable[[JobEvent], None]

_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})
"""Signals by which a process dies of what it does itself. SIGKILL is not among them: an operator, the machine's memory killer and
our own wall limit kill with it."""
_WORKER = (sys.executable, "-m", "affine_dagster.evaluation.worker")
_GRACE_SECONDS = 30.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended. ``reason``: None when it ran to its end, else the code of what ended its last try. ``tries`` from 1."""

    job: str
    weights_digest: str
    reason: str | None
    detail: str
    tries: int


class EvalJobs(Protocol):
    """A way to run evaluation jobs. Running a job again is safe: it does what is missing."""

    def run(self, jobs: Sequence[EvaluationJob], progress: Progress) -> list[JobOutcome]:
        """Run all jobs to their end or to their last try, several at once, and return their outcomes in the order of the jobs.

        A job that fails costs no other job anything. ``progress`` is called with what the workers tell.
        """
        ...


@dataclass
class _Run:
    """A job that has a place: its process if one runs (None while another's process has the lease)."""

    job: EvaluationJob
    files: _Files
    process: subprocess.Popen[bytes] | None = None
    deadline: float = 0.0
    tries: int = 0
    losses: int = 0
    crashes: int = 0
    committed: int = 0
    read: int = 0
    waited: bool = False
    overdue: bool = False
    last_failure: JobEvent | None = None
    outcome: JobOutcome | None = None


@dataclass(frozen=True)
class _Files:
    job: Path
    lease: Path
    log: Path


@dataclass
class LocalProcesses:
    """Worker processes on this machine, ``evaluation.processes`` at once.

    ``folder`` holds job files, leases and logs (None: ``jobs`` beside the hub's cache); all launchers of one store must share it.
    ``clock`` and ``pause`` are the machine's monotonic seconds and its sleep. A lost worker is started again until it was lost
    ``evaluation.attempts`` times in a row without committing a batch in between (``worker_lost``). One that gets on and ends at
    its wall limit is not started again in this run: a slow model costs everybody else one limit, not one a batch.

    A worker that dies of a crash signal has used up an attempt of the batch that it was at (rows ``engine_crashed``), so that the
    job goes on behind a batch that no attempt survives, and the crash is judged as any lost answer (``adjudication.py``). All
    starts after crashes share one wall limit. A model that answers nothing at all is given up after ``attempts`` such batches.
    ``command`` is the worker's, without the job file and the lease.
    """

    settings: Settings
    folder: Path | None = None
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    command: Sequence[str] = _WORKER

    def run(self, jobs: Sequence[EvaluationJob], progress: Progress) -> list[JobOutcome]:
        """See ``EvalJobs.run``."""
        waiting = deque(_Run(job, self._files(job)) for job in jobs)
        every = list(waiting)
        active: list[_Run] = []
        try:
            while waiting or active:
                while waiting and len(active) < self.settings.evaluation.processes:
                    active.append(waiting.popleft())
                for run in active:
                    self._step(run, progress)
                active = [run for run in active if run.outcome is None]
                if active:
                    self.pause(_POLL_SECONDS)
        finally:
            for run in every:
                _end(run)
        return [run.outcome for run in every if run.outcome is not None]

    def _files(self, job: EvaluationJob) -> _Files:
        folder = (self.settings.hub.cache.parent / "jobs") if self.folder is None else self.folder
        folder.mkdir(parents=True, exist_ok=True)
        return _Files(folder / f"{job.name}.json", folder / f"{job.lease_name}.lease", folder / f"{job.name}.log")

    def _step(self, run: _Run, progress: Progress) -> None:
        """Start the job's process when there is none and the lease is free; look after it when there is one."""
        if run.process is None:
            if is_leased(run.files.lease):
                if not run.waited:
                    run.waited = True
                    progress(_event(run, "waiting"))
                return
            self._start(run, progress)
            return
        _tell(run, progress)
        if self.clock() > run.deadline:
            run.overdue = True
            os.killpg(run.process.pid, signal.SIGKILL)
        if _has_ended(run.process):
            status = _end(run)
            _tell(run, progress)
            self._ended(run, status, progress)

    def _start(self, run: _Run, progress: Progress) -> None:
        staged = run.files.job.with_suffix(f".{os.getpid()}.new")
        staged.write_bytes(run.job.to_json())
        staged.replace(run.files.job)
        run.committed = self._committed(run)
        run.tries += 1
        run.last_failure, run.overdue = None, False
        run.read = run.files.log.stat().st_size if run.files.log.exists() else 0
        if run.crashes == 0:
            run.deadline = self.clock() + run.job.evaluation.job_seconds + _GRACE_SECONDS
        command = [*self.command, str(run.files.job), str(run.files.lease)]
        with run.files.log.open("ab") as log:
            run.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module on our own file
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=_environment(run.job),
            )
        progress(_event(run, "started"))

    def _ended(self, run: _Run, status: int, progress: Progress) -> None:
        """Take a process's end: the job is done, waits for another's worker, is tried again, or is given up."""
        if status == EXIT_DONE:
            run.outcome = JobOutcome(run.job.name, run.job.weights_digest, None, "", run.tries)
            progress(_event(run, "done"))
            return
        if status == EXIT_LEASED:
            run.tries -= 1
            run.crashes = 0
            return
        got_on = self._committed(run) > run.committed
        reason, detail = _why(run, status)
        progress(replace(_event(run, "lost" if reason == "worker_lost" else "failed"), reason=reason, detail=detail))
        spent = (status == -signal.SIGALRM or run.overdue) and (got_on or run.crashes > 0)
        if -status in _CRASHES and _record_crash(run, detail, progress):
            run.losses, run.crashes = 0, 1 if got_on else run.crashes + 1
        else:
            run.losses, run.crashes = 1 if got_on and status != EXIT_FAILED else run.losses + 1, 0
        if spent or run.losses >= run.job.evaluation.attempts or _is_hopeless(run):
            run.outcome = JobOutcome(run.job.name, run.job.weights_digest, reason, detail, run.tries)

    def _committed(self, run: _Run) -> int:
        return len(Ledger(Store(run.job.store.url)).batches(run.job.epoch, weights_digest=run.job.weights_digest))


def _event(run: _Run, event: str) -> JobEvent:
    return JobEvent(event, run.job.name, run.job.submission_id, None, None, 0, 0)


def _why(run: _Run, status: int) -> tuple[str, str]:
    if status == EXIT_FAILED and run.last_failure is not None and run.last_failure.reason is not None:
        return run.last_failure.reason, run.last_failure.detail
    how = f"ended by signal {-status}" if status < 0 else f"exit status {status}"
    return "worker_lost", f"{how}; its log is {run.files.log.name}"


def _record_crash(run: _Run, detail: str, progress: Progress) -> bool:
    """Make the crash an attempt of the batch in progress. False where that cannot be: it is then a loss like any other."""
    with lease(run.files.lease) as taken:
        if not taken:
            return False
        try:
            return worker_of(run.job).record_crash(detail)
        except AffineError as error:
            progress(replace(_event(run, "failed"), reason=error.code, detail=error.detail))
            return False


def _is_hopeless(run: _Run) -> bool:
    """Whether the worker crashed at ``attempts`` batches in a row and the model has not answered a single task in this epoch."""
    if run.crashes < run.job.evaluation.attempts**2:
        return False
    rows = Ledger(Store(run.job.store.url)).rollouts(run.job.epoch, weights_digest=run.job.weights_digest)
    return bool(rows["fault"].is_not_null().all())


def _tell(run: _Run, progress: Progress) -> None:
    """Pass on the whole lines that the log has since the last look."""
    with run.files.log.open("rb") as log:
        log.seek(run.read)
        content = log.read()
    whole = content[: content.rfind(b"\n") + 1]
    run.read += len(whole)
    for line in whole.splitlines():
        event = JobEvent.from_line(line)
        if event is None:
            continue
        if event.event == "failed":
            run.last_failure = event
        else:
            progress(event)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has ended, without reaping it: its group's number stays its own until the group was killed."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(run: _Run) -> int:
    """Kill the whole group of the run's process and reap it. Returns its exit status, negative for a signal."""
    if run.process is None:
        return 0
    process, run.process = run.process, None
    os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def _environment(job: EvaluationJob) -> dict[str, str]:
    """Nothing of this process's environment that a worker does not need, so no secret; one thread a worker; nothing fetched."""
    threads = str(job.serving.threads)
    root = str(Path(affine_dagster.__file__).parents[1])
    fixed = {
        "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "POLARS_MAX_THREADS": threads,
        "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", "PYTHONPATH": root,
    }
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | fixed
