"""Parts for the evaluation's tests: an environment, an engine and a world around them, all of which notice a broken partner.

The engine reads a model folder, so the weights decide what it answers: ``{"skill": {environment: percent}}`` in
``model.safetensors``. Same folder, same prompts: same completions, in any process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from affine_dagster.environments.port import Environment, Grade, Task
from affine_dagster.evaluation.job import EvaluationJob
from affine_dagster.evaluation.jobs import JobOutcome, Progress
from affine_dagster.evaluation.run import evaluation_jobs
from affine_dagster.evaluation.tasksets import task_sets
from affine_dagster.evaluation.worker import Worker
from affine_dagster.hub.local import LocalHub
from affine_dagster.ledger import Ledger
from affine_dagster.reasons import AffineError
from affine_dagster.serving.port import Completion, LoadedModel, Receipt, Sampling
from affine_dagster.settings import EvaluationSettings, HubSettings, ScoringSettings, ServingSettings, Settings, StoreSettings
from affine_dagster.store import Store, Tables
from affine_dagster.tables import EPOCHS, PLAN, TASKS

EPOCH = 7
NAMES = ("chain_sum", "bit_count")


@dataclass(frozen=True)
class Digits:
    """The answer is the seed's last digit; its first three digits are in the prompt and must come back from the engine."""

    name: str
    version: str = "1"
    majority_rate: float = 0.1
    broken: Callable[[Task], object] | None = None

    def task(self, seed: int) -> Task:
        return Task(self.name, self.version, seed, f"{self.name}:{seed}", str(seed % 10))

    def behaviour(self, task: Task) -> str:
        return task.answer

    def grade(self, task: Task, completion: str) -> Grade:
        if self.broken is not None:
            made = self.broken(task)
            if made is not None:
                return made  # type: ignore[return-value]
        assert task.environment == self.name, "graded by another environment"
        assert completion.startswith(f"{self.name}:{task.seed}="), f"another task's completion: {completion!r} for {task.seed}"
        return Grade(1.0 if completion.split("=")[1] == task.answer else 0.0)

    def grade_all(self, tasks: Sequence[Task], completions: Sequence[str]) -> list[Grade]:
        return [self.grade(task, completion) for task, completion in zip(tasks, completions, strict=True)]


def digest_of(folder: Path) -> str:
    return hashlib.blake2b((folder / "model.safetensors").read_bytes(), digest_size=32).hexdigest()


@dataclass
class FakeEngine:
    """Answers right on the share of seeds that the weights say. ``fault``: what to give in place of an answer, if anything."""

    fault: Callable[[str, int], Completion | None] = lambda prompt, call: None
    load_error: str | None = None
    loads: int = 0
    calls: list[tuple[str, ...]] = field(default_factory=list)

    @contextmanager
    def open(self, folder: Path) -> Iterator[LoadedModel]:
        self.loads += 1
        if self.load_error is not None:
            raise AffineError(self.load_error, "told to")
        loaded = _Loaded(self, json.loads((folder / "model.safetensors").read_text())["skill"], digest_of(folder))
        yield loaded
        loaded.closed = True


@dataclass
class _Loaded:
    engine: FakeEngine
    skill: dict[str, int]
    digest: str
    closed: bool = False

    @property
    def receipt(self) -> Receipt:
        return Receipt(self.digest, self.digest[::-1], "config", "template", "tokenizer", "fake", "1")

    def complete(self, prompts: Sequence[str], seeds: Sequence[int], sampling: Sampling) -> list[Completion]:
        assert not self.closed, "a closed model was asked"
        assert len(prompts) == len(seeds) > 0
        assert [int(prompt.split(":")[1]) for prompt in prompts] == list(seeds), "prompts and seeds are of different tasks"
        assert sampling == Sampling(0.0, 1.0, 24, 256)
        self.engine.calls.append(tuple(prompts))
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt: str) -> Completion:
        fault = self.engine.fault(prompt, len(self.engine.calls))
        if fault is not None:
            return fault
        name, seed = prompt.split(":")
        draw = int.from_bytes(hashlib.blake2b(prompt.encode(), digest_size=4).digest(), "big") % 100
        return Completion(f"{prompt}={int(seed) % 10 if draw < self.skill[name] else 'x'}", "stop", len(prompt), 2)


def no_answer(detail: str = "") -> Completion:
    return Completion("", "fault", 0, 0, "no_answer", detail)


def epochs_row(epoch: int) -> pl.DataFrame:
    blank: dict[str, Any] = dict.fromkeys(EPOCHS.schema.names())
    row = {"epoch": epoch, "beacon_hash": f"0x{epoch:04x}", "pulse_randomness": "ab" * 32, "boundary_block": 100 * epoch}
    return EPOCHS.frame([blank | row | {"commit_reveal": False}])


