"""Our rule in a replay is the rule that keeps the books: the same contests, members, credits and weights, epoch for epoch."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl
import pytest

from affine_dagster.scoring.frontier import Member, members_of
from affine_dagster.scoring.rule import EpochInputs, FrontierCredits, fold
from affine_dagster.scoring.rules.frontier_credits import FrontierCreditsReplay
from affine_dagster.scoring.rules.matrix import Entrant, TaskMatrix
from affine_dagster.scoring.rules.protocol import Round
from affine_dagster.scoring.weights import TOTAL


def round_of(inputs: EpochInputs) -> Round:
    def unread() -> TaskMatrix:
        raise AssertionError("the rule reads no matrix")

    entrants = tuple(
        Entrant(one.hotkey, one.weights_digest, one.block or 0, at)
        for at, one in enumerate(inputs.models.values()) if one.hotkey is not None
    )
    return Round(inputs, entrants, "sink", 300, unread)


def plain(members: Any) -> list[Member]:
    """Without what a table adds: the epoch, the one before and the word."""
    return [dataclasses.replace(one, epoch=0, prior_epoch=None, reason="") for one in members]


@pytest.fixture(params=["as it was", "with an epoch withheld", "with an owner that left"])
def played(request: Any, season: Any) -> tuple[list[EpochInputs], Any]:
    inputs = list(season.inputs)
    if request.param == "with an epoch withheld":
        inputs[1] = dataclasses.replace(inputs[1], withheld=True)
    if request.param == "with an owner that left":
        inputs[3:] = [dataclasses.replace(one, registered=frozenset({"burn", "hot-specialist"})) for one in inputs[3:]]
    return inputs, season.rules


def test_each_epoch_gives_the_same_contests_members_credits_and_weights(make: Any, played: tuple[list[EpochInputs], Any]) -> None:
    inputs, settings = played
    rule = FrontierCreditsReplay(settings)
    state = rule.begin()
    for one, outcome in zip(inputs, fold(FrontierCredits(), inputs, settings, make.NOTHING), strict=True):
        ruling = rule.advance(state, round_of(one))
        state = ruling.state
        known = state.contests.before(one.epoch + 1)
        for row in outcome.contests.filter(pl.col("reason") != "breaker_open").iter_rows(named=True):
            found = known.contest((row["challenger"], row["incumbent"]))
            assert {name: row[name] for name in ("state", "reason", "strict", "tasks", "epochs", "alpha", "discordance")} == {
                name: getattr(found, name) for name in ("state", "reason", "strict", "tasks", "epochs", "alpha", "discordance")
            }
        assert plain(state.members) == plain(members_of(outcome.frontier))
        units = [str(held) for member, held in zip(state.members or (), state.units, strict=True) if not member.genesis]
        assert units == outcome.credits["credit_units"].to_list()
        weights = {who.hotkey: round(who.share * TOTAL) for who in ruling.placings if who.share}
        assert weights == dict(outcome.weights.filter(pl.col("weight") > 0).select("hotkey", "weight").iter_rows())
        accepted = outcome.frontier.filter((pl.col("accepted_epoch") == one.epoch) & ~pl.col("genesis"))
        assert sorted(ruling.crowned) == sorted(accepted["hotkey"])


def test_the_same_epoch_again_from_the_same_state_gives_the_same(season: Any) -> None:
    rule = FrontierCreditsReplay(season.rules)
    state = rule.begin()
    for one in season.inputs:
        first, again = rule.advance(state, round_of(one)), rule.advance(state, round_of(one))
        assert first.placings == again.placings
        assert first.crowned == again.crowned
        state = first.state
