"""What a league is between two epochs, and what does not change from one to the next.

Every array's last axis is the league. What must not go in: what an epoch does (``leagues.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from affine_dagster.league.simulation.draws import Array
from affine_dagster.league.simulation.tables import STEP, Bounds, PairCoins, log_factors
from affine_dagster.scoring.evidence import Stakes
from affine_dagster.settings import Settings

__all__ = [
    "CLASSES", "DRIP", "GENESIS", "GRIEFER", "LAUNDERER", "MINERS", "PACKER", "RETRIER", "SLOTS", "League", "Pair", "Rules", "begin",
    "rise",
]

CLASSES = ("honest", "drip_feeder", "packer", "seed_retrier", "griefer", "launderer")
"""As the strategies of ``redteam/strategies.py``; copies never run, and so are not simulated."""

HONEST, DRIP, PACKER, RETRIER, GRIEFER, LAUNDERER = range(len(CLASSES))

MINERS = np.repeat(np.arange(len(CLASSES)), (8, 4, 4, 14, 12, 8)).astype(np.int32)
"""The class of each of fifty miners."""

SLOTS = 4
"""Accepted models that a challenger meets: the newest."""

GENESIS = (80, 90, 100)
"""Skill in steps, an environment: .40, .45 and .50."""

Pair = tuple[Array, Array]


@dataclass(frozen=True)
class Rules:
    """What does not change: tables as arrays of one engine.

    ``once``: tells a compiler to compute a pair of arrays once for all who read it, which it otherwise may do for each of them.
    """

    engine: Any
    once: Callable[[Pair], Pair]
    miners: Array
    apart: Array
    ahead: Array
    right: Array
    factors: tuple[tuple[tuple[float, float, float], ...], ...]
    win: Array
    limit: Array
    lower: Array
    sure: Array
    decay: float
    not_worse: float
    futile: float
    margin: int
    tolerance: int
    max_epochs: int
    assay_tasks: int
    grid: int

    @classmethod
    def of(
        cls, settings: Settings, coins: PairCoins, bounds: Bounds, engine: Any, once: Callable[[Pair], Pair] = lambda pair: pair
    ) -> Rules:
        """For one engine: ``numpy`` or ``jax.numpy``."""
        scoring, evaluation = settings.scoring, settings.evaluation
        factors = log_factors(Stakes(scoring.margin, scoring.tolerance, scoring.gain, scoring.discordance))
        return cls(
            engine=engine, once=once, miners=engine.asarray(MINERS)[:, None],
            **{name: engine.asarray(getattr(coins, name).cells) for name in ("apart", "ahead", "right")},
            **{name: engine.asarray(getattr(bounds, name)) for name in ("win", "limit", "lower", "sure")},
            factors=tuple(tuple(tuple(bet) for bet in kind.tolist()) for kind in factors),
            decay=bounds.decay, not_worse=1 / scoring.alpha_not_worse, futile=scoring.futile_at, margin=round(STEP * scoring.margin),
            tolerance=round(STEP * scoring.tolerance), max_epochs=evaluation.max_epochs, assay_tasks=evaluation.assay_tasks,
            grid=scoring.grid,
        )


class League(NamedTuple):
    """The state after an epoch. Miners M, slots S, environments E, grid G, leagues B; skill in steps of 1/200.

    ``skill`` (M, E, B): the model in flight; ``flying`` (M, B); ``age`` (M, B): epochs it has run; ``number`` (M, B): which try of its
    owner's day it is, ``tries`` so far; ``met`` (M, B): whether the old rule's champion has met it; ``seen`` (M, B): whether the oracle has
    taken it. ``pending``, ``parts`` (M, B): a finding's environment, and how much of it is left to submit.
    ``won`` (M, S, B), ``wins``, ``losses`` (M, S, E, B), ``tasks`` (M, S, B): where each pair stands.
    ``member``, ``value`` (S, E, B), ``used`` (S, B), ``next_slot`` (B,): the newest accepted models and their v.
    ``best`` (E, B): published.
    ``heights`` (G, G, B), uint8: how high credit reaches; ``owed`` (M, B): decayed, in grid cells. The same as ``exact_``: of the same
    accepted models at their true skill; as ``true_``: of those that an oracle accepts.
    ``throne`` (E, B), ``king`` (B,): the old rule's champion and its miner, -1 for none. ``true_best`` (E, B): the oracle's.
    ``accepted``, ``false``, ``crowned``, ``false_crowned``, ``true_accepted`` (M, B): counts; ``share``, ``old_share``, ``true_share``
    (M, B): sums over epochs, and ``exact_share``; ``rollouts``, ``decided`` (B,): of challengers, an environment, and how many ended.
    """

    skill: Array
    flying: Array
    age: Array
    number: Array
    tries: Array
    met: Array
    seen: Array
    pending: Array
    parts: Array
    won: Array
    wins: Array
    losses: Array
    tasks: Array
    member: Array
    value: Array
    used: Array
    next_slot: Array
    best: Array
    heights: Array
    exact_heights: Array
    true_heights: Array
    owed: Array
    exact_owed: Array
    true_owed: Array
    throne: Array
    king: Array
    true_best: Array
    accepted: Array
    false: Array
    crowned: Array
    false_crowned: Array
    true_accepted: Array
    share: Array
    exact_share: Array
    old_share: Array
    true_share: Array
    rollouts: Array
    decided: Array


_SHAPES = {
    "M": ("flying", "met", "seen"), "S": ("used",), "MS": ("won",),
    "m": ("age", "number", "tries", "pending", "parts", "accepted", "false", "crowned", "false_crowned", "true_accepted"),
    "me": ("skill",), "ms": ("tasks",), "mse": ("wins", "losses"), "se": ("member", "value"), "e": ("throne", "best", "true_best"),
    "": ("next_slot", "king", "rollouts", "decided"),
    "w": ("owed", "exact_owed", "true_owed", "share", "exact_share", "old_share", "true_share"),
    "g": ("heights", "exact_heights", "true_heights"),
}
"""Fields by their axes before the league's: capitals are flags, small letters counts, ``w`` (M) is real, ``g`` (G, G) small counts."""


