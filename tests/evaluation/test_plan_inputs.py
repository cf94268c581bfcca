"""What a plan starts from: the closed state of the epoch before, under the present scoring settings, or an error that says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from affine_dagster.evaluation.inputs import plan_inputs, prior_epoch
from affine_dagster.reasons import AffineError
from affine_dagster.settings import Settings, scorer_version
from affine_dagster.store import Store, Tables
from affine_dagster.tables import EPOCHS, FRONTIER, PLAN, SWAPS

SETTINGS = Settings()
SCORER = scorer_version(SETTINGS)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(Store(str(tmp_path)))


def closed(tables: Tables, epoch: int, scorer: str = SCORER) -> None:
    tables.write(PLAN, epoch, PLAN.empty())
    tables.write(FRONTIER, epoch, FRONTIER.empty(), scorer)


def test_the_first_epoch_starts_from_nothing(tables: Tables) -> None:
    found = plan_inputs(tables, SETTINGS, 3)
    assert (found.prior_epoch, found.frontier) == (None, None)
    assert found.contests.is_empty()


def test_an_epoch_starts_from_the_newest_closed_one_before_it_and_never_from_itself(tables: Tables) -> None:
    for epoch in (1, 2, 3):
        closed(tables, epoch)
    assert plan_inputs(tables, SETTINGS, 3).prior_epoch == 2


def test_an_unfinished_epoch_is_not_skipped(tables: Tables) -> None:
    closed(tables, 1)
    tables.write(PLAN, 2, PLAN.empty())
    with pytest.raises(AffineError, match="missing_input"):
        prior_epoch(tables, 3, SCORER)


def test_an_epoch_that_was_killed_before_its_plan_is_not_skipped(tables: Tables) -> None:
    closed(tables, 1)
    with pytest.raises(AffineError, match=r"missing_input: .*epoch 2"):
        prior_epoch(tables, 3, SCORER)


def test_nor_is_the_first_epoch_once_it_has_a_snapshot(tables: Tables) -> None:
    tables.write(EPOCHS, 0, EPOCHS.empty())
    with pytest.raises(AffineError, match=r"missing_input: .*epoch 0"):
        prior_epoch(tables, 1, SCORER)


def test_a_new_scorer_needs_its_own_history_first(tables: Tables) -> None:
    closed(tables, 1, "sold")
    with pytest.raises(AffineError, match="scorer_without_history"):
        plan_inputs(tables, SETTINGS, 2)


def test_the_swaps_of_all_epochs_so_far_say_who_an_owner_is(tables: Tables) -> None:
    closed(tables, 1)
    for epoch in (1, 2, 3):
        row = {"epoch": epoch, "block": 10 * epoch, "coldkey": "c", "old_hotkey": f"h{epoch}", "new_hotkey": f"h{epoch + 1}"}
        tables.write(SWAPS, epoch, SWAPS.frame([row]))
    assert plan_inputs(tables, SETTINGS, 2).swaps["epoch"].to_list() == [1, 2]
