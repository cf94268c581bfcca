"""A small season as frames: models with set skills, played through the rule epoch by epoch. No chain, no store, no model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import settings as hypothesis_settings

from affine_dagster.scoring.models import MODELS, origins_of
from affine_dagster.scoring.rule import EpochInputs, FrontierCredits, Outcome, PriorState
from affine_dagster.settings import EvaluationSettings, ScoringSettings, Settings
from affine_dagster.tables import CONTESTS, CREDITS, EVIDENCE, FRONTIER, PLAN, REWARDS

hypothesis_settings.register_profile("shared_cores", deadline=None, max_examples=60)  # a law does not break because others compute
hypothesis_settings.load_profile("shared_cores")

ENVIRONMENTS = ("sort", "spell")
ALPHA = 0.05
NOTHING = PriorState(EVIDENCE.empty(), CONTESTS.empty(), None)


def settings(**evaluation: Any) -> Settings:
    """Settings of a small season: 300 contest and 400 assay tasks in each of two environments."""
    sizes = {"environments": ENVIRONMENTS, "tasks_per_epoch": 300, "assay_tasks": 400, "max_tasks": 2000, **evaluation}
    scoring = ScoringSettings(margin=0.03, tolerance=0.1, gain=0.1)
    return Settings.model_construct(evaluation=EvaluationSettings(**sizes), scoring=scoring)


def digest(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=32).hexdigest()


@dataclass(frozen=True)
class Model:
    """A model of the season. ``skill``: the chance of reward 1, an environment. ``joins``: the epoch it is first planned in."""

    name: str
    block: int
    skill: tuple[float, ...]
    joins: int = 1
    genesis: bool = False
    hotkey: str | None = None

    @property
    def owner(self) -> dict[str, Any]:
        hotkey = None if self.genesis else self.hotkey or f"hot-{self.name}"
        return {
            "weights_digest": digest(self.name), "submission_id": f"s-{self.name}", "hotkey": hotkey, "repo": f"org/{self.name}",
            "revision": "0" * 40, "block": -1 if self.genesis else self.block, "extrinsic_index": 0, "genesis": self.genesis,
        }


BASE = Model("base", 0, (0.45, 0.45), genesis=True)
STRONG = Model("strong", 10, (0.75, 0.75))
EQUAL = Model("equal", 11, (0.45, 0.45))
SPECIALIST = Model("specialist", 20, (0.95, 0.75), joins=2)
CAST = (BASE, STRONG, EQUAL, SPECIALIST)


def models_frame(models: Sequence[Model]) -> pl.DataFrame:
    return MODELS.frame({**model.owner, "origin_digest": digest(model.name)} for model in models)


def plan_row(
    model: Model, epoch: int, role: str, *, purpose: str = "contest", task_epoch: int | None = None, **more: Any
) -> dict[str, Any]:
    row = {
        **model.owner, "epoch": epoch, "role": role, "purpose": purpose, "task_epoch": epoch if task_epoch is None else task_epoch,
        "opponents": [], "alpha": ALPHA, "discordance": 0.5, "first_task": 0, "tasks": 300, "tasks_before": 0, "epochs_before": 0,
        "planned": True, "reason": "evaluating", "prior_epoch": None, "scorer": "s0",
    }
    return row | more


def reward_rows(
    name: str, environment: str, rewards: Sequence[float | None], epoch: int, *, purpose: str = "contest", task_epoch: int | None = None,
    first: int = 0,
) -> list[dict[str, Any]]:
    """REWARDS rows of consecutive tasks; None is a platform fault."""
    return [
        {
            "epoch": epoch, "environment": environment, "environment_version": "1", "purpose": purpose,
            "task_epoch": epoch if task_epoch is None else task_epoch, "index": first + at, "seed": at, "weights_digest": digest(name),
            "reward": reward, "fault": None if reward is not None else "platform", "reason": None, "completion_tokens": 3,
        }
        for at, reward in enumerate(rewards)
    ]


def drawn(model: Model, environment: str, purpose: str, task_epoch: int, size: int) -> list[float | None]:
    """The model's rewards: a seeded draw of its own for each environment, purpose and epoch."""
    seed = hashlib.blake2b(f"{model.name}|{environment}|{purpose}|{task_epoch}".encode(), digest_size=8).digest()
    chance = np.random.default_rng(int.from_bytes(seed, "big")).random(size)
    return [float(value < model.skill[ENVIRONMENTS.index(environment)]) for value in chance]


