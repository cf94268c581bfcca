"""What each strategy earns under each rule, against its baseline in the same markets: the red team's table.

What must not go in: printing (``cli/redteam.py``) and drawing (``picture.py``).
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from affine_dagster.league.redteam.market import BURN, GAIN, GENESIS, Market, Miner, Played, digest_of
from affine_dagster.league.redteam.past import SAMPLES, rulings
from affine_dagster.league.redteam.strategies import RESEARCHERS, STRATEGIES, Skill, absent
from affine_dagster.reasons import AffineError
from affine_dagster.scoring.rules.protocol import Ruling
from affine_dagster.scoring.rules.replay import EARLIER_RULES
from affine_dagster.scoring.weights import TOTAL
from affine_dagster.tables import Table

__all__ = ["EARNINGS", "OURS", "SEAT", "Season", "earnings", "seasons", "strategies_named"]

OURS, SEAT = "frontier_credits", "seat"
BASELINES = {"absent": absent}
PEERS = (("ann", 1), ("bob", 3))
"""The honest miners beside the seat that a strategy plays, and the epochs of their first findings."""

LATE = 4
"""Findings of the last epochs may be crowned after the market's end: none is missed yet."""

EARNINGS = Table(
    "earnings",
    {
        "rule": pl.String, "strategy": pl.String, "against": pl.String, "markets": pl.Int64,
        "share": pl.Float64, "share_against": pl.Float64, "gain": pl.Float64, "gain_lower": pl.Float64, "gain_upper": pl.Float64,
        "cost": pl.Float64, "cost_lower": pl.Float64, "cost_upper": pl.Float64, "false_crowns": pl.Float64, "missed_crowns": pl.Float64,
        "tasks": pl.Float64,
    },
    key=("rule", "strategy"),
)
"""One row a rule and strategy, means over markets. ``share``: of all weights of a market, the seat's; ``against``: the baseline strategy;
``gain``: its share less the baseline's; ``cost``: what the honest peers lose by it; both with a 95 % interval over markets.
``false_crowns``, ``missed_crowns``: a market, of all miners' models; under a rule that crowns nobody whoever it pays. ``tasks``: rollouts a
market. Derived, never stored."""


Holding = tuple[str, str]
"""A hotkey and the weights digest of its model."""


@dataclass(frozen=True)
class Season:
    """One market under one rule. ``seat``, ``peers``: shares of all its weights. ``falsely``, ``missed``: crowns; ``tasks``: rollouts."""

    seed: int
    strategy: str
    rule: str
    seat: float = 0.0
    peers: float = 0.0
    falsely: int = 0
    missed: int = 0
    tasks: int = 0


def strategies_named(names: Sequence[str]) -> list[str]:
    """The strategies of those names; ``all`` is all of them. Raises ``bad_settings`` for an unknown one."""
    unknown = sorted(set(names) - {"all", *STRATEGIES})
    if unknown or not names:
        raise AffineError("bad_settings", f"strategies: {', '.join(unknown) or 'none'}; there are all, {', '.join(STRATEGIES)}")
    return [name for name in STRATEGIES if "all" in names or name in names]


def seasons(strategy: str, seed: int, epochs: int) -> list[Season]:
    """One market with this strategy in the seat, under all earlier rules and ours. Pure: the same arguments give the same seasons."""
    play = {**STRATEGIES, **BASELINES}[strategy]
    market = Market(seed, [*(Miner(name, STRATEGIES["honest"], offset) for name, offset in PEERS), Miner(SEAT, play, 2)])
    played = list(market.play(epochs))
    told = _Truth.of(market, played)
    books: dict[str, _Book] = defaultdict(_Book)
    for _, rule, ruling in rulings(list(EARLIER_RULES.values()), played, market.answers, market.models):
        books[rule].add(market, ruling)
    for one in played:
        books[OURS].pay(market, {hotkey: weight / TOTAL for hotkey, weight in one.weights.items()})
        books[OURS].crowned |= dict.fromkeys(one.accepted)
        books[OURS].tasks += one.tasks
    return [_season(Season(seed, strategy, rule), books[rule], told, epochs) for rule in (*EARLIER_RULES, OURS)]


@dataclass
class _Book:
    """What a rule did in one market.

    ``paid``: shares by seat, summed over epochs. ``crowned``, ``holders`` (whoever was paid at all): in order of time.
    """

    paid: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    crowned: dict[Holding, None] = field(default_factory=dict)
    holders: dict[Holding, None] = field(default_factory=dict)
    tasks: int = 0

    def add(self, market: Market, ruling: Ruling[Any]) -> None:
        """One ruling of an earlier rule."""
        present = {one.hotkey: one.weights_digest for one in ruling.placings}
        self.pay(market, {one.hotkey: one.share for one in ruling.placings})
        self.holders |= {(one.hotkey, one.weights_digest): None for one in ruling.placings if one.share > 0 and one.weights_digest}
        self.crowned |= {(hotkey, present[hotkey]): None for hotkey in ruling.crowned if present.get(hotkey)}
        self.tasks += SAMPLES * len(market.settings.evaluation.environments) * len({*present.values()} - {""})

    def pay(self, market: Market, shares: Mapping[str, float]) -> None:
        """One epoch's shares by hotkey."""
        for hotkey in sorted(shares):
            self.paid[BURN if hotkey == BURN else market.seat_of[hotkey]] += shares[hotkey]


