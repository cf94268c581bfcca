"""One market: simulated miners submit, the real kinship, plan and rule decide, epoch after epoch.

Only the models are simulated. Whose weights are whose, who runs on what at which alpha, when a run stops, who is accepted and who is paid
comes from the rooms that do it for the chain. What must not go in: how a miner plays (``strategies.py``), the earlier rules (``past.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from affine_dagster.evaluation.job import Contest
from affine_dagster.evaluation.opponents import PriorPairs, contest_of
from affine_dagster.evaluation.planning import PlanInputs, make_plan
from affine_dagster.evaluation.stopping import ContestLook
from affine_dagster.kinship.verdicts import judge
from affine_dagster.league.redteam.answers import Answers, Floats, Latent
from affine_dagster.league.redteam.strategies import Offer, Scene, Skill, Strategy, best_skill
from affine_dagster.scoring.models import OriginIndex
from affine_dagster.scoring.rule import EpochInputs, FrontierCredits, Outcome, PriorState
from affine_dagster.settings import EvaluationSettings, ScoringSettings, Settings
from affine_dagster.tables import ADMISSIONS, CONTESTS, EPOCHS, EVIDENCE, FINGERPRINTS, KINSHIP, PLAN, REWARDS, SUBMISSIONS, SWAPS, Table

__all__ = ["BURN", "ENVIRONMENTS", "GENESIS", "Market", "Miner", "Played", "digest_of", "redteam_settings"]

BLOCKS = 361
"""Blocks an epoch (chain constant: tempo 360)."""

BURN = "owner"
GENESIS = Latent("genesis", (0.40, 0.45, 0.50))
ENVIRONMENTS = ("number_sorting", "spell_backward", "chain_sum")
"""Three, the number at which the subnet's last rule crowned an equal challenger in one of six tries."""

GAIN, FOUND_EVERY = 0.15, 4


def redteam_settings() -> Settings:
    """The demo's thresholds, with which an honest gain of .15 is decided within an epoch or two of 600 tasks."""
    evaluation = EvaluationSettings(
        environments=ENVIRONMENTS, batch_tasks=50, tasks_per_epoch=600, assay_tasks=600, max_tasks=2400, max_epochs=4
    )
    return Settings(evaluation=evaluation, scoring=ScoringSettings(margin=0.03, tolerance=0.1, gain=0.1, alpha_daily=0.05, owner_slots=20))


@dataclass(frozen=True)
class Miner:
    """A seat with a strategy. ``offset``: the epoch of its first finding; the next follow every :data:`FOUND_EVERY` epochs."""

    seat: str
    strategy: Strategy
    offset: int


@dataclass(frozen=True)
class Played:
    """One epoch as it went. ``offers``: in commit order. ``tasks``: rollouts that were run, all environments together."""

    epoch: int
    offers: tuple[Offer, ...]
    inputs: EpochInputs
    outcome: Outcome
    tasks: int

    @property
    def weights(self) -> Mapping[str, int]:
        """Weight by hotkey, of 65,535."""
        return dict(self.outcome.weights.select("hotkey", "weight").iter_rows())

    @property
    def accepted(self) -> tuple[tuple[str, str], ...]:
        """(hotkey, weights digest) of who entered the frontier in this epoch."""
        entered = self.outcome.frontier.filter((pl.col("accepted_epoch") == self.epoch) & ~pl.col("genesis"))
        return tuple(entered.select("hotkey", "weights_digest").iter_rows())


