"""The evidence of an epoch: which tasks a pair is judged on, and how it goes on over epochs."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.pairs import EpochEvidence, epoch_evidence
from affine_dagster.tables import CONTESTS, EVIDENCE, PLAN, REWARDS

Rewards = list[float | None]


def evidence(
    make: Any, plan: list[dict[str, Any]], rewards: list[dict[str, Any]], epoch: int = 1, prior: EpochEvidence | None = None
) -> EpochEvidence:
    before = prior or EpochEvidence(EVIDENCE.empty(), CONTESTS.empty())
    return epoch_evidence(PLAN.frame(plan), REWARDS.frame(rewards), before.evidence, before.contests, make.settings(), epoch)


def contest(make: Any, rewards: dict[str, Rewards], epoch: int = 1, prior: EpochEvidence | None = None, **plan: Any) -> EpochEvidence:
    """One environment's rewards by model, used in both environments; ``base`` is the incumbent, the rest challenge in this order."""
    names = [name for name in rewards if name != "base"]
    models = {name: make.Model(name, 10 + at, ()) for at, name in enumerate(names)}
    rows = [make.plan_row(models[name], epoch, "challenger", opponents=[make.digest("base")], **plan) for name in names]
    ran = [row for name, values in rewards.items() for env in make.ENVIRONMENTS for row in make.reward_rows(name, env, values, epoch)]
    return evidence(make, rows, ran, epoch, prior)


def state(make: Any, made: EpochEvidence, challenger: str, incumbent: str = "base") -> dict[str, Any]:
    mine = (pl.col("challenger") == make.digest(challenger)) & (pl.col("incumbent") == make.digest(incumbent))
    return made.contests.filter(mine).row(0, named=True)


def counts(made: EpochEvidence, environment: str = "sort") -> tuple[int, int, dict[int, int]]:
    row = made.evidence.filter(pl.col("environment") == environment).row(0, named=True)
    return row["tasks"], row["missing"], {entry["bin"]: entry["count"] for entry in row["histogram"]}


def test_a_pair_is_judged_on_the_challenger_s_prefix(make: Any) -> None:
    made = contest(make, {"base": [0.0] * 50, "new": [1.0] * 20})
    assert counts(made) == (20, 0, {1000: 20})


def test_a_fault_of_either_side_and_a_task_never_run_are_missing(make: Any) -> None:
    made = contest(make, {"base": [0.0, None, 0.0], "new": [1.0, 1.0, None, 1.0]})
    assert counts(made) == (4, 3, {1000: 1})


def test_a_model_fault_is_a_reward_of_zero(make: Any) -> None:
    new = make.Model("new", 1, ())
    ran = make.reward_rows("base", "sort", [1.0, 1.0], 1) + make.reward_rows("new", "sort", [1.0, 0.0], 1)
    ran[-1] |= {"reward": None, "fault": "model"}
    made = evidence(make, [make.plan_row(new, 1, "challenger", opponents=[make.digest("base")])], ran)
    assert counts(made) == (2, 0, {-1000: 1, 0: 1})


def test_other_epochs_purposes_and_environments_are_not_read(make: Any) -> None:
    new = make.Model("new", 1, ())
    ran = make.reward_rows("base", "sort", [0.0] * 5, 1) + make.reward_rows("new", "sort", [1.0] * 5, 1)
    noise = [
        *make.reward_rows("new", "sort", [0.0] * 9, 2), *make.reward_rows("new", "sort", [0.0] * 9, 1, purpose="assay"),
        *make.reward_rows("new", "retired", [0.0] * 9, 1),
    ]
    plan = [make.plan_row(new, 1, "challenger", opponents=[make.digest("base")])]
    assert counts(evidence(make, plan, ran + noise)) == counts(evidence(make, plan, ran)) == (5, 0, {1000: 5})


@pytest.mark.parametrize("reward", [math.nan, math.inf, -0.1, 1.1])
def test_impossible_rewards_stop_the_epoch(make: Any, reward: float) -> None:
    """Cases S1 and E7: refused at the boundary, not averaged."""
    with pytest.raises(AffineError, match="bad_table"):
        contest(make, {"base": [0.0, 1.0], "new": [1.0, reward]})