def _season(bare: Season, book: _Book, told: _Truth, epochs: int) -> Season:
    crowned = book.crowned or book.holders  # a rule that crowns nobody pays the best, which is its crown
    peers = sum(book.paid[name] for name, _ in PEERS)
    return replace(
        bare, seat=book.paid[SEAT] / epochs, peers=peers / epochs, falsely=told.falsely(crowned),
        missed=len(told.deserving(epochs - LATE) - crowned.keys()), tasks=book.tasks,
    )


@dataclass(frozen=True)
class _Truth:
    """What latent skill says of who committed what.

    ``skill``: by weights digest. ``first``: by weights digest the hotkey that committed it first. ``better``: (epoch, holding) of models
    that are better than all earlier ones by most of a finding somewhere, and nowhere worse.
    """

    skill: Mapping[str, Skill]
    first: Mapping[str, str]
    better: tuple[tuple[int, Holding], ...]

    @classmethod
    def of(cls, market: Market, played: Iterable[Played]) -> _Truth:
        """The truth of a market that has been played."""
        skill, first = {digest_of(GENESIS.name): GENESIS.skill}, {digest_of(GENESIS.name): BURN}
        better = []
        for epoch, hotkey, digest in ((one.epoch, offer.hotkey, digest_of(offer.model.name)) for one in played for offer in one.offers):
            if digest not in skill:
                own = market.models[digest].skill
                gains = [one - max(column) for one, column in zip(own, zip(*skill.values(), strict=True), strict=True)]
                better += [(epoch, (hotkey, digest))] if max(gains) > 0.8 * GAIN and min(gains) >= 0 else []
                skill[digest], first[digest] = own, hotkey
        return cls(skill, first, tuple(better))

    def deserving(self, before: int) -> set[Holding]:
        """Those offered before an epoch that are better than all that was there."""
        return {holding for epoch, holding in self.better if epoch < before}

    def falsely(self, crowned: Iterable[Holding]) -> int:
        """How many of these, in the order in which they were crowned, are copies, or matched everywhere by an earlier one or genesis."""
        before, found = [GENESIS.skill], 0
        for hotkey, digest in crowned:
            own = self.skill[digest]
            matched = any(all(theirs >= mine for theirs, mine in zip(other, own, strict=True)) for other in before)
            found += hotkey != BURN and (matched or self.first[digest] != hotkey)
            before.append(own)
        return found


def earnings(
    strategies: Sequence[str], markets: int, epochs: int, progress: Callable[[str], None] = lambda _: None, seed: int = 0
) -> pl.DataFrame:
    """The EARNINGS of these strategies over ``markets`` markets with seeds ``seed``, ``seed`` + 1, ...: rules in the order of history."""
    needed = dict.fromkeys([*(against(name) for name in strategies), *strategies])
    made: dict[tuple[str, str], list[Season]] = defaultdict(list)
    for name in needed:
        for number in range(markets):
            for one in seasons(name, seed + number, epochs):
                made[one.rule, name].append(one)
        progress(name)
    rules = (*EARLIER_RULES, OURS)
    return EARNINGS.frame(row for rule in rules for row in _rows(rule, strategies, {name: made[rule, name] for name in needed}))


def against(strategy: str) -> str:
    """What a strategy is held against: an honest miner with the same research, or an empty seat."""
    return "honest" if strategy in RESEARCHERS else "absent"


def _rows(rule: str, strategies: Sequence[str], made: Mapping[str, Sequence[Season]]) -> Iterator[dict[str, Any]]:
    for name in strategies:
        own, base = made[name], made[against(name)]
        gain = _interval([one.seat - other.seat for one, other in zip(own, base, strict=True)])
        cost = _interval([other.peers - one.peers for one, other in zip(own, base, strict=True)])
        yield {
            "rule": rule, "strategy": name, "against": against(name), "markets": len(own),
            "share": statistics.fmean(one.seat for one in own), "share_against": statistics.fmean(one.seat for one in base),
            **dict(zip(("gain", "gain_lower", "gain_upper"), gain, strict=True)),
            **dict(zip(("cost", "cost_lower", "cost_upper"), cost, strict=True)),
            "false_crowns": statistics.fmean(one.falsely for one in own), "missed_crowns": statistics.fmean(one.missed for one in own),
            "tasks": statistics.fmean(one.tasks for one in own),
        }


def _interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval (normal; markets are independent). One value is its own interval."""
    mean = statistics.fmean(values)
    wide = 1.96 * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return mean, mean - wide, mean + wide
