"""What a simulated league looks up: distributions of counts, and bounds that the product's own functions give for every count.

Skill is a whole number of steps of 1/200, so that all there is to draw and to bound can be laid out before. What must not go in: how an
epoch goes (``leagues.py``).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from affine_dagster.league.simulation.draws import Coins, binomial_probabilities
from affine_dagster.scoring.bets import fixed_sample_size, try_alpha
from affine_dagster.scoring.counts import Counts
from affine_dagster.scoring.evidence import PARTS, Stakes, bets_of
from affine_dagster.scoring.histogram import STEPS
from affine_dagster.scoring.intervals import difference_intervals, reward_intervals
from affine_dagster.settings import EvaluationSettings, ScoringSettings, Settings

__all__ = [
    "APART", "ASSAY_LOOK", "DAY", "DISCORDANCES", "LOOK", "STEP", "WIDEST", "Bounds", "PairCoins", "bounds_of", "log_factors",
    "simulation_settings",
]

STEP = 200
"""Steps of skill in a reward of 1."""

LOOK = 200
"""Tasks of a pair that are drawn at once, an environment."""

APART = 128
"""More than two models answer otherwise of so many: at a discordance of .3 the chance of as many is under 1e-20."""

ASSAY_LOOK = 100
"""Tasks of one model that are drawn at once, an environment."""

WIDEST = 40
"""The largest gap between two skills that is drawn as it is, in steps: a larger one is decided at once all the same."""

DISCORDANCES = (0.3, 0.02)
"""How often two models answer otherwise: apart ones, and one beside a copy of it with a little noise."""

DAY = 20
"""Epochs a day."""

_BLOCKS_A_DAY = 7200
_ROUNDS = 12


def simulation_settings() -> Settings:
    """The red team's thresholds, looked at every 200 tasks of 2,400 at most; a share of alpha for each of fifty owners."""
    evaluation = EvaluationSettings(
        environments=("number_sorting", "spell_backward", "chain_sum"), batch_tasks=LOOK, tasks_per_epoch=LOOK, assay_tasks=10 * LOOK,
        max_tasks=12 * LOOK, max_epochs=12,
    )
    return Settings(evaluation=evaluation, scoring=ScoringSettings(margin=0.03, tolerance=0.1, gain=0.1, alpha_daily=0.05, owner_slots=50))


@dataclass(frozen=True)
class PairCoins:
    """How counts are distributed.

    ``apart``: how many of :data:`LOOK` tasks two models answer otherwise, a row a discordance. ``ahead``: of so many how many the
    challenger wins, row (gap + WIDEST) · APART + count. ``right``: right answers of :data:`ASSAY_LOOK`, a row a skill.
    """

    apart: Coins
    ahead: Coins
    right: Coins

    @classmethod
    @lru_cache(maxsize=1)
    def standard(cls) -> PairCoins:
        """The only ones there are."""
        counts, gaps = range(APART), range(-WIDEST, WIDEST + 1)
        chances = [(1 + gap / STEP / DISCORDANCES[0]) / 2 for gap in gaps]
        ahead = binomial_probabilities([count for _ in gaps for count in counts], [chance for chance in chances for _ in counts])
        return cls(
            Coins.of(binomial_probabilities([LOOK] * len(DISCORDANCES), DISCORDANCES)[:, :APART]), Coins.of(ahead),
            Coins.of(binomial_probabilities([ASSAY_LOOK] * (STEP + 1), [at / STEP for at in range(STEP + 1)])),
        )


def log_factors(stakes: Stakes) -> tuple[npt.NDArray[np.float64], ...]:
    """ln(1 + stake · sign · (d − centre)) at d = −1, 0, 1 of the bets of each of the four kinds, of shape (bets, 3) each."""
    stake, sign, centre = (np.array(one)[:, None] for one in bets_of(stakes))
    every = np.log1p(stake * sign * (np.array([[-1.0, 0.0, 1.0]]) - centre))
    return tuple(every[first:last] for first, last in itertools.pairwise(PARTS))


@dataclass(frozen=True)
class Bounds:
    """What is fixed before a league begins.

    ``win``: log-thresholds of an owner's j-th try of a day, as e-values 1/alpha; ``limit``: tasks after which that try expires.
    ``lower``: by right answers of an assay, v in grid steps. ``sure``: by the tasks that a member lost to a reference, how many it must win
    for a sure gain. ``decay``: of a credit, an epoch.
    """

    win: npt.NDArray[np.float64]
    limit: npt.NDArray[np.int32]
    lower: npt.NDArray[np.int32]
    sure: npt.NDArray[np.int32]
    decay: float


def bounds_of(settings: Settings, tries: int = DAY) -> Bounds:
    """From the product's settings and by the product's functions."""
    scoring, tasks = settings.scoring, settings.evaluation.assay_tasks
    alphas = [try_alpha(scoring, number) for number in range(1, tries + 1)]
    limits = [
        min(settings.evaluation.max_tasks, 2 * fixed_sample_size(scoring.margin, scoring.gain, scoring.discordance, alpha))
        for alpha in alphas
    ]
    right = np.arange(tasks + 1)
    found = reward_intervals(_counted([(0, tasks - right), (STEPS, right)], tasks + 1), scoring.assay_alpha)
    lower = [math.floor(scoring.grid * one) for one in found.lower.tolist()]
    decay = 2.0 ** (-(_BLOCKS_A_DAY / DAY) / scoring.half_life_blocks)
    return Bounds(
        np.array([1 / alpha for alpha in alphas]), np.array(limits, dtype=np.int32), np.array(lower, dtype=np.int32),
        _sure(tasks, scoring.assay_alpha), decay,
    )


def _sure(tasks: int, alpha: float) -> npt.NDArray[np.int32]:
    """By bisection on what the product says: the lower end rises with every task that is won instead of tied."""
    lost = np.arange(tasks + 1)
    low, high = np.zeros(tasks + 1, dtype=np.int64), tasks - lost + 1
    for _ in range(_ROUNDS):
        middle = (low + high) // 2
        counts = _counted([(-STEPS, lost), (0, np.maximum(tasks - lost - middle, 0)), (STEPS, middle)], tasks + 1)
        positive = difference_intervals(counts, alpha).lower > 0
        low, high = np.where(positive, low, np.minimum(middle + 1, high)), np.where(positive, middle, high)
    return high.astype(np.int32)


def _counted(columns: list[tuple[int, npt.NDArray[np.int64]]], height: int) -> Counts:
    """Histograms from the count of each value, a row an entry."""
    rows = np.repeat(np.arange(height), len(columns))
    bins = np.tile([value for value, _ in columns], height)
    counts = np.stack([count for _, count in columns], axis=1).reshape(-1)
    some = counts > 0
    return Counts(rows[some], bins[some], counts[some].astype(np.int64), np.zeros(height, dtype=np.int64))