def test_no_reward_needs_a_fault(make: Any) -> None:
    rows = make.reward_rows("new", "sort", [None], 1)
    rows[0]["fault"] = None
    with pytest.raises(AffineError, match="neither"):
        evidence(make, [], rows)


def test_evidence_goes_on_over_epochs_with_its_first_bets(make: Any) -> None:
    first = contest(make, {"base": [0.0] * 10 + [1.0] * 10, "new": [1.0] * 10 + [0.0] * 10})
    second = contest(make, {"base": [0.0] * 5, "new": [1.0] * 5}, 2, first, alpha=0.01, discordance=0.2)
    assert counts(second) == (25, 0, {-1000: 10, 1000: 15})
    row = state(make, second, "new")
    assert (row["epochs"], row["tasks"], row["alpha"], row["discordance"]) == (2, 25, make.ALPHA, 0.5)


def test_a_re_run_gives_the_same_as_the_first_run(make: Any) -> None:
    first = contest(make, {"base": [0.0] * 20, "new": [1.0] * 20})
    again = contest(make, {"base": [0.0] * 20, "new": [1.0] * 20}, 1, first)
    assert again.evidence.equals(first.evidence)
    assert again.contests.equals(first.contests)


def test_an_epoch_without_results_does_not_age_a_pair(make: Any) -> None:
    made = contest(make, {"base": [0.0] * 5, "new": []})
    assert (state(make, made, "new")["epochs"], state(make, made, "new")["state"]) == (0, "undecided")


def test_a_won_pair_stays_won(make: Any) -> None:
    first = contest(make, {"base": [0.0] * 60, "new": [1.0] * 60})
    assert state(make, first, "new")["state"] == "won"
    second = contest(make, {"base": [1.0] * 200, "new": [0.0] * 200}, 2, first)
    row = state(make, second, "new")
    assert (row["state"], row["strict"]) == ("won", True)


def test_an_undecided_pair_expires_after_its_epochs(make: Any) -> None:
    made = None
    for epoch in range(1, 9):
        made = contest(make, {"base": [0.0, 1.0], "new": [1.0, 0.0]}, epoch, made)
        assert state(make, made, "new")["state"] == ("expired" if epoch == 8 else "undecided")


def test_low_coverage_gives_no_verdict(make: Any) -> None:
    """Case E10."""
    row = state(make, contest(make, {"base": [0.0] * 100, "new": [1.0] * 80 + [None] * 20}), "new")
    assert (row["state"], row["reason"]) == ("undecided", "low_coverage")


def test_a_later_challenger_also_meets_the_winners_before_it_on_the_tasks_both_ran(make: Any) -> None:
    made = contest(make, {"base": [0.0] * 80, "first": [1.0] * 60, "second": [1.0] * 80})
    row = state(make, made, "second", "first")
    assert (row["state"], row["tasks"]) == ("undecided", 60)
    assert state(make, made, "second")["state"] == "won"


def test_a_challenger_that_won_nothing_is_met_by_nobody(make: Any) -> None:
    made = contest(make, {"base": [0.0] * 80, "first": [0.0] * 60, "second": [1.0] * 80})
    assert made.contests.select("challenger", "incumbent").height == 2


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=40), st.data())
def test_losing_any_result_never_raises_any_e_value(make: Any, pairs: list[tuple[float, float]], data: st.DataObject) -> None:
    base, new = [list(side) for side in zip(*pairs, strict=True)]
    whole = contest(make, {"base": base, "new": new}).evidence
    lost = data.draw(st.sets(st.tuples(st.booleans(), st.integers(0, len(pairs) - 1))))
    sides = ((False, base), (True, new))
    holed: list[Rewards] = [[None if (side, at) in lost else value for at, value in enumerate(values)] for side, values in sides]
    holes = contest(make, {"base": holed[0], "new": holed[1]}).evidence
    for column in ("log_e_win", "log_e_not_worse", "log_e_futile", "log_e_regressed"):
        assert all(after <= before + 1e-9 for before, after in zip(whole[column], holes[column], strict=True))