@dataclass
class Market:
    """Plays epochs. The same seed and miners give the same bytes; another miner changes no draw of these."""

    seed: int
    miners: Sequence[Miner]
    settings: Settings = field(default_factory=redteam_settings)

    def __post_init__(self) -> None:
        size = max(self.settings.evaluation.tasks_per_epoch, self.settings.evaluation.assay_tasks)
        self.answers = Answers(self.seed, len(ENVIRONMENTS), size)
        self.models: dict[str, Latent] = {digest_of(GENESIS.name): GENESIS}
        self.seat_of: dict[str, str] = {}
        self._origins = OriginIndex()
        self._books: dict[str, list[pl.DataFrame]] = {}
        self._assays: list[pl.DataFrame] = []
        self._frontier: pl.DataFrame | None = None
        self._starts: dict[str, Skill] = {}

    def play(self, epochs: int) -> Iterator[Played]:
        """Epochs 0 to ``epochs`` - 1, each as it ends."""
        for epoch in range(epochs):
            yield self._epoch(epoch)

    def _keep(self, table: Table, frame: pl.DataFrame) -> None:
        self._books.setdefault(table.name, []).append(frame)

    def _all(self, table: Table) -> pl.DataFrame:
        frame: pl.DataFrame = pl.concat([table.empty(), *self._books.get(table.name, ())])
        return frame

    def _epoch(self, epoch: int) -> Played:
        block = (epoch + 1) * BLOCKS
        offers = tuple(self._offers(epoch))
        self._commit(epoch, block, offers)
        prior = PriorState(self._all(EVIDENCE), self._all(CONTESTS), self._frontier)
        plan = make_plan(self._plan_inputs(epoch, prior), self.settings)
        rewards = self._run(plan, prior, epoch)
        self._assays.append(rewards.filter(pl.col("purpose") == "assay"))
        inputs = EpochInputs(
            epoch, block, plan, rewards, pl.concat(self._assays), self._origins.at(epoch), frozenset({BURN, *self.seat_of}), BURN
        )
        outcome = FrontierCredits().advance(prior, inputs, self.settings)
        for table, frame in ((PLAN, plan), (EVIDENCE, outcome.evidence), (CONTESTS, outcome.contests)):
            self._keep(table, frame)
        self._frontier = outcome.frontier
        return Played(epoch, offers, inputs, outcome, rewards.height)

    # --- what miners do -----------------------------------------------------------------------------------------------------

    @property
    def best(self) -> list[Latent]:
        """The models that are to be beaten, the newest last."""
        if self._frontier is None:
            return [GENESIS]
        incumbents = self._frontier.filter("incumbent").sort("accepted_block", "block", nulls_last=False)
        return [self.models[digest] for digest in incumbents["weights_digest"]]

    def _offers(self, epoch: int) -> Iterator[Offer]:
        made: list[Offer] = []
        best = self.best
        for miner in self.miners:
            found, since = divmod(epoch - miner.offset, FOUND_EVERY)
            gain = self._gain(miner.seat, found) if found >= 0 else (0.0,) * len(ENVIRONMENTS)
            if since == 0 or miner.seat not in self._starts:
                self._starts[miner.seat] = best_skill(best)
            scene = Scene(miner.seat, epoch, best, tuple(made), gain, since, self._starts[miner.seat])
            for offer in miner.strategy(scene):
                self.seat_of[offer.hotkey] = miner.seat
                self.models[digest_of(offer.model.name)] = offer.model
                made.append(offer)
                yield offer

    def _gain(self, seat: str, number: int) -> Skill:
        """What a seat's research finds: :data:`GAIN` in one environment or in two, by chance and not by who plays."""
        dice = np.random.default_rng([self.seed, number, int(digest_of(seat)[:8], 16)])
        chosen = dice.permutation(len(ENVIRONMENTS))[: 1 + number % 2]
        return tuple(GAIN if at in chosen else 0.0 for at in range(len(ENVIRONMENTS)))

    # --- what the validator sees --------------------------------------------------------------------------------------------

    def _commit(self, epoch: int, block: int, offers: Sequence[Offer]) -> None:
        rows = [_row(epoch, block - len(offers) + at - 1, offer) for at, offer in enumerate(offers)]
        prints = [_print(epoch, row, offer.model.name) for row, offer in zip(rows, offers, strict=True)]
        if epoch == 0:
            prints.insert(0, _print(epoch, _genesis_row(), GENESIS.name, genesis=True))
        admitted = {"state": "admitted", "deferrals": 0, "first_epoch": epoch}
        fingerprints = FINGERPRINTS.frame(prints)
        self._keep(SUBMISSIONS, SUBMISSIONS.frame(_whole(SUBMISSIONS, row | {"state": "submitted"}) for row in rows))
        self._keep(ADMISSIONS, ADMISSIONS.frame(_whole(ADMISSIONS, row | admitted) for row in rows))
        self._keep(FINGERPRINTS, fingerprints)
        self._keep(EPOCHS, EPOCHS.frame([_whole(EPOCHS, {"epoch": epoch, "boundary_block": block, "owner_hotkey": BURN})]))
        verdicts = judge(self._all(FINGERPRINTS), self._all(KINSHIP), epoch)
        self._keep(KINSHIP, verdicts)
        self._origins.add(epoch, fingerprints, verdicts)

    def _plan_inputs(self, epoch: int, prior: PriorState) -> PlanInputs:
        return PlanInputs(
            epoch, None if epoch == 0 else epoch - 1, self._all(EPOCHS), self._all(SUBMISSIONS), SWAPS.empty(), self._all(ADMISSIONS),
            self._all(FINGERPRINTS), self._all(KINSHIP), prior.frontier, prior.contests, prior.evidence, self._all(PLAN),
        )

    def _run(self, plan: pl.DataFrame, prior: PriorState, epoch: int) -> pl.DataFrame:
        """The rewards of the planned rows: those that others are compared with whole, a challenger as far as its evidence asks."""
        rows = plan.filter("planned").to_dicts()
        challengers = [row for row in rows if row["role"] == "challenger"]
        known = pl.concat([REWARDS.empty(), *(self._drawn(row, epoch) for row in rows if row["role"] != "challenger")])
        pairs = PriorPairs.of(prior.contests, prior.evidence, [row["weights_digest"] for row in challengers])
        second = [self._looked_at(row, contest_of(row, pairs, self.settings), known, epoch) for row in challengers]
        return pl.concat([known, *second]).sort(REWARDS.key)

    def _looked_at(self, row: Mapping[str, Any], contest: Contest, known: pl.DataFrame, epoch: int) -> pl.DataFrame:
        """A challenger's rewards up to where the evaluation worker's own look ends the run. ``known``: those of its opponents."""
        drawn = self._drawn(row, epoch)
        look = ContestLook(contest, row["weights_digest"], epoch, known)
        look.add(drawn)
        size = self.settings.evaluation.batch_tasks
        stop = next((stop for stop in range(size, row["tasks"], size) if look.is_over(stop)), row["tasks"])
        return drawn.filter(pl.col("index") < stop)

    def _drawn(self, row: Mapping[str, Any], epoch: int) -> pl.DataFrame:
        drawn = self.answers.rewards(self.models[row["weights_digest"]], row["purpose"], row["task_epoch"])[:, : row["tasks"]]
        return _rewards(drawn, epoch, row["purpose"], row["task_epoch"], row["weights_digest"])


