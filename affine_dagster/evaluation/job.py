"""The evaluation job: everything that a worker needs to run one model, as one JSON file.

One job is one model of one epoch, with all its purposes and environments, so that the model is loaded once. It names where
the store and the hub are and holds the settings it was planned under; it holds no secret and no result. What must not go in:
how a job is started (``jobs.py``) and what it does (``worker.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.contest import ContestRule
from affine_dagster.scoring.histogram import Histogram
from affine_dagster.serving.port import Sampling
from affine_dagster.settings import EvaluationSettings, HubSettings, ServingSettings, StoreSettings
from affine_dagster.store import epoch_name

__all__ = ["Assignment", "Batch", "Contest", "EvaluationJob", "Opponent"]

JOB_VERSION = 1


@dataclass(frozen=True)
class Batch:
    """Consecutive task indices ``first..stop-1`` that are answered in one call. ``number`` is part of the ledger's name."""

    number: int
    first: int
    stop: int


@dataclass(frozen=True)
class Assignment:
    """Tasks ``first_task .. first_task + tasks - 1`` of a purpose, on the seeds of ``task_epoch``, in each environment."""

    purpose: str
    task_epoch: int
    first_task: int
    tasks: int

    def batches(self, size: int) -> Iterator[Batch]:
        """The batches in order. Their cut depends on the size alone, so a resumed run cuts as an undisturbed one."""
        stop = self.first_task + self.tasks
        for number in range(self.first_task // size, -(-stop // size)):
            yield Batch(number, max(self.first_task, number * size), min(stop, (number + 1) * size))


@dataclass(frozen=True)
class Opponent:
    """An incumbent that the challenger must beat, with the pair's rule and its evidence of earlier epochs.

    ``histograms``: (environment, merged histogram); an environment that is not there has none. ``epochs``: those the pair has
    run. ``won``: an earlier epoch's verdict, which stands.
    """

    weights_digest: str
    rule: ContestRule
    epochs: int
    won: bool
    histograms: tuple[tuple[str, Histogram], ...]


@dataclass(frozen=True)
class Contest:
    """A challenger's contest: whom it must beat, and all environments that count (not only those that this job runs)."""

    opponents: tuple[Opponent, ...]
    environments: tuple[str, ...]


@dataclass(frozen=True)
class EvaluationJob:
    """One model of one epoch. ``files``: what of the repository is loaded (empty: all). ``contest``: None for all but challengers."""

    epoch: int
    weights_digest: str
    submission_id: str
    repo: str
    revision: str
    files: tuple[str, ...]
    environments: tuple[str, ...]
    assignments: tuple[Assignment, ...]
    contest: Contest | None
    serving: ServingSettings
    evaluation: EvaluationSettings
    hub: HubSettings
    store: StoreSettings
    version: int = JOB_VERSION

    @property
    def sampling(self) -> Sampling:
        """All sampling parameters; none comes from the submitted files."""
        serving = self.serving
        return Sampling(serving.temperature, serving.top_p, serving.max_new_tokens, serving.max_model_length)

    @property
    def name(self) -> str:
        """Epoch, model and digest of the job: safe in paths and as a Kubernetes name."""
        digest = hashlib.blake2b(self.to_json(), digest_size=6).hexdigest()
        return f"{self.lease_name}-{digest}"

    @property
    def lease_name(self) -> str:
        """The name under which at most one process at a time runs this model in this epoch, whatever the environments."""
        return f"{epoch_name(self.epoch)}-{self.weights_digest[:16]}"

    def to_json(self) -> bytes:
        """The job file's content; the same job gives the same bytes."""
        return _ADAPTER.dump_json(self, indent=1)

    @classmethod
    def from_json(cls, content: bytes) -> EvaluationJob:
        """The job of a file. Raises ``other_job_version`` for a file of another version or another form."""
        try:
            job = _ADAPTER.validate_json(content)
        except ValidationError as error:
            raise AffineError("other_job_version", str(error)) from error
        if job.version != JOB_VERSION:
            raise AffineError("other_job_version", f"version {job.version}, this code knows {JOB_VERSION}")
        return job


_ADAPTER = TypeAdapter(EvaluationJob)
