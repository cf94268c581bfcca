"""The worked numbers of the subnet's earlier rules (the project's rules of history; each beside the rule that it is of)."""

from __future__ import annotations

from typing import Any

import pytest

from affine_dagster.scoring.rules.arithmetic import geometric_mean, power
from affine_dagster.scoring.rules.champion_challenger import ChampionChallenger, complete_at, pool_size
from affine_dagster.scoring.rules.checkpoints import Checkpoints, margin_at
from affine_dagster.scoring.rules.dominance import Criteria, compare
from affine_dagster.scoring.rules.elo_ladder import EloLadder, after_absence, factor, gain
from affine_dagster.scoring.rules.four_stage import FourStage, threshold
from affine_dagster.scoring.rules.matrix import Common
from affine_dagster.scoring.rules.ranks import DenseRank, Supermajority, dense_ranks
from affine_dagster.scoring.rules.subset_winners import SubsetWinners


def shares(rule: Any, given: Any, state: Any = None) -> dict[str, float]:
    ruling = rule.advance(rule.begin() if state is None else state, given)
    return {one.hotkey: round(one.share, 6) for one in ruling.placings}


# --- subset_winners -----------------------------------------------------------------------------------------------------------


def test_subset_winners_gives_a_five_points_and_b_one(rounds: Any) -> None:
    given = rounds({"B": (0.5, 0.5), "A": (0.6, 0.5)})
    for rule in (SubsetWinners(), SubsetWinners(as_deployed=False)):
        assert shares(rule, given) == {"B": 0.166667, "A": 0.833333}


def test_subset_winners_asks_for_150_results_and_a_hundredth_of_the_most(rounds: Any) -> None:
    rule = SubsetWinners()
    assert shares(rule, rounds({"A": (0.5,), "B": (0.9,)}, {"A": 1000, "B": 159})) == {"A": 1.0, "B": 0.0}
    assert shares(rule, rounds({"A": (0.5,), "B": (0.9,)}, {"A": 1000, "B": 160})) == {"A": 0.0, "B": 1.0}


def test_subset_winners_lets_two_dominate_each_other(rounds: Any) -> None:
    """A defect that is part of the rule: (.51, .50) and (.50, .51) at 1,000 tasks."""
    given = rounds({"A": (0.51, 0.5), "B": (0.5, 0.51)})
    told = {one.hotkey: one.detail for one in SubsetWinners().advance(None, given).placings}
    assert told == {"A": "5 of 6 points", "B": "1 of 6 points"}  # on both environments they are even, and the earlier is first


# --- four_stage ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "tasks", "least"), [(0.5, 100, 0.575), (0.5, 50, 0.6), (0.9, 100, 0.945), (0.5, 0, 0.6), (0.99, 0, 1.0)])
def test_four_stage_thresholds(mean: float, tasks: int, least: float) -> None:
    assert threshold(mean, tasks) == pytest.approx(least)


def test_four_stage_weights(rounds: Any) -> None:
    assert shares(FourStage(), rounds({"A": (0.5, 0.5), "C": (0.6, 0.5)}, 100)) == {"A": 0.375584, "C": 0.624416}


def test_four_stage_puts_a_copy_out(rounds: Any) -> None:
    assert shares(FourStage(), rounds({"A": (0.5, 0.5), "copy": (0.5, 0.5)}, 100)) == {"A": 1.0, "copy": 0.0}


def test_four_stage_leaves_what_is_incomplete_out(rounds: Any) -> None:
    assert shares(FourStage(), rounds({"A": (0.5,), "B": (0.9,)}, {"A": 100, "B": 89})) == {"A": 1.0, "B": 0.0}


def test_four_stage_gives_to_uid_0_what_is_under_a_hundredth(rounds: Any) -> None:
    many = {f"m{at}": tuple(0.5 + 0.4 * (place == at) for place in range(9)) for at in range(9)}
    given = rounds(many, 100, sink="m0")
    made = shares(FourStage(layers=1), given)
    assert sum(made.values()) == pytest.approx(1.0, abs=1e-5)
    assert {share for name, share in made.items() if name != "m0" and 0 < share < 0.01} == set()


# --- elo_ladder ---------------------------------------------------------------------------------------------------------------


def test_elo_of_two_equal_ratings_moves_by_48() -> None:
    assert gain(1200.0, 0, [(1200.0, 1.0)]) == 48.0
    assert gain(1200.0, 0, [(1200.0, 0.0)]) == -48.0
    assert gain(1200.0, 0, [(1200.0, 0.5)]) == 0.0


