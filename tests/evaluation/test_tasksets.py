"""Task sets: unpredictable before the beacon, the same for everybody after it, and no two alike."""

from __future__ import annotations

import hashlib

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.environments.registry import environments
from affine_dagster.evaluation.tasksets import task_seeds, task_sets
from affine_dagster.reasons import AffineError
from affine_dagster.settings import EvaluationSettings
from affine_dagster.tables import EPOCHS, TASKS


def epochs_row(epoch: int = 7, beacon_hash: str = "0xbeac", randomness: str = "ab" * 32) -> pl.DataFrame:
    row: dict[str, object] = dict.fromkeys(EPOCHS.schema.names())
    return EPOCHS.frame([row | {"epoch": epoch, "beacon_hash": beacon_hash, "pulse_randomness": randomness, "commit_reveal": False}])


def seeds(**changes: object) -> list[int]:
    row = epochs_row(**{key: changes.pop(key) for key in list(changes) if key in ("epoch", "beacon_hash", "randomness")})  # type: ignore[arg-type]
    arguments = {"environment": "sums", "version": "1", "purpose": "contest", "count": 20} | changes
    return task_seeds(row, **arguments)["seed"].to_list()  # type: ignore[arg-type]


def test_anyone_can_recompute_a_seed_from_the_published_beacon() -> None:
    text = f"affine/task-seed/1|sums|1|0xbeac|{'ab' * 32}|contest|3"
    assert seeds()[3] == int.from_bytes(hashlib.blake2b(text.encode()).digest()[:8], "big")


@pytest.mark.parametrize(
    "change", [{"beacon_hash": "0xbead"}, {"randomness": "ac" * 32}, {"environment": "words"}, {"version": "2"}, {"purpose": "assay"}]
)
def test_every_part_of_the_preimage_changes_every_seed(change: dict[str, object]) -> None:
    """Case E17: who does not know the beacon knows no task."""
    assert set(seeds()).isdisjoint(seeds(**change))


@given(st.integers(0, 2**64), st.integers(0, 2**64))
@settings(max_examples=40, deadline=None)
def test_two_epochs_share_no_task(one: int, other: int) -> None:
    """Case E17: a task that was published with a closed epoch is in no later one."""
    mine, theirs = seeds(randomness=f"{one:064x}"), seeds(randomness=f"{other:064x}")
    assert (mine == theirs) if one == other else set(mine).isdisjoint(theirs)


def test_seeds_do_not_overlap_their_neighbours() -> None:
    many = seeds(count=5000)
    assert len(set(many)) == 5000
    assert set(many).isdisjoint(seed + 1 for seed in many)


def test_a_longer_task_set_begins_with_the_shorter_one() -> None:
    assert seeds(count=50)[:20] == seeds(count=20)


def test_no_part_can_pass_for_two() -> None:
    with pytest.raises(AffineError, match="bad_table"):
        seeds(environment="sums|1", version="x")


def test_one_epoch_at_a_time() -> None:
    with pytest.raises(AffineError, match="one row"):
        task_seeds(pl.concat([epochs_row(1), epochs_row(2)]), "sums", "1", "contest", 3)


def test_the_task_sets_hold_each_environment_and_purpose_in_full() -> None:
    chosen = EvaluationSettings(environments=("chain_sum", "bit_count"), tasks_per_epoch=3, assay_tasks=5)
    tasks = task_sets(epochs_row(), environments(chosen.environments), chosen)
    assert dict(tasks.group_by("environment", "purpose").len().select(pl.concat_str("environment", "purpose"), "len").iter_rows()) == {
        "chain_sumcontest": 3, "chain_sumassay": 5, "bit_countcontest": 3, "bit_countassay": 5,
    }
    assert tasks.equals(TASKS.check(tasks))
    assert tasks["seed"].n_unique() == tasks.height
