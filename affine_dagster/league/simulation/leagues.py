"""One epoch of many leagues at once, as pure array code: what is submitted, what is decided, what is owed.

Every array's last axis is the league, so that one line works on all of them. The same code runs under NumPy and JAX: nothing is written in
place, and nothing is drawn but by place (``draws.py``). What must not go in: tables (``tables.py``), engines and figures (``run.py``).

A model of the rule, not the rule. Each miner has one model in flight; it meets the newest four accepted models, 200 tasks an epoch, on
answers that are drawn a pair (a task's own noise is not kept between pairs); at most one model enters an epoch, the one in flight longest;
its assay is over at once. Evidence, alpha, thresholds, assay bounds and credits are the product's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from affine_dagster.league.simulation.draws import Array, choose, threefry
from affine_dagster.league.simulation.tables import DAY, LOOK, STEP, WIDEST, Bounds, PairCoins, log_factors
from affine_dagster.scoring.evidence import Stakes
from affine_dagster.settings import Settings

__all__ = ["CLASSES", "MINERS", "SLOTS", "League", "Rules", "begin", "next_epoch"]

CLASSES = ("honest", "drip_feeder", "packer", "seed_retrier", "griefer", "launderer")
"""As the strategies of ``redteam/strategies.py``; copies never run, and so are not simulated."""

HONEST, DRIP, PACKER, RETRIER, GRIEFER, LAUNDERER = range(len(CLASSES))

MINERS = np.repeat(np.arange(len(CLASSES)), (8, 4, 4, 14, 12, 8)).astype(np.int32)
"""The class of each of fifty miners."""

SLOTS = 4
GENESIS = (80, 90, 100)
FIND = 30
"""Steps of skill that research finds in one environment: .15."""

FIND_CHANCE = round(2**32 / 60)
HIGHEST = 190
_GAP, _TRIFLE = 8, 4
_DOMINANT, _TOLERANCE = 0.03, 0.02
"""The subnet's rule of May 2026: above the champion by so much somewhere, and at least 98 % of it everywhere."""

PAIRS, CHAMPION, RESEARCH, ASSAY, PAIRED_ASSAY = range(5)
"""Purposes of draws."""


@dataclass(frozen=True)
class Rules:
    """What does not change: tables as arrays of one engine."""

    engine: Any
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
    looks: int
    assay_looks: int
    grid: int

    @classmethod
    def of(cls, settings: Settings, coins: PairCoins, bounds: Bounds, engine: Any) -> Rules:
        """For one engine: ``numpy`` or ``jax.numpy``."""
        scoring, evaluation = settings.scoring, settings.evaluation
        factors = log_factors(Stakes(scoring.margin, scoring.tolerance, scoring.gain, scoring.discordance))
        return cls(
            engine=engine, miners=engine.asarray(MINERS)[:, None],
            **{name: engine.asarray(getattr(coins, name).cells) for name in ("apart", "ahead", "right")},
            **{name: engine.asarray(getattr(bounds, name)) for name in ("win", "limit", "lower", "sure")},
            factors=tuple(tuple(tuple(bet) for bet in kind.tolist()) for kind in factors),
            decay=bounds.decay, not_worse=1 / scoring.alpha_not_worse, futile=scoring.futile_at, margin=round(STEP * scoring.margin),
            tolerance=round(STEP * scoring.tolerance), max_epochs=evaluation.max_epochs, looks=evaluation.tasks_per_epoch // LOOK,
            assay_looks=evaluation.assay_tasks // LOOK, grid=scoring.grid,
        )