def begin(rules: Rules, leagues: int) -> League:
    """Genesis alone, everywhere."""
    xp, long = rules.engine, {"m": len(MINERS), "s": SLOTS, "e": len(GENESIS)}
    empty: dict[str, Array] = {}
    for axes, names in _SHAPES.items():
        shape = (rules.grid, rules.grid) if axes == "g" else tuple(long[axis] for axis in axes.lower().replace("w", "m"))
        kind = {"g": xp.uint8, "w": xp.float64}.get(axes, bool if axes.isupper() else xp.int32)
        empty |= {name: xp.zeros((*shape, leagues), dtype=kind) for name in names}
    genesis = empty["best"] + xp.asarray(GENESIS, dtype=xp.int32)[:, None]
    value = genesis * rules.grid // STEP
    heights = rise(rules, empty["heights"], value)
    first = (xp.arange(SLOTS) == 0)[:, None]
    return League(**empty)._replace(
        member=xp.where(first[:, None], genesis[None], empty["member"]), value=xp.where(first[:, None], value[None], empty["value"]),
        used=first | empty["used"], next_slot=empty["next_slot"] + 1, king=empty["king"] - 1, best=genesis, true_best=genesis,
        heights=heights, exact_heights=heights, true_heights=heights,
    )


def rise(rules: Rules, heights: Array, value: Array) -> Array:
    """By how much the box from 0 to a value (E, B), of three environments, is above the heights (G, G, B), uint8; a grid has 255 steps."""
    xp = rules.engine
    first, second, top = value.astype(xp.uint8)
    at = xp.arange(rules.grid, dtype=xp.uint8)
    depth = xp.where(at[None, :, None] < second, top, 0).astype(xp.uint8)
    depth = xp.where(at[:, None, None] < first, depth, 0).astype(xp.uint8)
    return xp.maximum(heights, depth) - heights
