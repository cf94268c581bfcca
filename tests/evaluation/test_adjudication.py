"""Whose fault a lost answer is."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from evaluation_parts import EPOCH, FakeEngine, World, make_world, no_answer, planned

from affine_dagster.evaluation.adjudication import crashes
from affine_dagster.ledger import rewards_of_rollouts
from affine_dagster.tables import ROLLOUTS, TASKS


def rollouts(tmp_path: Path, *failing: bool) -> tuple[World, pl.DataFrame]:
    """Models that all run ten tasks; those of ``failing`` never answer the fourth one of chain_sum."""
    world = make_world(tmp_path)
    world.freeze_tasks()
    seed = world.tables.need(TASKS, EPOCH).filter(purpose="contest", environment="chain_sum", index=3)["seed"].item()
    for number, fails in enumerate(failing):
        def fault(prompt: str, call: int, fails: bool = fails) -> object:
            return no_answer() if fails and prompt == f"chain_sum:{seed}" else None

        (job,) = world.jobs(planned(world.publish(f"m{number}"), tasks=10))
        world.worker(job, FakeEngine(fault=fault)).run()  # type: ignore[arg-type]
    return world, world.ledger.rollouts(EPOCH)


def test_a_task_that_fails_three_times_for_one_model_only_is_the_models_fault(tmp_path: Path) -> None:
    _, rows = rollouts(tmp_path, True, False)
    added = crashes(rows, 3)
    assert added.select("environment", "index", "reward", "fault", "reason", "attempt").rows() == [
        ("chain_sum", 3, 0.0, "model", "model_crashes_engine", 3)
    ]
    rewards = rewards_of_rollouts(pl.concat([rows, added]))
    assert rewards["reward"].null_count() == 0


def test_a_task_that_fails_for_every_model_is_no_models_fault(tmp_path: Path) -> None:
    _, rows = rollouts(tmp_path, True, True)
    assert crashes(rows, 3).equals(ROLLOUTS.empty())


def test_fewer_failures_than_the_bound_are_no_verdict(tmp_path: Path) -> None:
    _, rows = rollouts(tmp_path, True, False)
    assert crashes(rows, 4).is_empty()


def test_judging_again_adds_nothing(tmp_path: Path) -> None:
    _, rows = rollouts(tmp_path, True, False)
    assert crashes(pl.concat([rows, crashes(rows, 3)]), 3).is_empty()


@pytest.mark.parametrize(("others", "blamed"), [(False, 1), (True, 0)])
def test_a_prompt_that_only_this_models_tokenizer_makes_too_long_is_its_own_fault(tmp_path: Path, others: bool, blamed: int) -> None:
    """Else a member could let tasks go missing by its tokenizer, and no challenger would ever win against it."""
    _, rows = rollouts(tmp_path, True, others)
    long = pl.col("reason") == "no_answer"
    rows = rows.with_columns(
        fault=pl.when(long).then(pl.lit("operator")).otherwise("fault"),
        reason=pl.when(long).then(pl.lit("prompt_too_long")).otherwise("reason"),
    )
    assert crashes(rows, 3).select("reward", "fault", "reason").rows() == [(0.0, "model", "model_crashes_engine")] * blamed


def test_a_broken_grader_is_never_the_models_fault(tmp_path: Path) -> None:
    """Case E4."""
    _, rows = rollouts(tmp_path, True, False)
    assert crashes(rows.with_columns(reason=pl.col("reason").replace("no_answer", "grader_failed")), 3).is_empty()


def crashed(rows: pl.DataFrame, first: int) -> pl.DataFrame:
    """The rows with the first model's answers from an index on lost to crashes, in three attempts."""
    model = rows["weights_digest"][0]
    lost = (pl.col("weights_digest") == model) & (pl.col("index") >= first)
    gone = {"reward": pl.lit(None, pl.Float64), "fault": pl.lit("platform"), "reason": pl.lit("engine_crashed")}
    batches = [rows.filter(lost).with_columns(attempt=pl.lit(attempt, pl.Int64), **gone) for attempt in range(3)]
    return pl.concat([rows.filter(~lost), *batches])


def test_crashes_after_which_a_model_answered_nothing_more_may_be_the_machines(tmp_path: Path) -> None:
    _, rows = rollouts(tmp_path, False, False)
    assert crashes(crashed(rows, 4), 3).is_empty()
    assert crashes(crashed(rows, 0), 3).is_empty()


def test_crashes_before_another_answer_of_the_model_are_its_own(tmp_path: Path) -> None:
    _, rows = rollouts(tmp_path, False, False)
    sums = pl.col("environment") == "chain_sum"
    mixed = pl.concat([crashed(rows, 4).filter(sums), rows.filter(~sums)])
    assert crashes(mixed, 3).select("environment", "index", "reason").rows() == [
        ("chain_sum", index, "model_crashes_engine") for index in range(4, 10)
    ]