class League(NamedTuple):
    """The state after an epoch. Miners M, slots S, environments E, grid G, leagues B; skill in steps of 1/200.

    ``skill`` (M, E, B): the model in flight; ``flying`` (M, B); ``age`` (M, B): epochs it has run; ``number`` (M, B): which try of its
    owner's day it is, ``tries`` so far; ``met`` (M, B): whether the old rule's champion has met it; ``seen`` (M, B): whether the oracle has
    taken it. ``pending``, ``parts`` (M, B): a finding's environment, and how much of it is left to submit.
    ``won`` (M, S, B), ``wins``, ``losses`` (M, S, E, B), ``tasks`` (M, S, B): where each pair stands.
    ``member``, ``value`` (S, E, B), ``used`` (S, B), ``next_slot`` (B,): the newest accepted models and their v. ``best`` (E, B): published.
    ``heights``, ``true_heights`` (G, G, B): how high credit reaches. ``owed``, ``true_owed`` (M, B): decayed, in grid cells.
    ``throne`` (E, B), ``king`` (B,): the old rule's champion and its miner, -1 for none. ``true_best`` (E, B): the oracle's.
    ``accepted``, ``false``, ``crowned``, ``false_crowned``, ``true_accepted`` (M, B): counts; ``share``, ``old_share``, ``true_share``
    (M, B): sums over epochs; ``rollouts``, ``decided`` (B,): of challengers, an environment, and how many ended.
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
    true_heights: Array
    owed: Array
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
    old_share: Array
    true_share: Array
    rollouts: Array
    decided: Array


def begin(rules: Rules, leagues: int) -> League:
    """Genesis alone, everywhere."""
    np_, m, s, e, g = rules.engine, len(MINERS), SLOTS, len(GENESIS), rules.grid
    flags, counts = (lambda *shape: np_.zeros((*shape, leagues), dtype=bool)), (lambda *shape: np_.zeros((*shape, leagues), dtype=np_.int32))
    reals = lambda *shape: np_.zeros((*shape, leagues), dtype=np_.float64)  # noqa: E731
    genesis = counts(e) + np_.asarray(GENESIS, dtype=np_.int32)[:, None]
    first = (np_.arange(s) == 0)[:, None]
    value = genesis * g // STEP
    heights = _box(rules, counts(g, g), value)
    return League(
        skill=counts(m, e), flying=flags(m), age=counts(m), number=counts(m), tries=counts(m), met=flags(m), seen=flags(m),
        pending=counts(m), parts=counts(m), won=flags(m, s), wins=counts(m, s, e), losses=counts(m, s, e), tasks=counts(m, s),
        member=np_.where(first[:, None], genesis[None], counts(s, e)), value=np_.where(first[:, None], value[None], counts(s, e)),
        used=first | flags(s), next_slot=counts() + 1, best=genesis, heights=heights, true_heights=heights, owed=reals(m),
        true_owed=reals(m), throne=counts(e), king=counts() - 1, true_best=genesis, accepted=counts(m), false=counts(m), crowned=counts(m),
        false_crowned=counts(m), true_accepted=counts(m), share=reals(m), old_share=reals(m), true_share=reals(m),
        rollouts=counts(), decided=counts(),
    )


def next_epoch(rules: Rules, state: League, epoch: Array, key: tuple[Array, Array]) -> League:
    """The state after one more epoch. ``key``: uint32, the seed and, of shape (B,), the number of each league."""
    state = _submitted(rules, state, epoch, key)
    state = _old_rule(rules, state, epoch, key)
    state = _oracle(rules, state)
    state = _evaluated(rules, state, epoch, key)
    won, lost = _verdicts(rules, state)
    state = _accepted(rules, state, won, epoch, key)
    ended = state.flying & lost
    shares = [_shares(rules, owed) for owed in (state.owed * rules.decay, state.true_owed * rules.decay)]
    return state._replace(
        flying=state.flying & ~lost, decided=state.decided + ended.sum(axis=0).astype(rules.engine.int32),
        owed=state.owed * rules.decay, true_owed=state.true_owed * rules.decay, share=state.share + shares[0],
        true_share=state.true_share + shares[1], old_share=state.old_share + _first(rules, state.king),
    )


def _words(rules: Rules, epoch: Array, key: tuple[Array, Array], purpose: int, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Two words for each place of a shape, and each league."""
    np_ = rules.engine
    place = np_.arange(int(np.prod(shape)), dtype=np_.uint32).reshape(*shape, 1)
    return threefry(np_, key, ((epoch * 8 + purpose).astype(np_.uint32), place))