@pytest.mark.parametrize(("rounds_played", "k"), [(0, 96.0), (12, 80.0), (48, 32.0), (1000, 32.0)])
def test_elo_k_falls_in_a_line(rounds_played: int, k: float) -> None:
    assert factor(rounds_played) == k


def test_elo_fades_with_absence() -> None:
    assert after_absence(1300.0, 1) == pytest.approx(1295.0)
    assert after_absence(1300.0, 2) == pytest.approx(1200 + 100 * 0.95 ** (2**1.4))
    assert after_absence(1200.0, 5) == 1200.0


def test_elo_shares_halve_with_each_place(rounds: Any) -> None:
    assert shares(EloLadder(), rounds({"A": (0.5,), "B": (0.9,), "C": (0.1,)})) == {"A": 0.285714, "B": 0.571429, "C": 0.142857}


# --- champion_challenger ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "pool"), [(100, 111), (200, 221), (300, 330)])
def test_a_pool_is_a_tenth_more_in_floating_point(count: int, pool: int) -> None:
    assert pool_size(count) == pool


def test_a_pool_is_complete_at_95_hundredths() -> None:
    assert complete_at(200) == 210


def on(first: float, second: float, tasks: int = 300) -> Common:
    return Common(tasks, first, second)


@pytest.mark.parametrize(
    ("common", "criteria", "reason"),
    [
        ([on(0.5, 0.54), on(0.5, 0.495)], Criteria(), "dominant_in_1_of_2_envs"),
        ([on(0.5, 0.53), on(0.5, 0.5)], Criteria(), "insufficient_dominant_envs:0<1"),
        ([on(0.5, 0.6), on(0.5, 0.48)], Criteria(), "regressed_in_env:e1:regressed_beyond_tolerance"),
        ([on(0.5, 0.6), on(0.5, 0.9, 5)], Criteria(min_tasks=10), "regressed_in_env:e1:insufficient_challenger_samples"),
        ([on(0.5, 0.6), on(0.5, 0.6)], Criteria(min_dominant=0), "all_envs_dominant"),
        ([on(0.5, 0.6), on(0.5, 0.5)], Criteria(min_dominant=0), "not_all_envs_dominant"),
        ([on(-0.05, 0.06), on(0.5, 0.5)], Criteria(additive={"e0"}), "dominant_in_1_of_2_envs"),
        ([on(0.0, 0.04), on(0.05, -0.04)], Criteria(additive={"e1"}), "dominant_in_1_of_2_envs"),
        ([], Criteria(), "no_envs_configured"),
    ],
)
def test_a_comparison_gives_the_rules_own_word(common: list[Common], criteria: Criteria, reason: str) -> None:
    made = compare([f"e{at}" for at in range(len(common))], common, criteria)
    assert made.reason == reason
    assert made.wins == reason.startswith(("dominant_in", "all_envs"))


def reign(rule: Any, *given: Any) -> list[Any]:
    state, made = rule.begin(), []
    for one in given:
        ruling = rule.advance(state, one)
        state = ruling.state
        made.append(ruling)
    return made


def test_a_champion_falls_to_who_is_better_by_the_margin_and_a_loser_is_out_for_good(rounds: Any) -> None:
    first, second, third = reign(
        ChampionChallenger(),
        rounds({"A": (0.5, 0.5)}, 106, count=100),
        rounds({"A": (0.5, 0.5), "B": (0.52, 0.5), "C": (0.54, 0.5)}, 106, count=100),
        rounds({"A": (0.5, 0.5), "B": (0.9, 0.9), "C": (0.54, 0.5)}, 106, count=100),
    )
    assert first.crowned == ("A",)
    assert (second.crowned, second.terminated) == (("C",), ("B",))
    assert (third.crowned, third.terminated) == ((), ())
    assert [one.reason for one in third.placings] == ["former_champion", "terminated", "champion"]


def test_an_environment_that_is_complete_and_regressed_decides_at_once(rounds: Any) -> None:
    given = rounds({"A": (0.5, 0.5), "B": (0.4, 0.9)}, 106, count=100)
    given.matrix.steps[1, 1, 50:] = -(2**14)
    _, ruling = reign(ChampionChallenger(), rounds({"A": (0.5, 0.5)}, 106, count=100), given)
    assert ruling.terminated == ("B",)
    assert ruling.placings[1].reason == "regressed_in_env:e0:regressed_beyond_tolerance"


