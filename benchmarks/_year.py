"""A year of a busy subnet, written as the tables and the ledger write it: what a replay is timed on.

Fifty submissions an epoch, of which a few go on for some epochs; one in twenty is a copy and does not run; now and then one is better and
enters, with its assay. Who runs against whom follows from the real rule, which is advanced as the year is written. What must not go in:
reading it back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from affine_dagster.ledger import Ledger
from affine_dagster.scoring.contest import ContestState
from affine_dagster.scoring.models import OriginIndex
from affine_dagster.scoring.pairs import Contest
from affine_dagster.scoring.rule import EpochInputs
from affine_dagster.scoring.rules.frontier_credits import Books, FrontierCreditsReplay
from affine_dagster.scoring.rules.protocol import Round
from affine_dagster.sealed import EPOCHS_A_FILE
from affine_dagster.settings import EvaluationSettings, Settings, StoreSettings
from affine_dagster.store import Store, Tables
from affine_dagster.tables import EPOCHS, FINGERPRINTS, KINSHIP, NEURONS, PLAN, REWARDS

__all__ = ["EPOCHS_A_YEAR", "Year", "year_settings"]

EPOCHS_A_YEAR = 7300
BLOCKS = 361
SUBMISSIONS = 50
COPIES = 2
GOING_ON = 8
TASKS = 62
LONG_TASKS = 600
BETTER_EVERY = 400
UIDS = 256
ALPHA = 5e-4
SEED = 20262


def year_settings(folder: str) -> Settings:
    """The settings of the year: the default scoring, four environments, assays of 500 tasks."""
    return Settings(store=StoreSettings(url=folder), evaluation=EvaluationSettings(assay_tasks=500, max_epochs=4))


@dataclass(frozen=True)
class _Model:
    """A submission that runs. ``skill``: the chance of reward 1, an environment; ``tasks``: how many it runs an epoch."""

    digest: str
    submission: str
    hotkey: str | None
    block: int
    index: int
    skill: tuple[float, ...]
    tasks: int

    @property
    def row(self) -> dict[str, Any]:
        return {
            "weights_digest": self.digest, "genesis": self.hotkey is None, "submission_id": self.submission, "hotkey": self.hotkey,
            "repo": f"miner/{self.submission[:12]}", "revision": self.submission[:40], "block": self.block, "extrinsic_index": self.index,
        }


@dataclass
class Year:
    """Writes the epochs of a year, one after the other, into one store."""

    settings: Settings
    dice: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))

    def __post_init__(self) -> None:
        store = Store(self.settings.store.url)
        self._tables, self._ledger = Tables(store), Ledger(store)
        self._rule = FrontierCreditsReplay(self.settings)
        self._state: Books = self._rule.begin()
        self._origins = OriginIndex()
        self._models: dict[str, _Model] = {}
        self._running: list[tuple[_Model, int]] = []
        self._assays: list[pl.DataFrame] = []
        self._seats: list[str | None] = [None] * UIDS
        self._hundred: list[pl.DataFrame] = []

    def write(self, epochs: int) -> Iterator[int]:
        """Write epochs 0 to ``epochs`` - 1 and yield the rewards of each."""
        for epoch in range(epochs):
            rewards = self._epoch(epoch)
            self._hundred.append(rewards)
            if (epoch + 1) % EPOCHS_A_FILE == 0 or epoch + 1 == epochs:
                self._ledger.sealed.seal(epoch // EPOCHS_A_FILE, pl.concat(self._hundred), {})
                self._hundred = []
            yield rewards.height

    def _epoch(self, epoch: int) -> pl.DataFrame:
        new = list(self._submitted(epoch))
        prints, verdicts = self._identities(epoch, new)
        copies = {row["submission_id"] for row in verdicts.iter_rows(named=True) if row["verdict"] == "exact_copy"}
        running = [(one, 0) for one in new if one.submission not in copies and one.hotkey is not None] + self._running
        plan = PLAN.frame(self._plan(epoch, running))
        rewards = self._rewards(epoch, plan)
        neurons = self._neurons(epoch, new)
        block = 1000 + epoch * BLOCKS
        for table, frame in ((FINGERPRINTS, prints), (KINSHIP, verdicts), (PLAN, plan), (NEURONS, neurons), (EPOCHS, _chain(epoch, block))):
            self._tables.write(table, epoch, frame)
        self._origins.add(epoch, prints, verdicts)
        self._assays = [*self._assays, rewards.filter(pl.col("purpose") == "assay")][-20:]
        starts = plan.filter(pl.col("purpose") == "assay")["task_epoch"].unique().to_list()
        assays = pl.concat(self._assays).filter(pl.col("task_epoch").is_in(starts))
        registered = frozenset(neurons["hotkey"])
        inputs = EpochInputs(epoch, block, plan, rewards, assays, self._origins.at(epoch), registered, "owner")
        self._state = self._rule.advance(self._state, Round(inputs, (), "owner", TASKS, _unread)).state
        self._running = list(self._going_on(epoch, running))
        return rewards

    def _submitted(self, epoch: int) -> Iterator[_Model]:
        """The epoch's submissions: mostly no better than the frontier; the first of all is genesis, and now and then one is better."""
        best = [max(skill) for skill in zip(*(self._models[one.weights_digest].skill for one in self._members()), strict=True)] or [0.1] * 4
        if epoch == 0:
            yield self._model("genesis", None, -1, 0, tuple(best), TASKS)
        for index in range(SUBMISSIONS):
            name, tasks, skill = f"{epoch}-{index}", TASKS, [max(0.02, one + gain) for one, gain in zip(best, self._gains(), strict=True)]
            if index == 7 and epoch % BETTER_EVERY == BETTER_EVERY // 2:
                tasks, at = LONG_TASKS, (epoch // BETTER_EVERY) % 4
                skill = [min(one + (0.2 if place == at else 0.01), 0.97) for place, one in enumerate(best)]
            yield self._model(name, f"hotkey-{name}", 1000 + epoch * BLOCKS - index - 1, index, tuple(skill), tasks)

    def _gains(self) -> list[float]:
        return self.dice.choice([-0.1, -0.05, 0.0, 0.02], size=4, p=[0.4, 0.3, 0.25, 0.05]).tolist()

    def _model(self, name: str, hotkey: str | None, block: int, index: int, skill: tuple[float, ...], tasks: int) -> _Model:
        made = _Model(_digest(f"weights {name}"), _digest(name), hotkey, block, index, skill, tasks)
        self._models[made.digest] = made
        return made

    def _members(self) -> Sequence[Any]:
        return self._state.members or ()

    def _identities(self, epoch: int, new: Sequence[_Model]) -> tuple[pl.DataFrame, pl.DataFrame]:
        tensors = [{"name": f"layer {at}", "dtype": "bf16", "shape": [64, 64], "blake3": _digest(str(at))} for at in range(4)]
        prints = FINGERPRINTS.frame(
            one.row | {
                "epoch": epoch, "tensor_set_digest": one.digest, "parameters": 4096, "template_hash": "t", "tokenizer_signature": "k",
                "tensors": tensors, "tensors_digest": one.digest, "config_digest": "c",
            } for one in new
        )
        nothing = dict.fromkeys(KINSHIP.columns)
        genesis = next(iter(self._models.values()))
        verdicts = [
            nothing | {
                "epoch": epoch, "submission_id": one.submission, "hotkey": one.hotkey, "weights_digest": one.digest, "block": one.block,
                "extrinsic_index": one.index, "verdict": "exact_copy" if at <= COPIES else "origin", "reason": "origin",
                "peer_submission_id": genesis.submission if at <= COPIES else None,
            } for at, one in enumerate(new) if one.hotkey is not None
        ]
        return prints, KINSHIP.frame(verdicts)

    def _plan(self, epoch: int, running: Sequence[tuple[_Model, int]]) -> Iterator[dict[str, Any]]:
        common = {
            "epoch": epoch, "task_epoch": epoch, "purpose": "contest", "opponents": [], "alpha": None, "discordance": None,
            "first_task": 0, "tasks": TASKS, "tasks_before": 0, "epochs_before": 0, "planned": True, "reason": "evaluating",
            "prior_epoch": None, "scorer": "s",
        }
        incumbents = [one.weights_digest for one in self._members() if one.incumbent]
        longest = max([one.tasks for one, _ in running], default=TASKS)
        for digest in incumbents:
            yield common | self._models[digest].row | {"role": "incumbent", "tasks": longest}
        for one, before in running:
            laid = {"opponents": incumbents, "alpha": ALPHA, "discordance": 0.3, "epochs_before": before, "tasks": one.tasks}
            yield common | one.row | laid | {"role": "challenger"}
        open_ = [(at, one) for at, one in enumerate(self._members()) if not one.assay_complete][:1]
        for at, member in open_:
            assay = common | {"purpose": "assay", "task_epoch": member.assay_epoch or epoch, "tasks": self.settings.evaluation.assay_tasks}
            yield assay | self._models[member.weights_digest].row | {"role": "assayed"}
            for other in self._members()[:at]:
                yield assay | self._models[other.weights_digest].row | {"role": "reference"}

    def _rewards(self, epoch: int, plan: pl.DataFrame) -> pl.DataFrame:
        """Every planned row's tasks in every environment: one graded in tenths, the others 0 or 1; one result in 500 is lost."""
        names = sorted(self.settings.evaluation.environments)
        rows = list(plan.select("weights_digest", "purpose", "task_epoch", "tasks").iter_rows())
        sizes = np.array([[tasks] * len(names) for _, _, _, tasks in rows], dtype=np.int64).reshape(-1)
        if not sizes.size:
            return REWARDS.empty()
        skill = np.array([self._models[digest].skill for digest, _, _, _ in rows]).reshape(-1)
        chance = np.repeat(skill, sizes)
        graded = np.repeat(np.tile(np.arange(len(names)) == 0, len(rows)), sizes)
        reward = np.where(graded, self.dice.binomial(10, chance) / 10, self.dice.random(chance.size) < chance)
        lost = self.dice.random(chance.size) < 0.002
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        cells = np.repeat(np.arange(sizes.size), sizes)
        labels = pl.DataFrame(
            {
                "environment": names * len(rows),
                **{name: [row[at] for row in rows for _ in names] for at, name in enumerate(("weights_digest", "purpose", "task_epoch"))},
            }, schema_overrides={"task_epoch": pl.Int64},
        )[cells]
        made = labels.with_columns(
            pl.lit(epoch, pl.Int64).alias("epoch"), pl.lit("1").alias("environment_version"),
            pl.Series("index", np.arange(chance.size) - starts, pl.Int64), pl.Series("seed", np.arange(chance.size) - starts, pl.UInt64),
            pl.when(pl.Series(lost)).then(None).otherwise(pl.Series(reward, dtype=pl.Float64)).alias("reward"),
            *(pl.when(pl.Series(lost)).then(pl.lit(word)).alias(name) for name, word in (("fault", "platform"), ("reason", "no_answer"))),
            pl.lit(12, pl.Int64).alias("completion_tokens"),
        )
        return made.select(REWARDS.schema.names()).sort(REWARDS.key)

    def _going_on(self, epoch: int, running: Sequence[tuple[_Model, int]]) -> Iterable[tuple[_Model, int]]:
        """Those that are still undecided against some incumbent and have run no more than three epochs: a few, and all that are better."""
        known = self._state.contests.before(epoch + 1)
        inside = {one.weights_digest for one in self._members()}
        incumbents = [one.weights_digest for one in self._members() if one.incumbent]
        left = [
            (one, before + 1) for one, before in running
            if before < 3 and one.digest not in inside
            and {_stood(known.contest((one.digest, other))) for other in incumbents} <= {ContestState.UNDECIDED, ContestState.WON}
        ]
        return sorted(left, key=lambda one: -one[0].tasks)[:GOING_ON]

    def _neurons(self, epoch: int, new: Sequence[_Model]) -> pl.DataFrame:
        """The owner at uid 0; the others' seats go to the newest, but an accepted owner keeps its own."""
        self._seats[0] = "owner"
        paid = {one.hotkey for one in self._members()} - {None}
        free = [at for at in range(1, UIDS) if self._seats[at] not in paid]
        for at, one in enumerate([one for one in new if one.hotkey is not None]):
            self._seats[free[(epoch * SUBMISSIONS + at) % len(free)]] = one.hotkey
        taken = [(uid, hotkey) for uid, hotkey in enumerate(self._seats) if hotkey is not None]
        taken = list({hotkey: (uid, hotkey) for uid, hotkey in taken}.values())
        common = {"epoch": epoch, "stake_rao": 10, "validator_permit": False, "last_update": 0, "registered_at": 0}
        return NEURONS.frame(common | {"uid": uid, "hotkey": hotkey, "coldkey": f"cold {hotkey}"} for uid, hotkey in taken)


def _stood(contest: Contest | None) -> str:
    return ContestState.UNDECIDED if contest is None else contest.state


def _chain(epoch: int, block: int) -> pl.DataFrame:
    row = dict.fromkeys(EPOCHS.columns) | {"epoch": epoch, "netuid": 1, "tempo": 360, "boundary_block": block, "owner_hotkey": "owner"}
    return EPOCHS.frame([row])


def _digest(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=32).hexdigest()


def _unread() -> Any:
    raise AssertionError("the rule reads no matrix")