@dataclass
class Season:
    """Plays epochs: plans every model that is not accepted against the incumbents, and every open assay, and keeps what it read."""

    models: tuple[Model, ...] = CAST
    rules: Settings = field(default_factory=settings)
    inputs: list[EpochInputs] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def play(self, epochs: int) -> Season:
        for epoch in range(1, epochs + 1):
            frontier = self.outcomes[-1].frontier if self.outcomes else None
            self.inputs.append(self.epoch_inputs(epoch, frontier))
            self.outcomes.append(FrontierCredits().advance(self.prior, self.inputs[-1], self.rules))
        return self

    @property
    def prior(self) -> PriorState:
        if not self.outcomes:
            return NOTHING
        evidence = pl.concat([outcome.evidence for outcome in self.outcomes])
        return PriorState(evidence, pl.concat([outcome.contests for outcome in self.outcomes]), self.outcomes[-1].frontier)

    def epoch_inputs(self, epoch: int, frontier: pl.DataFrame | None) -> EpochInputs:
        plan = PLAN.frame(self._plan(epoch, frontier))
        rewards = REWARDS.frame(row for entry in plan.iter_rows(named=True) for row in self._ran(entry))
        known = [model for model in self.models if model.joins <= epoch]
        registered = frozenset(model.owner["hotkey"] for model in known if not model.genesis) | {"burn"}
        earlier = [inputs.rewards for inputs in self.inputs]
        assays = pl.concat([*earlier, rewards]).filter(pl.col("purpose") == "assay")
        return EpochInputs(epoch, epoch * 100, plan, rewards, assays, origins_of(models_frame(known)), registered, "burn")

    def _plan(self, epoch: int, frontier: pl.DataFrame | None) -> list[dict[str, Any]]:
        by_digest = {digest(model.name): model for model in self.models}
        start = models_frame([model for model in self.models if model.genesis])
        first = start.with_columns(incumbent=True, assay_complete=False, assay_epoch=None)
        members = (first if frontier is None else frontier).to_dicts()
        incumbents = [row["weights_digest"] for row in members if row["incumbent"]]
        inside = {row["weights_digest"] for row in members}
        rows = [plan_row(by_digest[weights], epoch, "incumbent") for weights in incumbents]
        rows += [
            plan_row(model, epoch, "challenger", opponents=incumbents)
            for model in self.models if model.joins <= epoch and digest(model.name) not in inside
        ]
        for at, row in enumerate(members):
            if not row["assay_complete"]:
                task_epoch = row["assay_epoch"] or epoch
                common = {"purpose": "assay", "task_epoch": task_epoch, "tasks": self.rules.evaluation.assay_tasks}
                rows.append(plan_row(by_digest[row["weights_digest"]], epoch, "assayed", **common))
                have = {(entry["weights_digest"], entry["task_epoch"]) for entry in rows if entry["purpose"] == "assay"}
                earlier = [other["weights_digest"] for other in members[:at]]
                rows += [plan_row(by_digest[other], epoch, "reference", **common) for other in earlier if (other, task_epoch) not in have]
        return rows

    def _ran(self, entry: dict[str, Any]) -> list[dict[str, Any]]:
        model = next(model for model in self.models if digest(model.name) == entry["weights_digest"])
        rows: list[dict[str, Any]] = []
        for environment in ENVIRONMENTS:
            rewards = drawn(model, environment, entry["purpose"], entry["task_epoch"], entry["tasks"])
            rows += reward_rows(model.name, environment, rewards, entry["epoch"], purpose=entry["purpose"], task_epoch=entry["task_epoch"])
        return rows


def member_row(
    model: Model, lower: Sequence[int], upper: Sequence[int], *, complete: bool = True, accepted_block: int = 0
) -> dict[str, Any]:
    """A FRONTIER row of epoch 1."""
    names = [f"e{at}" for at in range(len(lower))]
    return {
        **model.owner, "epoch": 1, "accepted_epoch": 1, "accepted_block": accepted_block, "incumbent": True, "redundant_by": None,
        "environments": names, "lower": list(lower), "upper": list(upper), "assay_epoch": 1, "assay_tasks": 400,
        "assay_complete": complete, "reason": "accepted", "prior_epoch": None,
    }


def frontier_frame(*rows: dict[str, Any]) -> pl.DataFrame:
    return FRONTIER.frame(rows)


def credit_frame(**decayed_units: int | str) -> pl.DataFrame:
    """CREDITS rows by hotkey, with only what weights are made of filled in."""
    return CREDITS.frame(
        {
            "epoch": 1, "weights_digest": digest(hotkey), "submission_id": hotkey, "hotkey": hotkey, "block": at, "extrinsic_index": 0,
            "credit_units": "0", "credit": 0.0, "frozen": True, "accepted_block": 0, "decayed_units": str(units), "decayed": 0.0,
            "registered": True, "reason": "credited",
        }
        for at, (hotkey, units) in enumerate(decayed_units.items())
    )


@pytest.fixture(scope="session")
def make() -> Any:
    """The builders of this file, for tests that cannot import it by name."""
    import sys

    return sys.modules[__name__]


@pytest.fixture(scope="session")
def season() -> Season:
    """The standard cast over five epochs."""
    return Season().play(5)
