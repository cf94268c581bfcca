"""What thousands of leagues say: a row a strategy, and how far what was paid lies from what would be with skill known.

What must not go in: how a league is played.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from affine_dagster.league.simulation.state import CLASSES, MINERS, League

__all__ = ["Mean", "Outcome", "StrategyOutcome", "outcome_of"]

Floats = npt.NDArray[np.float64]

_Z = NormalDist().inv_cdf(0.975)
_SHARES = ("share", "old_share", "exact_share", "true_share")
_COUNTS = ("accepted", "false", "crowned", "false_crowned", "true_accepted")


@dataclass(frozen=True)
class Mean:
    """A mean over leagues with its 95 % interval (normal)."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Floats) -> Mean:
        """Of one value a league."""
        mean, half = float(values.mean()), _Z * float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else 0.0
        return cls(mean, mean - half, mean + half)


@dataclass(frozen=True)
class StrategyOutcome:
    """All miners of one strategy together.

    ``share``: of all weights; ``old``: under the subnet's rule of May 2026; ``exact``: were the accepted models measured without error;
    ``oracle``: were skill known. ``accepted``, ``false``: models a league that entered, and those of them that a member matched
    everywhere; ``crowned``, ``false_crowned``: under the old rule; ``deserving``: that the oracle accepts.
    """

    strategy: str
    share: Mean
    old: Mean
    exact: Mean
    oracle: Mean
    accepted: Mean
    false: Mean
    crowned: Mean
    false_crowned: Mean
    deserving: Mean


@dataclass(frozen=True)
class Outcome:
    """All leagues together.

    ``distance``: total variation between the shares that were paid and those of the same accepted models without error;
    ``oracle_distance``, ``old_distance``: from the oracle's, of ours and of the old rule's. ``false``, ``false_crowned``: models a league,
    and ``falsely``: leagues that have one under our rule. ``tasks``: rollouts of challengers an environment, a decision.
    """

    leagues: int
    strategies: Sequence[StrategyOutcome]
    distance: Mean
    oracle_distance: Mean
    old_distance: Mean
    false: Mean
    false_crowned: Mean
    falsely: int
    tasks: Mean


def outcome_of(states: Iterable[League], epochs: int) -> Outcome:
    """From the last states of some leagues, batch by batch."""
    batches = list(states)
    every = {name: np.concatenate([getattr(one, name) for one in batches], axis=-1).astype(np.float64) for name in (*_SHARES, *_COUNTS)}
    rollouts, decided = (np.concatenate([getattr(one, name) for one in batches]) for name in ("rollouts", "decided"))
    paid = {name: _normalised(every[name]) for name in _SHARES}
    strategies = []
    for kind, name in enumerate(CLASSES):
        mine = kind == MINERS
        shares = (Mean.of(every[column][mine].sum(axis=0) / epochs) for column in _SHARES)
        strategies.append(StrategyOutcome(name, *shares, *(Mean.of(every[column][mine].sum(axis=0)) for column in _COUNTS)))
    return Outcome(
        leagues=rollouts.size, strategies=strategies, distance=_apart(paid["share"], paid["exact_share"]),
        oracle_distance=_apart(paid["share"], paid["true_share"]), old_distance=_apart(paid["old_share"], paid["true_share"]),
        false=Mean.of(every["false"].sum(axis=0)), false_crowned=Mean.of(every["false_crowned"].sum(axis=0)),
        falsely=int((every["false"].sum(axis=0) > 0).sum()), tasks=Mean.of(rollouts / np.maximum(decided, 1)),
    )


def _normalised(shares: Floats) -> Floats:
    total = shares.sum(axis=0)
    return shares / np.where(total > 0, total, 1.0)


def _apart(first: Floats, second: Floats) -> Mean:
    return Mean.of(np.abs(first - second).sum(axis=0) / 2)
