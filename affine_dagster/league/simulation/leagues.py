"""One epoch of many leagues at once, as pure array code: what is submitted, what is decided, what is owed.

The same code runs under NumPy and JAX: nothing is written in place, and nothing is drawn but by place (``draws.py``). What must not go in:
tables (``tables.py``), the state (``state.py``), engines and figures (``run.py``).

A model of the rule, not the rule. Each miner has one model in flight; it meets the newest four accepted models, 200 tasks an epoch, on
answers that are drawn a pair (a task's own noise is not kept between pairs); at most one model enters an epoch, the one in flight longest;
its assay is over at once. Evidence, alpha, thresholds, assay bounds and credits are the product's.
"""

from __future__ import annotations

import numpy as np

from affine_dagster.league.simulation.contests import seen_in
from affine_dagster.league.simulation.draws import Array, choose, threefry
from affine_dagster.league.simulation.state import (
    DRIP,
    GENESIS,
    GRIEFER,
    LAUNDERER,
    MINERS,
    PACKER,
    RETRIER,
    SLOTS,
    League,
    Pair,
    Rules,
    rise,
)
from affine_dagster.league.simulation.tables import APART, ASSAY_LOOK, DAY, LOOK, STEP, WIDEST

__all__ = ["next_epoch", "verdicts"]

FIND = 30
"""Steps of skill that research finds in one environment: .15."""

FIND_CHANCE = round(2**32 / 60)
"""That a miner with research finds something in an epoch, in words."""

HIGHEST = 190
_GAP, _TRIFLE = 8, 4
_DOMINANT, _TOLERANCE = 0.03, 0.02
"""The subnet's rule of May 2026: above the champion by so much somewhere, and at least 98 % of it everywhere."""

PAIRS, CHAMPION, RESEARCH, ASSAY, PAIRED_ASSAY = range(5)
"""Purposes of draws."""


def next_epoch(rules: Rules, state: League, epoch: Array, key: Pair) -> League:
    """The state after one more epoch. ``key``: uint32, the seed and, of shape (B,), the number of each league."""
    state = _submitted(rules, state, epoch, key)
    state = _old_rule(rules, state, epoch, key)
    state = _oracle(rules, state)
    state = _evaluated(rules, state, epoch, key)
    won, lost = verdicts(rules, state)
    state = _accepted(rules, state, won, epoch, key)
    ended = state.flying & lost
    owed, exact, true = (one * rules.decay for one in (state.owed, state.exact_owed, state.true_owed))
    return state._replace(
        flying=state.flying & ~lost, decided=state.decided + ended.sum(axis=0).astype(rules.engine.int32),
        owed=owed, exact_owed=exact, true_owed=true, share=state.share + _shares(rules, owed),
        exact_share=state.exact_share + _shares(rules, exact), true_share=state.true_share + _shares(rules, true),
        old_share=state.old_share + _first(rules, state.king),
    )


def _words(rules: Rules, epoch: Array, key: Pair, purpose: int, shape: tuple[int, ...]) -> Pair:
    """Two words for each place of a shape, and each league."""
    xp = rules.engine
    place = xp.arange(int(np.prod(shape)), dtype=xp.uint32).reshape(*shape, 1)
    return rules.once(threefry(xp, key, ((epoch * 8 + purpose).astype(xp.uint32), place)))


def _pick(rules: Rules, chosen: Array, values: Array) -> Array:
    """Of values (M, ..., B) those of the one chosen miner (M, B); 0 where none is."""
    wide = chosen.reshape(chosen.shape[0], *(1,) * (values.ndim - 2), chosen.shape[-1])
    return rules.engine.where(wide, values, 0).sum(axis=0).astype(values.dtype)


def _first(rules: Rules, place: Array) -> Array:
    """(M, B): whether a miner is the one at ``place`` (B,)."""
    return rules.engine.arange(len(MINERS))[:, None] == place[None]


# --- submissions --------------------------------------------------------------------------------------------------------------


