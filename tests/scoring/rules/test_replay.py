"""Replaying history under an earlier rule: who takes part, what still counts, and rows that people can add up."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.models import Origin
from affine_dagster.scoring.rule import EpochInputs
from affine_dagster.scoring.rules.champion_challenger import ChampionChallenger
from affine_dagster.scoring.rules.matrix import Entrant
from affine_dagster.scoring.rules.replay import EARLIER_RULES, PastEpoch, present_entrants, replay, rules_named
from affine_dagster.scoring.rules.subset_winners import SubsetWinners
from affine_dagster.scoring.weights import TOTAL
from affine_dagster.settings import Settings
from affine_dagster.tables import FINGERPRINTS, NEURONS, PLAN, REWARDS

ADA, BOB = Entrant("ada", "a", 5, 0), Entrant("bob", "b", 6, 1)


def ran(epoch: int, digest: str, rewards: list[float]) -> list[dict[str, Any]]:
    return [
        {
            "epoch": epoch, "environment": "sort", "environment_version": "1", "purpose": "contest", "task_epoch": epoch, "index": index,
            "seed": index, "weights_digest": digest, "reward": reward, "fault": None, "reason": None, "completion_tokens": 1,
        } for index, reward in enumerate(rewards)
    ]


def past(epoch: int, skill: dict[str, float], tasks: int = 20, *entrants: Entrant) -> PastEpoch:
    rows = [row for digest, mean in skill.items() for row in ran(epoch, digest, [mean] * tasks)]
    return PastEpoch(inputs_of(epoch, rows), entrants or (ADA, BOB), "zero")


def inputs_of(epoch: int, rows: list[dict[str, Any]]) -> EpochInputs:
    rewards = REWARDS.frame(rows)
    return EpochInputs(epoch, 100 * epoch, PLAN.empty(), rewards, REWARDS.empty(), {}, ["ada", "bob", "burn"], "burn")


def weights(frame: pl.DataFrame) -> dict[str, int]:
    return dict(frame.select("hotkey", "weight").iter_rows())


@pytest.mark.parametrize("rule", rules_named(["all"], Settings()), ids=lambda rule: rule.name)
def test_each_epoch_has_a_row_a_hotkey_and_weights_that_sum_to_the_total_or_to_nothing(rule: Any) -> None:
    season = [past(1, {"a": 0.5}), past(2, {"a": 0.5, "b": 0.75}), past(3, {})]
    frames = list(replay([rule], season, ["sort"], 20))
    assert [frame["epoch"].unique().to_list() for frame in frames] == [[1], [2], [3]]
    assert all({"ada", "bob"} <= set(frame["hotkey"]) for frame in frames)
    assert all(frame["weight"].sum() in (0, TOTAL) for frame in frames)


def test_results_count_as_long_as_the_rules_window_reaches_back() -> None:
    season = [past(1, {"a": 0.5}), past(2, {"b": 0.5}), past(3, {})]
    for blocks, counted in ((0, [1, 1, 0]), (150, [1, 2, 1]), (None, [1, 2, 2])):
        rule = SubsetWinners(least=20, window_blocks=blocks)
        frames = list(replay([rule], season, ["sort"], 20))
        assert [frame.filter(pl.col("coverage") == 1).height for frame in frames] == counted


def test_the_state_of_a_rule_goes_on_from_epoch_to_epoch() -> None:
    season = [past(1, {"a": 0.5}), past(2, {"a": 0.5, "b": 0.75}), past(3, {"a": 1.0, "b": 0.75})]
    frames = list(replay([ChampionChallenger(window_blocks=0)], season, ["sort"], 17))
    assert [weights(frame) for frame in frames] == [{"ada": TOTAL, "bob": 0}, {"ada": 0, "bob": TOTAL}, {"ada": 0, "bob": TOTAL}]
    assert [frame.filter("crowned")["hotkey"].to_list() for frame in frames] == [["ada"], ["bob"], []]


def test_where_the_ledger_lacks_results_it_is_said_how_many_there_are() -> None:
    rows = ran(1, "a", [0.5] * 20) + ran(1, "b", [1.0] * 10)
    one = PastEpoch(inputs_of(1, rows), (ADA, BOB), "zero")
    (frame,) = replay([SubsetWinners(least=20)], [one], ["sort"], 20)
    assert frame.filter(pl.col("hotkey") == "bob").select("reason", "coverage").rows() == [("not_decidable", 0.5)]


def printed(hotkey: str | None, digest: str, block: int, index: int = 0) -> dict[str, Any]:
    row = dict.fromkeys(FINGERPRINTS.columns)
    return row | {
        "epoch": 1, "submission_id": f"{hotkey}-{block}-{index}", "hotkey": hotkey, "block": block, "extrinsic_index": index,
        "genesis": hotkey is None, "weights_digest": digest,
    }


def neurons(*hotkeys: str) -> pl.DataFrame:
    return NEURONS.frame(dict.fromkeys(NEURONS.columns) | {"epoch": 1, "uid": uid, "hotkey": name} for uid, name in enumerate(hotkeys))


def origins(**digests: str) -> dict[str, Origin]:
    return {one: Origin(one, other, f"s-{one}", f"h-{one}", "r", "v", 1, 0, genesis=False) for one, other in digests.items()}


def test_each_registered_hotkey_takes_part_with_what_it_committed_last() -> None:
    prints = FINGERPRINTS.frame(
        [printed("ada", "old", 5), printed("ada", "new", 9), printed("bob", "b", 7), printed("gone", "g", 1), printed(None, "base", -1)]
    )
    found = present_entrants(prints, origins(old="old", new="new", b="b", g="g", base="base"), neurons("zero", "bob", "ada"))
    assert found == (Entrant("bob", "b", 7, 1), Entrant("ada", "new", 9, 2))


def test_a_copy_takes_part_with_the_results_of_its_origin() -> None:
    prints = FINGERPRINTS.frame([printed("ada", "a", 5), printed("eve", "renamed", 6), printed("cy", "unsettled", 7)])
    found = present_entrants(prints, origins(a="a", renamed="a"), neurons("ada", "eve", "cy"))
    assert [one.weights_digest for one in found] == ["a", "a", "unsettled"]


def test_rules_are_named_and_an_unknown_one_is_refused() -> None:
    settings = Settings()
    assert [rule.name for rule in rules_named(["all"], settings)] == [*EARLIER_RULES, "frontier_credits"]
    assert [rule.name for rule in rules_named(["four_stage", "dense_rank"], settings)] == ["dense_rank", "four_stage"]
    for names in (["best"], []):
        with pytest.raises(AffineError, match="bad_settings"):
            rules_named(names, settings)


def test_rules_side_by_side_are_what_they_are_alone() -> None:
    rules, season = rules_named(["all"], Settings()), [past(1, {"a": 0.5}), past(2, {"a": 0.5, "b": 0.75})]
    together = pl.concat(replay(rules, season, ["sort"], 20))
    for rule in rules:
        assert together.filter(pl.col("rule") == rule.name).equals(pl.concat(replay([rule], season, ["sort"], 20)))
