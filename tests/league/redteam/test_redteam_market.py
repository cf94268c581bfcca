"""What simulated miners get out of the real kinship, plan and rule: honest play is paid, the others earn and cost exactly nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import pytest

from affine_dagster.league.redteam.earnings import EARNINGS, OURS, Season, earnings, seasons, strategies_named
from affine_dagster.league.redteam.market import BURN, GENESIS, Market, Miner, digest_of
from affine_dagster.league.redteam.past import rulings
from affine_dagster.league.redteam.strategies import STRATEGIES, Offer, Scene, absent
from affine_dagster.reasons import AffineError
from affine_dagster.scoring.rules.replay import EARLIER_RULES
from affine_dagster.scoring.weights import TOTAL

EPOCHS = 8
SEED = 11
WITHOUT_RESEARCH = ("copier", "launderer", "front_runner", "seed_retrier", "overfitter", "griefer")


@cache
def _seasons(strategy: str) -> Mapping[str, Season]:
    return {one.rule: one for one in seasons(strategy, SEED, EPOCHS)}


def _scene(**changes: object) -> Scene:
    fixed = {"seat": "me", "epoch": 4, "best": (GENESIS,), "offered": (), "gain": (0.15, 0.0, 0.15), "since": 0, "start": GENESIS.skill}
    return Scene(**(fixed | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", WITHOUT_RESEARCH)
def test_who_improves_nothing_earns_nothing_and_takes_nothing_from_anybody(strategy: str) -> None:
    played, alone = _seasons(strategy)[OURS], _seasons("absent")[OURS]
    assert (played.seat, played.peers) == (0.0, alone.peers)


def test_a_sybil_earns_exactly_what_one_hotkey_does() -> None:
    sybil, honest = _seasons("sybil")[OURS], _seasons("honest")[OURS]
    assert (sybil.seat, sybil.peers) == (honest.seat, honest.peers)


@pytest.mark.parametrize("strategy", ["drip_feeder", "fault_inducer"])
def test_holding_an_improvement_back_or_hiding_what_is_wrong_earns_less_than_showing_it(strategy: str) -> None:
    assert _seasons(strategy)[OURS].seat < _seasons("honest")[OURS].seat


def test_honest_play_is_paid() -> None:
    honest = _seasons("honest")[OURS]
    assert honest.seat > 0.1
    assert honest.falsely == 0


def test_the_table_can_tell_a_rule_that_copies_rob() -> None:
    assert _seasons("copier")["elo_ladder"].seat > 0.1


def test_every_rule_is_in_the_table() -> None:
    frame = EARNINGS.check(earnings(["copier"], 1, 2))
    assert frame["rule"].to_list() == [*EARLIER_RULES, OURS]


def test_the_same_seed_gives_the_same_table() -> None:
    assert earnings(["griefer"], 1, 3).equals(earnings(["griefer"], 1, 3))


def test_a_markets_weights_are_whole_in_every_epoch() -> None:
    market = Market(SEED, [Miner("ann", STRATEGIES["honest"], 0)])
    played = list(market.play(4))
    assert [sum(one.weights.values()) for one in played] == [TOTAL] * 4
    assert played[0].weights == {BURN: TOTAL}


def test_the_earlier_rules_see_a_copy_with_its_originals_results() -> None:
    market = Market(SEED, [Miner("ann", STRATEGIES["honest"], 0), Miner("thief", STRATEGIES["front_runner"], 0)])
    played = list(market.play(1))
    [(_, _, ruling)] = list(rulings([EARLIER_RULES["elo_ladder"]], played, market.answers, market.models))
    assert {one.weights_digest for one in ruling.placings if one.hotkey != BURN} == {digest_of("ann-0-better")}


def test_an_unknown_strategy_is_named() -> None:
    with pytest.raises(AffineError, match="burglar"):
        strategies_named(["burglar"])


# --- strategies ---------------------------------------------------------------------------------------------------------------


def test_an_honest_miner_submits_an_improvement_once() -> None:
    assert [one.model.skill for one in STRATEGIES["honest"](_scene())] == [(0.55, 0.45, 0.65)]
    assert STRATEGIES["honest"](_scene(since=1)) == []


def test_a_splitter_divides_an_improvement_by_environment() -> None:
    assert [one.model.skill for one in STRATEGIES["splitter"](_scene())] == [(0.55, 0.45, 0.5), (0.4, 0.45, 0.65)]


def test_a_drip_feeder_has_shown_everything_after_three_epochs() -> None:
    shown = [[one.model.skill for one in STRATEGIES["drip_feeder"](_scene(since=since))] for since in range(4)]
    assert shown[2] == [pytest.approx((0.55, 0.45, 0.65))]
    assert shown[3] == []


def test_a_packer_packs_one_specialist_an_environment() -> None:
    skills = [one.model.skill for one in STRATEGIES["packer"](_scene())]
    assert skills == [pytest.approx(skill) for skill in [(0.55, 0.41, 0.46), (0.36, 0.47, 0.46), (0.36, 0.41, 0.65)]]


def _weights(offers: Sequence[Offer]) -> set[str]:
    return {one.model.name for one in offers}


def test_sybils_share_weights_and_nothing_else() -> None:
    offers = STRATEGIES["sybil"](_scene())
    assert (len(offers), len(_weights(offers)), len({one.coldkey for one in offers})) == (4, 1, 4)


def test_an_empty_seat_submits_nothing() -> None:
    assert absent(_scene()) == []
