"""The law of ``test_kills.py`` at ten points of two epochs: a model is accepted in the first, and measured and paid by the second."""

from __future__ import annotations

from pathlib import Path

import pytest
from comparing import differences
from killing import Strike, processes_of, spread_strikes
from tiny_worlds import TinyWorld, finished

from affine_dagster.settings import scorer_version
from affine_dagster.store import Store, Tables
from affine_dagster.tables import CREDITS, FRONTIER

pytestmark = [pytest.mark.services, pytest.mark.models]

SEED = 20260702


@pytest.fixture(scope="module")
def two_epochs(tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    return finished(tmp_path_factory.mktemp("two-epochs"), epochs=2)


@pytest.mark.parametrize("strike", spread_strikes(10, SEED), ids=str)
def test_killed_at_any_of_ten_points_and_started_again_everything_is_the_same(
    two_epochs: TinyWorld, strike: Strike, tmp_path: Path
) -> None:
    world = two_epochs.struck(tmp_path, strike)
    found = differences(two_epochs.world, world)
    assert not found, "\n".join(found)
    assert processes_of(world.home) == []


def test_a_model_was_accepted_and_measured(two_epochs: TinyWorld) -> None:
    settings = two_epochs.world.settings()
    tables, scorer = Tables(Store(settings.store.url)), scorer_version(settings)
    assert tables.need(FRONTIER, 0, scorer).height == 2
    assert tables.need(FRONTIER, 1, scorer)["assay_complete"].to_list() == [True, True]
    assert tables.need(CREDITS, 1, scorer)["frozen"].any()
