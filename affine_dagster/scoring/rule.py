"""Rules: a rule turns an epoch's frames and its own prior state into evidence, frontier, credits and weights.

``frontier_credits`` is ours, composed of this room's functions; the subnet's earlier rules join it behind the same protocol.
What must not go in: reading or writing tables: a rule is a function of frames and settings alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from affine_dagster.scoring.contest import ContestState
from affine_dagster.scoring.credits import epoch_credits
from affine_dagster.scoring.frontier import Now, advance_frontier
from affine_dagster.scoring.models import Origin
from affine_dagster.scoring.pairs import EpochEvidence, epoch_evidence
from affine_dagster.scoring.scores import epoch_scores
from affine_dagster.scoring.weights import weight_vector
from affine_dagster.settings import Settings

__all__ = ["EpochInputs", "FrontierCredits", "Outcome", "PriorState", "Rule", "counted_evidence", "counted_frontier", "fold"]


@dataclass(frozen=True)
class EpochInputs:
    """What a rule reads of one epoch.

    ``plan``: PLAN rows of the epoch. ``rewards``: REWARDS rows of the epoch. ``assays``: REWARDS of open assays, of all epochs in
    which they ran (rows of the epoch itself may be among them). ``models``: by weights digest the origins as known in the epoch.
    ``registered``: hotkeys at the boundary block. ``withheld``: many different models failed alike (the breaker), so the epoch's tasks
    count for nobody and against nobody, then and later.
    """

    epoch: int
    boundary_block: int
    plan: pl.DataFrame
    rewards: pl.DataFrame
    assays: pl.DataFrame
    models: Mapping[str, Origin]
    registered: Collection[str]
    burn_hotkey: str
    withheld: bool = False


@dataclass(frozen=True)
class PriorState:
    """What a rule knows of earlier epochs: EVIDENCE and CONTESTS (the newest row of a pair counts), FRONTIER of the newest epoch."""

    evidence: pl.DataFrame
    contests: pl.DataFrame
    frontier: pl.DataFrame | None


@dataclass(frozen=True)
class Outcome:
    """The epoch's rows of each scored table."""

    evidence: pl.DataFrame
    contests: pl.DataFrame
    scores: pl.DataFrame
    frontier: pl.DataFrame
    credits: pl.DataFrame
    weights: pl.DataFrame


class Rule(Protocol):
    """A scoring rule. ``version`` counts changes of results under the same name."""

    @property
    def name(self) -> str:
        """The name that weights are kept under."""

    @property
    def version(self) -> int:
        """Counts changes of the rule's results."""

    def advance(self, prior: PriorState, inputs: EpochInputs, settings: Settings) -> Outcome:
        """The outcome of an epoch. Pure: the same frames give the same bytes."""


@dataclass(frozen=True)
class FrontierCredits:
    """Chronological marginal hypervolume over sequentially tested models (DESIGN section 4)."""

    name: str = "frontier_credits"
    version: int = 1

    def advance(self, prior: PriorState, inputs: EpochInputs, settings: Settings) -> Outcome:
        """Evidence, then frontier, credits and weights of one epoch."""
        epoch, block = inputs.epoch, inputs.boundary_block
        pairs = counted_evidence(prior, inputs, settings)
        frontier = counted_frontier(prior.frontier, pairs.contests, inputs, settings)
        credit = epoch_credits(frontier, inputs.registered, epoch=epoch, boundary_block=block, scoring=settings.scoring)
        weights = weight_vector(
            credit, inputs.registered, inputs.burn_hotkey, epoch=epoch, width=len(settings.evaluation.environments),
            scoring=settings.scoring, rule=self.name,
        )
        return Outcome(pairs.evidence, pairs.contests, epoch_scores(inputs.rewards, settings, epoch), frontier, credit, weights)


def counted_evidence(prior: PriorState, inputs: EpochInputs, settings: Settings) -> EpochEvidence:
    """The epoch's evidence and verdicts. While it is withheld, those that stood before, with the reason why there is no new one."""
    rewards = inputs.rewards.clear() if inputs.withheld else inputs.rewards
    made = epoch_evidence(inputs.plan, rewards, prior.evidence, prior.contests, settings, inputs.epoch)
    if not inputs.withheld:
        return made
    undecided = pl.col("state") == ContestState.UNDECIDED
    reason = pl.when(undecided).then(pl.lit("breaker_open")).otherwise("reason")
    return EpochEvidence(made.evidence, made.contests.with_columns(reason=reason))


def counted_frontier(prior: pl.DataFrame | None, contests: pl.DataFrame, inputs: EpochInputs, settings: Settings) -> pl.DataFrame:
    """The epoch's frontier. While it is withheld nobody is accepted and no assay is looked at."""
    now = Now(inputs.epoch, inputs.boundary_block, settings, inputs.withheld)
    return advance_frontier(prior, contests, inputs.plan, inputs.models, inputs.assays, now)


def fold(rule: Rule, epochs: Iterable[EpochInputs], settings: Settings, prior: PriorState) -> Iterator[Outcome]:
    """The outcomes of consecutive epochs, each from the one before: the full fold that re-scoring is."""
    for inputs in epochs:
        outcome = rule.advance(prior, inputs, settings)
        yield outcome
        prior = PriorState(
            pl.concat([prior.evidence, outcome.evidence]), pl.concat([prior.contests, outcome.contests]), outcome.frontier
        )
