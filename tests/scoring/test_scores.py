"""Scores that people read."""

from __future__ import annotations

from typing import Any

import pytest

from affine_dagster.scoring.scores import epoch_scores, overall_means
from affine_dagster.tables import REWARDS


def test_faults_of_others_leave_the_mean_but_not_the_count(make: Any) -> None:
    """Case E10: 2 right, 1 wrong, 1 model fault, 2 platform faults: each is counted, model faults as 0."""
    rows = make.reward_rows("a", "sort", [1.0, 1.0, 0.0, 0.0, None, None], 1)
    rows[3]["fault"] = "model"
    score = epoch_scores(REWARDS.frame(rows), make.settings(), 1).row(0, named=True)
    assert [score[name] for name in ("n", "n_ok", "n_model_fault", "n_missing", "mean")] == [6, 3, 1, 2, 0.5]
    assert score["lower"] <= 2 / 6 < 4 / 6 <= score["upper"]


def test_without_results_there_is_no_mean(make: Any) -> None:
    score = epoch_scores(REWARDS.frame(make.reward_rows("a", "sort", [None], 1)), make.settings(), 1).row(0, named=True)
    assert (score["mean"], score["lower"], score["upper"]) == (None, 0.0, 1.0)


def test_each_environment_counts_once_in_the_overall_mean(make: Any) -> None:
    """Case S10: 90 rollouts at .9 and 10 at .1 give .5, not .82."""
    rows = make.reward_rows("a", "sort", [1.0] * 81 + [0.0] * 9, 1) + make.reward_rows("a", "spell", [1.0] + [0.0] * 9, 1)
    scores = epoch_scores(REWARDS.frame(rows), make.settings(), 1)
    assert overall_means(scores, make.ENVIRONMENTS)["mean"].to_list() == [pytest.approx(0.5)]
    assert scores["n"].to_list() == [90, 10]


def test_an_environment_that_did_not_run_is_not_a_zero(make: Any) -> None:
    """Case S11: no row, and no overall mean."""
    scores = epoch_scores(REWARDS.frame(make.reward_rows("a", "sort", [1.0] * 4, 1)), make.settings(), 1)
    assert scores["environment"].to_list() == ["sort"]
    assert overall_means(scores, make.ENVIRONMENTS)["mean"].to_list() == [None]


def test_the_order_of_rows_changes_nothing(make: Any) -> None:
    rows = [
        row for name in ("a", "b") for env in make.ENVIRONMENTS for purpose in ("contest", "assay")
        for row in make.reward_rows(name, env, [0.25, 1.0, None, 0.0], 1, purpose=purpose)
    ]
    rewards = REWARDS.frame(rows)
    mixed = epoch_scores(rewards.sample(fraction=1, shuffle=True, seed=5), make.settings(), 1)
    assert mixed.equals(epoch_scores(rewards, make.settings(), 1))
