"""The evaluation of an epoch: the frozen plan becomes jobs, the jobs fill the ledger, and what they did is counted.

Incumbents and assays run first, then challengers, whose workers stop by the opponents' rows. Running it again, whole or for some
environments, does what is missing. What must not go in: deciding who runs (``planning.py``) and verdicts (``scoring/``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from affine_dagster.environments.registry import environments as registered
from affine_dagster.evaluation.adjudication import crashes
from affine_dagster.evaluation.job import Assignment, EvaluationJob
from affine_dagster.evaluation.jobs import EvalJobs, JobOutcome, Progress
from affine_dagster.evaluation.opponents import PriorPairs, contest_of
from affine_dagster.evaluation.tasksets import CONTEST
from affine_dagster.evaluation.worker import tasks_for
from affine_dagster.ledger import Ledger
from affine_dagster.reasons import Fault
from affine_dagster.settings import Settings
from affine_dagster.store import Tables
from affine_dagster.tables import ADMISSIONS, CONTESTS, EVIDENCE, PLAN

__all__ = ["EnvironmentSummary", "EvaluationSummary", "ModelCount", "evaluate", "evaluation_jobs"]

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ModelCount:
    """What one model did in one environment and purpose: tasks by disposition (case E10), which sum to the tasks that were due.

    ``n_ok``: reward above 0; ``n_wrong``: reward 0 without a fault; ``n_missing``: no result, by a fault that is not the model's
    or because the job did not get there. ``mean``: over all but the missing, None without any.
    """

    submission_id: str
    weights_digest: str
    environment: str
    purpose: str
    n_ok: int
    n_wrong: int
    n_model_fault: int
    n_missing: int
    mean: float | None

    @property
    def due(self) -> int:
        """All tasks that had to be run."""
        return self.n_ok + self.n_wrong + self.n_model_fault + self.n_missing


@dataclass(frozen=True)
class EnvironmentSummary:
    """The counts of one environment."""

    counts: tuple[ModelCount, ...]

    @property
    def models(self) -> int:
        """Different models that were due."""
        return len({count.weights_digest for count in self.counts})

    @property
    def tasks(self) -> int:
        """Tasks that were due, over all models."""
        return sum(count.due for count in self.counts)

    @property
    def missing(self) -> int:
        """Tasks without a result, over all models."""
        return sum(count.n_missing for count in self.counts)

    @property
    def coverage(self) -> float | None:
        """Share of the due tasks that have a result; None where nothing was due."""
        return None if self.tasks == 0 else 1 - self.missing / self.tasks

    @property
    def by_model(self) -> pl.DataFrame:
        """One row a model and purpose, for people: the fields of :class:`ModelCount`."""
        types = {"n_ok": pl.Int64, "n_wrong": pl.Int64, "n_model_fault": pl.Int64, "n_missing": pl.Int64, "mean": pl.Float64}
        names = dict.fromkeys(("submission_id", "weights_digest", "environment", "purpose"), pl.String)
        return pl.DataFrame([asdict(count) for count in self.counts], schema={**names, **types}, orient="row")


@dataclass(frozen=True)
class EvaluationSummary:
    """What an evaluation did: how each job ended, and the counts of the environments that it ran."""

    epoch: int
    outcomes: tuple[JobOutcome, ...]
    counts: tuple[ModelCount, ...]

    def environment(self, name: str) -> EnvironmentSummary:
        """The counts of one environment."""
        return EnvironmentSummary(tuple(count for count in self.counts if count.environment == name))


def evaluate(
    tables: Tables, ledger: Ledger, settings: Settings, epoch: int, environments: Sequence[str], jobs: EvalJobs, progress: Progress
) -> EvaluationSummary:
    """Run the planned models of an epoch on these environments, as far as the ledger lacks it, and count.

    A job that fails is an outcome, not an error. Raises ``missing_input`` without a plan, ``bad_settings`` for an unknown
    environment, and ``other_environment_version`` before anything runs.
    """
    plan = tables.need(PLAN, epoch).filter("planned")
    _check_versions(tables, plan, environments)
    first, second = evaluation_jobs(tables, plan, settings, epoch, environments)
    outcomes = [*jobs.run(first, progress), *jobs.run(second, progress)]
    _adjudicate(ledger, epoch, settings)
    failed = {outcome.weights_digest for outcome in outcomes if outcome.reason is not None}
    counts = tuple(_counts(plan, ledger, settings, epoch, environments, failed))
    return EvaluationSummary(epoch, tuple(outcomes), counts)


def evaluation_jobs(
    tables: Tables, plan: pl.DataFrame, settings: Settings, epoch: int, environments: Sequence[str]
) -> tuple[list[EvaluationJob], list[EvaluationJob]]:
    """The jobs of the planned PLAN rows: those that others are compared with, and then the challengers; one job a model."""
    first: list[EvaluationJob] = []
    second: list[EvaluationJob] = []
    files = _admitted_files(tables, epoch)
    prior = _prior_pairs(tables, plan)
    for digest in plan["weights_digest"].unique(maintain_order=True):
        rows = plan.filter(pl.col("weights_digest") == digest).sort(pl.col("purpose") != CONTEST, "task_epoch").to_dicts()
        challenge = next((row for row in rows if row["role"] == "challenger"), None)
        model = rows[0]
        job = EvaluationJob(
            epoch=epoch, weights_digest=digest, submission_id=model["submission_id"], repo=model["repo"], revision=model["revision"],
            files=files.get((model["repo"], model["revision"]), ()), environments=tuple(environments),
            assignments=tuple(Assignment(row["purpose"], row["task_epoch"], row["first_task"], row["tasks"]) for row in rows),
            contest=None if challenge is None else contest_of(challenge, prior, settings),
            serving=settings.serving, evaluation=settings.evaluation, hub=settings.hub, store=settings.store,
        )
        (first if challenge is None else second).append(job)
    return first, second


def _prior_pairs(tables: Tables, plan: pl.DataFrame) -> PriorPairs:
    """What earlier epochs know of the planned pairs, under the plan's scorer: the newest rows up to its prior epoch."""
    states = plan.select("prior_epoch", "scorer").unique().drop_nulls().rows()
    if not states:
        return PriorPairs({}, {})
    prior, scorer = states[0]
    challengers = plan.filter(pl.col("role") == "challenger")["weights_digest"].to_list()
    return PriorPairs.of(tables.until(CONTESTS, prior, scorer), tables.until(EVIDENCE, prior, scorer), challengers)