def _submitted(rules: Rules, state: League, epoch: Array, key: Pair) -> League:
    """Research finds; whoever has nothing in flight submits what its strategy makes."""
    xp, kind = rules.engine, rules.miners
    dice, where = _words(rules, epoch, key, RESEARCH, (len(MINERS),))
    found = (dice < xp.uint32(FIND_CHANCE)) & (kind <= PACKER) & (state.parts == 0)
    pending = xp.where(found, ((where >> xp.uint32(16)) * xp.uint32(len(GENESIS)) >> xp.uint32(16)).astype(xp.int32), state.pending)
    parts = xp.where(found, xp.where(kind == DRIP, 3, 1), state.parts).astype(xp.int32)
    new = ~state.flying & ((parts > 0) | (kind >= RETRIER))
    own = xp.arange(len(GENESIS))[None, :, None] == pending[:, None]
    wide = kind[:, None]
    gain = xp.where(wide == DRIP, FIND // 3, FIND)
    shift = xp.where(own, gain, xp.where(wide == PACKER, -_GAP, 0))
    shift = xp.where(wide >= RETRIER, xp.where(wide == GRIEFER, -_TRIFLE, 0), shift)
    made = xp.clip(state.best[None] + shift, 1, HIGHEST).astype(xp.int32)
    tries = xp.where(epoch % DAY == 0, 0, state.tries) + new
    fresh = new[:, None]
    return state._replace(
        skill=xp.where(fresh, made, state.skill), flying=state.flying | new, age=xp.where(new, 0, state.age),
        number=xp.where(new, tries, state.number).astype(xp.int32), tries=tries.astype(xp.int32), met=state.met & ~new,
        seen=state.seen & ~new, pending=pending, parts=(parts - (new & (kind <= PACKER))).astype(xp.int32), won=state.won & ~fresh,
        wins=xp.where(fresh[..., None, :], 0, state.wins), losses=xp.where(fresh[..., None, :], 0, state.losses),
        tasks=xp.where(fresh, 0, state.tasks),
    )


# --- evidence -----------------------------------------------------------------------------------------------------------------


def _evaluated(rules: Rules, state: League, epoch: Array, key: Pair) -> League:
    """Every model in flight against every member, one look more."""
    xp = rules.engine
    gap = state.skill[:, None] - state.member[None]
    wins, losses = _drawn(rules, gap, (rules.miners == LAUNDERER)[:, None, None], _words(rules, epoch, key, PAIRS, (1, *gap.shape[:3])))
    runs = (state.flying[:, None] & state.used[None])[:, :, None]
    return state._replace(
        wins=state.wins + xp.where(runs, wins, 0), losses=state.losses + xp.where(runs, losses, 0),
        tasks=state.tasks + xp.where(runs[:, :, 0], LOOK, 0).astype(xp.int32), age=state.age + state.flying,
        rollouts=state.rollouts + (state.flying.sum(axis=0) * LOOK).astype(xp.int32),
    )


def _drawn(rules: Rules, gap: Array, near: Array, words: Pair) -> Pair:
    """Tasks won and lost over the looks of the words' first axis, by gap in steps; ``near``: of pairs that answer nearly alike."""
    xp = rules.engine
    row = (xp.clip(gap, -WIDEST, WIDEST) + WIDEST) * APART
    kind = xp.where(near & (gap == 0), 1, 0).astype(xp.int32)
    wins = losses = xp.zeros_like(gap)
    for look in range(words[0].shape[0]):
        apart = choose(xp, rules.apart, kind, words[0][look])
        ahead = choose(xp, rules.ahead, (row + apart).astype(xp.int32), words[1][look])
        wins, losses = wins + ahead, losses + apart - ahead
    return rules.once((wins, losses))


def verdicts(rules: Rules, state: League) -> Pair:
    """(M, B) each: won against every member, or out: lost against one, or expired. A pair that was won stays so."""
    xp = rules.engine
    ties = state.tasks[:, :, None] - state.wins - state.losses
    seen = seen_in(xp, rules.factors, state.wins, ties, state.losses, axis=2)
    threshold = xp.take(rules.win, xp.maximum(state.number, 1) - 1)[:, None]
    won = state.won | seen.wins(threshold, rules.not_worse)
    lost = seen.loses(rules.not_worse, rules.futile)
    out = (lost & ~won & state.used[None]).any(axis=1)
    over = (state.tasks.max(axis=1) >= xp.take(rules.limit, xp.maximum(state.number, 1) - 1)) | (state.age >= rules.max_epochs)
    through = (won | ~state.used[None]).all(axis=1) & state.flying
    return through, out | (over & ~through)


# --- acceptance and credits ---------------------------------------------------------------------------------------------------


def _foremost(rules: Rules, wanted: Array, age: Array) -> Array:
    """(M, B): the one of the wanted that has been in flight longest, of those the first miner; none where none is wanted."""
    xp, count = rules.engine, len(MINERS)
    order = xp.where(wanted, age * count + (count - 1 - xp.arange(count)[:, None]), -1)
    return wanted & _first(rules, order.argmax(axis=0))


def _accepted(rules: Rules, state: League, won: Array, epoch: Array, key: Pair) -> League:
    """One winner becomes a member, is measured, and is owed what it adds."""
    xp = rules.engine
    chosen = _foremost(rules, won, state.age)
    entered, skill = chosen.any(axis=0), _pick(rules, chosen, state.skill)
    value = _assayed(rules, state, skill, epoch, key)
    gained = rise(rules, state.heights, xp.where(entered, value, 0))
    exact = rise(rules, state.exact_heights, xp.where(entered, skill * rules.grid // STEP, 0))
    slot = (xp.arange(SLOTS)[:, None] == state.next_slot[None]) & entered
    matched = (state.used & (skill[None] <= state.member).all(axis=1)).any(axis=0)
    new, cleared = slot[:, None], slot[None]
    count = chosen.astype(xp.int32)
    return state._replace(
        member=xp.where(new, skill[None], state.member), value=xp.where(new, value[None], state.value), used=state.used | slot,
        next_slot=((state.next_slot + entered) % SLOTS).astype(xp.int32),
        best=xp.where(entered, xp.maximum(state.best, skill), state.best),
        heights=state.heights + gained, owed=state.owed + _credit(rules, chosen, gained), exact_heights=state.exact_heights + exact,
        exact_owed=state.exact_owed + _credit(rules, chosen, exact), flying=state.flying & ~chosen,
        won=state.won & ~cleared, wins=xp.where(cleared[:, :, None], 0, state.wins),
        losses=xp.where(cleared[:, :, None], 0, state.losses), tasks=xp.where(cleared, 0, state.tasks),
        accepted=state.accepted + count, false=state.false + count * matched, decided=state.decided + entered,
    )


def _assayed(rules: Rules, state: League, skill: Array, epoch: Array, key: Pair) -> Array:
    """The v (E, B) in grid steps: the lower bound of an assay, held to a member's v where there is no sure gain over it."""
    xp, looks, pair_looks = rules.engine, rules.assay_tasks // ASSAY_LOOK, rules.assay_tasks // LOOK
    words, _ = _words(rules, epoch, key, ASSAY, (looks, len(GENESIS)))
    right = sum(choose(xp, rules.right, skill, words[look]) for look in range(looks))
    value = xp.take(rules.lower, right)
    paired = _words(rules, epoch, key, PAIRED_ASSAY, (pair_looks, SLOTS, len(GENESIS)))
    wins, losses = _drawn(rules, skill[None] - state.member, xp.zeros_like(state.member, dtype=bool), paired)
    held = state.used[:, None] & (wins < xp.take(rules.sure, losses)) & (state.value < value[None])
    return xp.where(held, state.value, value[None]).min(axis=0)


def _credit(rules: Rules, chosen: Array, rise: Array) -> Array:
    """(M, B): the volume of a rise to whom it is due."""
    return rules.engine.where(chosen, rise.sum(axis=(0, 1), dtype=rules.engine.int32)[None], 0)


def _shares(rules: Rules, owed: Array) -> Array:
    """(M, B): each one's part of what is owed; 0 where nothing is."""
    total = owed.sum(axis=0)
    return owed / rules.engine.where(total > 0, total, 1.0)


# --- beside it ----------------------------------------------------------------------------------------------------------------


def _old_rule(rules: Rules, state: League, epoch: Array, key: Pair) -> League:
    """The subnet's rule of May 2026 on the same submissions: means of 200 tasks beside the champion's, one meeting each."""
    xp = rules.engine
    gap = state.skill - state.throne[None]
    words = _words(rules, epoch, key, CHAMPION, (1, len(MINERS), len(GENESIS)))
    wins, losses = _drawn(rules, gap, (rules.miners == LAUNDERER)[:, None], words)
    ahead = (wins - losses) / LOOK
    reigns = state.king[None] >= 0
    dominant = (ahead > _DOMINANT).any(axis=1)
    worse = (ahead < -_TOLERANCE * state.throne[None] / STEP).any(axis=1)
    meets = state.flying & ~state.met
    chosen = _foremost(rules, meets & ((dominant & ~worse) | ~reigns), state.age)
    entered, skill = chosen.any(axis=0), _pick(rules, chosen, state.skill)
    matched = (skill <= state.throne).all(axis=0) & (state.king >= 0)
    king = _pick(rules, chosen, xp.arange(len(MINERS), dtype=xp.int32)[:, None] + xp.zeros_like(state.age))
    count = chosen.astype(xp.int32)
    return state._replace(
        throne=xp.where(entered, skill, state.throne), king=xp.where(entered, king, state.king), met=state.met | meets,
        crowned=state.crowned + count, false_crowned=state.false_crowned + count * matched,
    )


def _oracle(rules: Rules, state: League) -> League:
    """Who would be accepted and owed what, were skill known: at once, and at its full value."""
    xp = rules.engine
    ahead = state.skill - state.true_best[None]
    better = (ahead > rules.margin).any(axis=1) & (ahead >= -rules.tolerance).all(axis=1) & state.flying & ~state.seen
    chosen = _foremost(rules, better, state.age)
    entered, skill = chosen.any(axis=0), _pick(rules, chosen, state.skill)
    gained = rise(rules, state.true_heights, xp.where(entered, skill * rules.grid // STEP, 0))
    return state._replace(
        true_heights=state.true_heights + gained, true_owed=state.true_owed + _credit(rules, chosen, gained), seen=state.seen | chosen,
        true_best=xp.where(entered, xp.maximum(state.true_best, skill), state.true_best), true_accepted=state.true_accepted + chosen,
    )