# --- rows ---------------------------------------------------------------------------------------------------------------------


def digest_of(name: str) -> str:
    """The weights digest of a model."""
    return hashlib.blake2b(name.encode(), digest_size=32).hexdigest()


def _whole(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row.get(name) for name in table.columns}


def _row(epoch: int, block: int, offer: Offer) -> dict[str, Any]:
    submission = digest_of(f"{offer.hotkey} {epoch}")
    return {
        "epoch": epoch, "submission_id": submission, "hotkey": offer.hotkey, "coldkey": offer.coldkey, "repo": f"miner/{offer.hotkey}",
        "revision": submission[:40], "block": block, "extrinsic_index": 0,
    }


def _genesis_row() -> dict[str, Any]:
    row = {"submission_id": GENESIS.name, "hotkey": None, "repo": "base/genesis", "revision": "0" * 40}
    return row | {"epoch": 0, "block": -1, "extrinsic_index": 0}


def _print(epoch: int, row: dict[str, Any], weights: str, *, genesis: bool = False) -> dict[str, Any]:
    digest = digest_of(weights)
    same = {"weights_digest": digest, "tensor_set_digest": digest, "tensors_digest": digest, "config_digest": "c"}
    more = {"genesis": genesis, "parameters": 1, "template_hash": "t", "tokenizer_signature": "k", "tensors": []}
    return _whole(FINGERPRINTS, row | same | more | {"epoch": epoch})


def _rewards(drawn: Floats, epoch: int, purpose: str, task_epoch: int, digest: str) -> pl.DataFrame:
    environments, tasks = drawn.shape
    lost = pl.Series(np.isnan(drawn).ravel())
    index = np.tile(np.arange(tasks), environments)
    frame = pl.DataFrame({"environment": np.repeat(ENVIRONMENTS, tasks), "index": index, "reward": drawn.ravel()})
    made = frame.with_columns(
        pl.lit(epoch, pl.Int64).alias("epoch"), pl.lit("1").alias("environment_version"), pl.lit(purpose).alias("purpose"),
        pl.lit(task_epoch, pl.Int64).alias("task_epoch"), pl.Series("seed", index, pl.UInt64), pl.lit(digest).alias("weights_digest"),
        pl.when(lost).then(None).otherwise("reward").alias("reward"), pl.lit(8, pl.Int64).alias("completion_tokens"),
        pl.when(lost).then(pl.lit("platform")).alias("fault"), pl.when(lost).then(pl.lit("no_answer")).alias("reason"),
    )
    return made.select(REWARDS.schema.names()).cast(dict(REWARDS.schema.items()))
