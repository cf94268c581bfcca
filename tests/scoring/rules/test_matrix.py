"""The laws of the table that every earlier rule reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.rules.matrix import Entrant, task_matrix
from affine_dagster.tables import REWARDS

ADA, BOB = Entrant("ada", "a", 5, 1), Entrant("bob", "b", 5, 0)


def row(
    digest: str, index: int, reward: float | None, fault: str | None = None, environment: str = "sort", epoch: int = 1
) -> dict[str, Any]:
    return {
        "epoch": epoch, "environment": environment, "environment_version": "1", "purpose": "contest", "task_epoch": epoch, "index": index,
        "seed": index, "weights_digest": digest, "reward": reward, "fault": fault, "reason": None, "completion_tokens": 1,
    }


CELLS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 1000)), unique_by=lambda one: one[:2], max_size=20)


@given(CELLS, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_of_entrants_changes_nothing(cells: list[tuple[str, int, int]], dice: Any) -> None:
    rows = [row(digest, index, steps / 1000) for digest, index, steps in cells]
    shuffled = dice.sample(rows, len(rows))
    one, other = (task_matrix(REWARDS.frame(given), who, ["sort"]) for given, who in ((rows, [ADA, BOB]), (shuffled, [BOB, ADA])))
    assert one.entrants == other.entrants == (BOB, ADA)
    assert one.steps.tobytes() == other.steps.tobytes()


def test_means_and_counts_leave_out_what_is_missing_and_count_a_models_own_fault_as_0() -> None:
    rows = [row("a", 0, 1.0), row("a", 1, None, "platform"), row("a", 2, 0.0, "model"), row("b", 1, 0.25)]
    made = task_matrix(REWARDS.frame(rows), [ADA, BOB], ["sort"])
    assert made.means.tolist() == [[0.25], [0.5]]
    assert made.counts.tolist() == [[1], [2]]
    assert made.tasks == (3,)


def test_two_are_compared_on_the_tasks_that_both_have() -> None:
    rows = [row("a", 0, 1.0), row("a", 1, 0.5), row("b", 1, 0.25), row("b", 2, 1.0)]
    (common,) = task_matrix(REWARDS.frame(rows), [ADA, BOB], ["sort"]).common(1, 0)
    assert (common.tasks, common.first, common.second) == (1, 0.5, 0.25)


def test_the_same_index_of_another_epoch_is_another_task() -> None:
    made = task_matrix(REWARDS.frame([row("a", 0, 1.0), row("b", 0, 1.0, epoch=2)]), [ADA, BOB], ["sort"])
    assert made.tasks == (2,)
    assert made.common(0, 1)[0].tasks == 0


def test_nobody_and_nothing_make_an_empty_matrix() -> None:
    assert task_matrix(REWARDS.empty(), [], ["sort", "spell"]).steps.shape == (0, 2, 0)
    assert task_matrix(REWARDS.empty(), [ADA], ["sort"]).means.tolist() == [[0.0]]


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -0.1, 1.1])
def test_an_impossible_reward_is_refused(reward: float) -> None:
    with pytest.raises(AffineError, match="bad_table"):
        task_matrix(REWARDS.frame([row("a", 0, reward)]), [ADA], ["sort"])


def test_other_entrants_and_environments_are_left_out() -> None:
    made = task_matrix(REWARDS.frame([row("c", 0, 1.0), row("a", 0, 1.0, environment="other")]), [ADA], ["sort"])
    assert made.counts.tolist() == [[0]]