@dataclass
class World:
    """A store, a hub and settings under one folder."""

    root: Path
    settings: Settings
    environments: dict[str, Environment]

    @property
    def tables(self) -> Tables:
        return Tables(Store(self.settings.store.url))

    @property
    def ledger(self) -> Ledger:
        return Ledger(Store(self.settings.store.url))

    @property
    def hub(self) -> LocalHub:
        return LocalHub(self.settings.hub.path, self.settings.hub.cache)

    def publish(self, name: str, **skill: int) -> dict[str, Any]:
        """A published model as a plan row's model columns; the skill is a percentage an environment."""
        folder = self.root / "made" / name
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_text(json.dumps({"name": name, "skill": dict.fromkeys(NAMES, 50) | skill}))
        (folder / "config.json").write_text("{}")
        revision = self.hub.publish(f"miner/{name}", folder)
        return {
            "weights_digest": digest_of(folder), "submission_id": f"s{name}", "hotkey": f"hot-{name}", "repo": f"miner/{name}",
            "revision": revision, "block": 1, "extrinsic_index": 0, "genesis": False,
        }

    def freeze_tasks(self, epoch: int = EPOCH) -> pl.DataFrame:
        self.tables.write(EPOCHS, epoch, epochs_row(epoch))
        return self.tables.freeze(TASKS, epoch, task_sets(epochs_row(epoch), self.environments.values(), self.settings.evaluation))

    def plan(self, *rows: dict[str, Any], epoch: int = EPOCH) -> pl.DataFrame:
        return self.tables.freeze(PLAN, epoch, PLAN.frame(row | {"epoch": epoch} for row in rows))

    def jobs(self, *rows: dict[str, Any], environments: Sequence[str] = NAMES) -> list[EvaluationJob]:
        plan = PLAN.frame(row | {"epoch": EPOCH} for row in rows)
        first, second = evaluation_jobs(self.tables, plan, self.settings, EPOCH, environments)
        return [*first, *second]

    def worker(self, job: EvaluationJob, engine: FakeEngine, **changes: Any) -> Worker:
        given: dict[str, Any] = {"environments": self.environments.__getitem__} | changes
        return Worker(job, engine, self.hub, self.tables, self.ledger, **given)

    def rows(self, epoch: int = EPOCH) -> pl.DataFrame:
        """All rollouts but for the attempt, each once."""
        return self.ledger.rollouts(epoch).drop("attempt").unique(maintain_order=True)


def planned(model: dict[str, Any], role: str = "incumbent", **changes: Any) -> dict[str, Any]:
    purpose = "contest" if role in ("incumbent", "challenger") else "assay"
    return model | {
        "role": role, "purpose": purpose, "task_epoch": EPOCH, "opponents": [], "alpha": 0.05 if role == "challenger" else None,
        "discordance": 0.3 if role == "challenger" else None, "first_task": 0, "tasks": 40, "tasks_before": 0, "epochs_before": 0,
        "planned": True, "reason": "evaluating", "prior_epoch": None, "scorer": "s0000000000",
    } | changes


def settings_of(root: Path, **evaluation: Any) -> Settings:
    fixed = {"environments": NAMES, "batch_tasks": 10, "tasks_per_epoch": 400, "assay_tasks": 40, "attempts": 3, "processes": 2}
    values = fixed | evaluation
    return Settings(
        evaluation=EvaluationSettings(**values), scoring=ScoringSettings(margin=0.03, tolerance=0.1), serving=ServingSettings(),
        hub=HubSettings(path=root / "hub", cache=root / "cache"), store=StoreSettings(url=str(root / "store")),
    )


def make_world(root: Path, families: Sequence[Digits] = tuple(Digits(name) for name in NAMES), **evaluation: Any) -> World:
    return World(root, settings_of(root, **evaluation), {family.name: family for family in families})


@dataclass
class InProcess:
    """``EvalJobs`` without processes, over the fake engine; a job whose repository is in ``failing`` is lost."""

    world: World
    engine: FakeEngine = field(default_factory=FakeEngine)
    failing: frozenset[str] = frozenset()
    ran: list[list[str]] = field(default_factory=list)

    def run(self, jobs: Sequence[EvaluationJob], progress: Progress) -> list[JobOutcome]:
        self.ran.append([job.submission_id for job in jobs])
        return [self._run(job, progress) for job in jobs]

    def _run(self, job: EvaluationJob, progress: Progress) -> JobOutcome:
        assert EvaluationJob.from_json(job.to_json()) == job, "a job must survive its file"
        if job.repo in self.failing:
            return JobOutcome(job.name, job.weights_digest, "worker_lost", "", 3)
        self.world.worker(job, self.engine, report=progress).run()
        return JobOutcome(job.name, job.weights_digest, None, "", 1)