def _pick(rules: Rules, chosen: Array, values: Array) -> Array:
    """Of values (M, ..., B) those of the one chosen miner (M, B); 0 where none is."""
    wide = chosen.reshape(chosen.shape[0], *(1,) * (values.ndim - 2), chosen.shape[-1])
    return rules.engine.where(wide, values, 0).sum(axis=0).astype(values.dtype)


def _first(rules: Rules, place: Array) -> Array:
    """(M, B): whether a miner is the one at ``place`` (B,)."""
    return rules.engine.arange(len(MINERS))[:, None] == place[None]


# --- submissions --------------------------------------------------------------------------------------------------------------


def _submitted(rules: Rules, state: League, epoch: Array, key: tuple[Array, Array]) -> League:
    """Research finds; whoever has nothing in flight submits what its strategy makes."""
    np_, kind = rules.engine, rules.miners
    dice, where = _words(rules, epoch, key, RESEARCH, (len(MINERS),))
    found = (dice < np_.uint32(FIND_CHANCE)) & (kind <= PACKER) & (state.parts == 0)
    pending = np_.where(found, ((where >> np_.uint32(16)) * np_.uint32(len(GENESIS)) >> np_.uint32(16)).astype(np_.int32), state.pending)
    parts = np_.where(found, np_.where(kind == DRIP, 3, 1), state.parts).astype(np_.int32)
    new = ~state.flying & ((parts > 0) | (kind >= RETRIER))
    own = np_.arange(len(GENESIS))[None, :, None] == pending[:, None]
    wide = kind[:, None]
    gain = np_.where(wide == DRIP, FIND // 3, FIND)
    shift = np_.where(own, gain, np_.where(wide == PACKER, -_GAP, 0))
    shift = np_.where(wide >= RETRIER, np_.where(wide == GRIEFER, -_TRIFLE, 0), shift)
    made = np_.clip(state.best[None] + shift, 1, HIGHEST).astype(np_.int32)
    tries = np_.where(epoch % DAY == 0, 0, state.tries) + new
    fresh = new[:, None]
    return state._replace(
        skill=np_.where(fresh, made, state.skill), flying=state.flying | new, age=np_.where(new, 0, state.age),
        number=np_.where(new, tries, state.number).astype(np_.int32), tries=tries.astype(np_.int32), met=state.met & ~new,
        seen=state.seen & ~new, pending=pending, parts=(parts - (new & (kind <= PACKER))).astype(np_.int32), won=state.won & ~fresh,
        wins=np_.where(fresh[..., None, :], 0, state.wins), losses=np_.where(fresh[..., None, :], 0, state.losses),
        tasks=np_.where(fresh, 0, state.tasks),
    )


# --- evidence -----------------------------------------------------------------------------------------------------------------


def _evaluated(rules: Rules, state: League, epoch: Array, key: tuple[Array, Array]) -> League:
    """Every model in flight against every member, so many looks more."""
    np_ = rules.engine
    gap = state.skill[:, None] - state.member[None]
    wins, losses = _drawn(rules, gap, (rules.miners == LAUNDERER)[:, None, None], _words(rules, epoch, key, PAIRS, _pair_shape(rules)))
    runs = (state.flying[:, None] & state.used[None])[:, :, None]
    added = rules.looks * LOOK
    return state._replace(
        wins=state.wins + np_.where(runs, wins, 0), losses=state.losses + np_.where(runs, losses, 0),
        tasks=state.tasks + np_.where(runs[:, :, 0], added, 0).astype(np_.int32), age=state.age + state.flying,
        rollouts=state.rollouts + (state.flying.sum(axis=0) * added).astype(np_.int32),
    )


def _pair_shape(rules: Rules) -> tuple[int, ...]:
    return rules.looks, len(MINERS), SLOTS, len(GENESIS)


def _drawn(rules: Rules, gap: Array, near: Array, words: tuple[Array, Array]) -> tuple[Array, Array]:
    """Tasks won and lost over the looks of the words' first axis, by gap in steps; ``near``: of pairs that answer nearly alike."""
    np_ = rules.engine
    row = (np_.clip(gap, -WIDEST, WIDEST) + WIDEST) * (LOOK + 1)
    kind = np_.where(near & (gap == 0), 1, 0).astype(np_.int32)
    wins = losses = np_.zeros_like(gap)
    for look in range(words[0].shape[0]):
        apart = choose(np_, rules.apart, kind, words[0][look])
        ahead = choose(np_, rules.ahead, (row + apart).astype(np_.int32), words[1][look])
        wins, losses = wins + ahead, losses + apart - ahead
    return wins, losses


def _verdicts(rules: Rules, state: League) -> tuple[Array, Array]:
    """(M, B) each: won against every member, or out: lost against one, or expired. A pair that was won stays so."""
    np_ = rules.engine
    ties = state.tasks[:, :, None] - state.wins - state.losses
    win, not_worse, futile, regressed = (_wealth(np_, kind, state.wins, ties, state.losses) for kind in rules.factors)
    threshold = np_.take(rules.win, np_.maximum(state.number, 1) - 1)[:, None]
    partial = 0.5 * win.mean(axis=2) + 0.5 * ((1 + win) / 2).prod(axis=2)
    won = state.won | ((partial >= threshold) & (not_worse.min(axis=2) >= rules.not_worse))
    lost = (regressed.max(axis=2) >= rules.not_worse) | (futile.min(axis=2) >= rules.futile)
    out = (lost & ~won & state.used[None]).any(axis=1)
    over = (state.tasks.max(axis=1) >= np_.take(rules.limit, np_.maximum(state.number, 1) - 1)) | (state.age >= rules.max_epochs)
    through = (won | ~state.used[None]).all(axis=1) & state.flying
    return through, out | (over & ~through)


def _wealth(engine: Any, bets: tuple[tuple[float, float, float], ...], wins: Array, ties: Array, losses: Array) -> Array:
    """mean_k exp(wins · ln f(1) + ties · ln f(0) + losses · ln f(−1)): the e-value of one kind, entry by entry."""
    total = 0.0
    for lost, tied, won in bets:
        total = total + engine.exp(wins * won + ties * tied + losses * lost)
    return total / len(bets)


# --- acceptance and credits ---------------------------------------------------------------------------------------------------


def _foremost(rules: Rules, wanted: Array, age: Array) -> Array:
    """(M, B): the one of the wanted that has been in flight longest, of those the first miner; none where none is wanted."""
    np_, count = rules.engine, len(MINERS)
    order = np_.where(wanted, age * count + (count - 1 - np_.arange(count)[:, None]), -1)
    return wanted & _first(rules, order.argmax(axis=0))


def _accepted(rules: Rules, state: League, won: Array, epoch: Array, key: tuple[Array, Array]) -> League:
    """One winner becomes a member, is measured, and is owed what it adds."""
    np_ = rules.engine
    chosen = _foremost(rules, won, state.age)
    entered, skill = chosen.any(axis=0), _pick(rules, chosen, state.skill)
    value = _assayed(rules, state, skill, epoch, key)
    heights = np_.where(entered, _box(rules, state.heights, value), state.heights)
    credit = (heights - state.heights).sum(axis=(0, 1))
    slot = (np_.arange(SLOTS)[:, None] == state.next_slot[None]) & entered
    matched = (state.used & (skill[None] <= state.member).all(axis=1)).any(axis=0)
    new, cleared = slot[:, None], slot[None]
    count = chosen.astype(np_.int32)
    return state._replace(
        member=np_.where(new, skill[None], state.member), value=np_.where(new, value[None], state.value), used=state.used | slot,
        next_slot=((state.next_slot + entered) % SLOTS).astype(np_.int32), best=np_.where(entered, np_.maximum(state.best, skill), state.best),
        heights=heights, owed=state.owed + np_.where(chosen, credit[None], 0), flying=state.flying & ~chosen,
        won=state.won & ~cleared, wins=np_.where(cleared[:, :, None], 0, state.wins), losses=np_.where(cleared[:, :, None], 0, state.losses),
        tasks=np_.where(cleared, 0, state.tasks), accepted=state.accepted + count, false=state.false + count * matched,
        decided=state.decided + entered,
    )


def _assayed(rules: Rules, state: League, skill: Array, epoch: Array, key: tuple[Array, Array]) -> Array:
    """v (E, B) in grid steps: the lower bound of an assay, held to a member's v where there is no sure gain over it."""
    np_, looks = rules.engine, rules.assay_looks
    words, _ = _words(rules, epoch, key, ASSAY, (looks, len(GENESIS)))
    right = sum(choose(np_, rules.right, skill, words[look]) for look in range(looks))
    value = np_.take(rules.lower, right)
    paired = _words(rules, epoch, key, PAIRED_ASSAY, (looks, SLOTS, len(GENESIS)))
    wins, losses = _drawn(rules, skill[None] - state.member, np_.zeros_like(state.member, dtype=bool), paired)
    held = state.used[:, None] & (wins < np_.take(rules.sure, losses)) & (state.value < value[None])
    return np_.where(held, state.value, value[None]).min(axis=0)


def _box(rules: Rules, heights: Array, value: Array) -> Array:
    """The heights with the box from 0 to a value (E, B) in them, which has three environments."""
    np_ = rules.engine
    at = np_.arange(rules.grid)
    inside = (at[:, None, None] < value[0]) & (at[None, :, None] < value[1])
    return np_.maximum(heights, np_.where(inside, value[2], 0))


def _shares(rules: Rules, owed: Array) -> Array:
    """(M, B): each one's part of what is owed; 0 where nothing is."""
    total = owed.sum(axis=0)
    return owed / rules.engine.where(total > 0, total, 1.0)


# --- beside it ----------------------------------------------------------------------------------------------------------------


def _old_rule(rules: Rules, state: League, epoch: Array, key: tuple[Array, Array]) -> League:
    """The subnet's rule of May 2026 on the same submissions: means of 200 tasks beside the champion's, one meeting each."""
    np_ = rules.engine
    gap = state.skill - state.throne[None]
    words = _words(rules, epoch, key, CHAMPION, (rules.looks, len(MINERS), len(GENESIS)))
    wins, losses = _drawn(rules, gap, (rules.miners == LAUNDERER)[:, None], words)
    ahead = (wins - losses) / (rules.looks * LOOK)
    reigns = state.king[None] >= 0
    dominant = (ahead > _DOMINANT).any(axis=1)
    worse = (ahead < -_TOLERANCE * state.throne[None] / STEP).any(axis=1)
    meets = state.flying & ~state.met
    chosen = _foremost(rules, meets & ((dominant & ~worse) | ~reigns), state.age)
    entered, skill = chosen.any(axis=0), _pick(rules, chosen, state.skill)
    matched = (skill <= state.throne).all(axis=0) & (state.king >= 0)
    king = _pick(rules, chosen, np_.arange(len(MINERS), dtype=np_.int32)[:, None] + np_.zeros_like(state.age))
    count = chosen.astype(np_.int32)
    return state._replace(
        throne=np_.where(entered, skill, state.throne), king=np_.where(entered, king, state.king), met=state.met | meets,
        crowned=state.crowned + count, false_crowned=state.false_crowned + count * matched,
    )


def _oracle(rules: Rules, state: League) -> League:
    """Who would be accepted and owed what, were skill known: at once, and at its full value."""
    np_ = rules.engine
    ahead = state.skill - state.true_best[None]
    better = (ahead > rules.margin).any(axis=1) & (ahead >= -rules.tolerance).all(axis=1) & state.flying & ~state.seen
    chosen = _foremost(rules, better, state.age)
    entered, skill = chosen.any(axis=0), _pick(rules, chosen, state.skill)
    heights = np_.where(entered, _box(rules, state.true_heights, skill * rules.grid // STEP), state.true_heights)
    credit = (heights - state.true_heights).sum(axis=(0, 1))
    return state._replace(
        true_heights=heights, true_owed=state.true_owed + np_.where(chosen, credit[None], 0), seen=state.seen | chosen,
        true_best=np_.where(entered, np_.maximum(state.true_best, skill), state.true_best), true_accepted=state.true_accepted + chosen,
    )