def test_where_results_are_missing_nothing_is_decided(rounds: Any) -> None:
    _, ruling = reign(
        ChampionChallenger(), rounds({"A": (0.5,)}, 106, count=100), rounds({"A": (0.5,), "B": (0.9,)}, {"A": 106, "B": 53}, count=100)
    )
    assert (ruling.placings[1].reason, ruling.placings[1].coverage) == ("not_decidable", 0.5)


def test_the_last_five_champions_shared_alike(rounds: Any) -> None:
    better = {f"m{at}": (0.1 + 0.1 * at,) for at in range(7)}
    ruling = ChampionChallenger(shared_by=5).advance(ChampionChallenger().begin(), rounds(better, 106, count=100))
    assert [one.share for one in ruling.placings] == [0, 0, 0.2, 0.2, 0.2, 0.2, 0.2]


# --- checkpoints --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("checkpoint", "margin"), [(1, 0.02), (3, 0.02), (10, 0.03), (50, 0.03)])
def test_the_margin_grows_in_a_line(checkpoint: int, margin: float) -> None:
    assert margin_at(checkpoint) == pytest.approx(margin)
    assert margin_at(6) == pytest.approx(0.02 + 0.01 * 3 / 7)


def test_the_crown_falls_at_the_tenth_checkpoint(rounds: Any) -> None:
    rule, made = Checkpoints(), []
    state = rule.advance(rule.begin(), rounds({"A": (0.5, 0.5)}, 20, count=20)).state
    for windows in range(1, 11):
        ruling = rule.advance(state, rounds({"A": (0.5, 0.5), "B": (0.6, 0.5)}, 20 * windows, count=20))
        state = ruling.state
        made.append(ruling.crowned)
    assert made == [()] * 9 + [("B",)]


def test_three_losses_in_a_row_after_the_warm_up_terminate(rounds: Any) -> None:
    rule, made = Checkpoints(), []
    state = rule.advance(rule.begin(), rounds({"A": (0.5, 0.5)}, 20, count=20)).state
    for windows in range(1, 6):
        ruling = rule.advance(state, rounds({"A": (0.5, 0.5), "B": (0.5, 0.5)}, 20 * windows, count=20))
        state = ruling.state
        made.append(ruling.terminated)
    assert made == [(), (), (), (), ("B",)]


def test_of_two_equal_challengers_the_later_is_terminated(rounds: Any) -> None:
    """A defect that is part of the rule: the earlier of two that the later exceeds nowhere terminates it."""
    rule = Checkpoints()
    state = rule.advance(rule.begin(), rounds({"A": (0.5, 0.9)}, 20, count=20)).state
    ruling = rule.advance(state, rounds({"A": (0.5, 0.9), "B": (0.6, 0.8), "C": (0.6, 0.8)}, 100, count=20))
    assert ruling.terminated == ("C",)
    assert ruling.placings[2].detail == "dominated_by:B"


# --- dense_rank, supermajority ------------------------------------------------------------------------------------------------


def test_ranks_are_dense() -> None:
    assert dense_ranks({"A": (0.5, 0.1), "B": (0.5, 0.3), "C": (0.2, 0.2)}) == {"A": (1, 3), "B": (1, 1), "C": (2, 2)}


def test_the_one_with_the_fewest_dominators_takes_all(rounds: Any) -> None:
    assert shares(DenseRank(), rounds({"A": (0.5, 0.5), "B": (0.6, 0.4), "C": (0.4, 0.4)})) == {"A": 1.0, "B": 0.0, "C": 0.0}


def test_a_supermajority_needs_two_environments(rounds: Any) -> None:
    given = rounds({"A": (0.5, 0.5, 0.5), "B": (0.5, 0.5, 0.6), "C": (0.4, 0.5, 0.6), "D": (0.5, 0.6, 0.7)})
    assert shares(Supermajority(), given) == {"A": 0.0, "B": 0.0, "C": 0.0, "D": 1.0}


# --- arithmetic ---------------------------------------------------------------------------------------------------------------


def test_roots_and_powers() -> None:
    assert geometric_mean((0.25, 1.0), 0.0) == 0.5
    assert geometric_mean((0.0, 0.5), 0.01) == pytest.approx((0.01 * 0.51) ** 0.5 - 0.01)
    assert geometric_mean((), 0.01) == 0.0
    assert power(10.0, 2.0) == 100.0
    assert power(0.95, 2.639) == pytest.approx(0.95**2.639)