def _admitted_files(tables: Tables, epoch: int) -> dict[tuple[str, str], tuple[str, ...]]:
    """The admitted files of each revision: what runs need not be the repository of the submission that owns it."""
    admitted = tables.until(ADMISSIONS, epoch).filter(pl.col("state") == "admitted").sort("epoch")
    return {(row["repo"], row["revision"]): tuple(file["name"] for file in row["files"] or ()) for row in admitted.iter_rows(named=True)}


def _check_versions(tables: Tables, plan: pl.DataFrame, environments: Sequence[str]) -> None:
    families = registered(environments)
    for purpose, epoch in plan.select("purpose", "task_epoch").unique().sort("purpose", "task_epoch").iter_rows():
        for family in families:
            tasks_for(tables, family, purpose, epoch, 1)


def _adjudicate(ledger: Ledger, epoch: int, settings: Settings) -> None:
    size = settings.evaluation.batch_tasks
    rows = crashes(ledger.rollouts(epoch), settings.evaluation.attempts).with_columns((pl.col("index") // size).alias("batch"))
    for key, batch in rows.group_by("weights_digest", "environment", "purpose", "task_epoch", "batch", maintain_order=True):
        ledger.append(batch.drop("batch"), int(str(key[-1])))


def _counts(
    plan: pl.DataFrame, ledger: Ledger, settings: Settings, epoch: int, environments: Sequence[str], failed: Collection[str]
) -> list[ModelCount]:
    """A count a planned row and environment. An assay that goes on counts what all its epochs have."""
    first = min([epoch, *plan["task_epoch"].to_list()])
    rewards = ledger.rewards_between(first, epoch).sort(pl.col("reward").is_null(), "epoch").unique(
        ["environment", "purpose", "task_epoch", "index", "weights_digest"], keep="first", maintain_order=True
    )
    by_model = dict(iter(rewards.group_by("weights_digest", "environment", "purpose", "task_epoch")))
    found = []
    for row in plan.iter_rows(named=True):
        due = row["tasks"] if row["role"] != "challenger" or row["weights_digest"] in failed else None
        for name in environments:
            rows = by_model.get((row["weights_digest"], name, row["purpose"], row["task_epoch"]), rewards.clear())
            found.append(_count(row, name, rows, due))
    return found


def _count(row: Row, environment: str, rewards: pl.DataFrame, due: int | None) -> ModelCount:
    """``due`` None: a challenger whose job ran to its end was due what it ran, since it may stop early."""
    results = rewards.filter(pl.col("reward").is_not_null())
    faults = results.filter(pl.col("fault") == Fault.MODEL.value).height
    right = results.filter(pl.col("reward") > 0).height
    mean = results["reward"].mean()
    return ModelCount(
        submission_id=row["submission_id"], weights_digest=row["weights_digest"], environment=environment, purpose=row["purpose"],
        n_ok=right, n_wrong=results.height - right - faults, n_model_fault=faults,
        n_missing=(rewards.height if due is None else max(due, rewards.height)) - results.height,
        mean=mean if isinstance(mean, float) else None,
    )
