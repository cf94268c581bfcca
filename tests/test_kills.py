"""The law: killing the job's processes with ``kill -9`` and starting it again gives what an undisturbed run gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from comparing import differences, ledger_rows, store_differences
from killing import Strike, processes_of, spread_strikes
from tiny_worlds import TinyWorld

from affine_dagster.ledger import Ledger
from affine_dagster.settings import scorer_version
from affine_dagster.store import Store, Tables, parquet_bytes, parquet_frame
from affine_dagster.tables import FRONTIER, ROLLOUTS, WEIGHT_SUBMISSIONS

pytestmark = pytest.mark.models

SEED = 20260701


@pytest.mark.parametrize("strike", spread_strikes(3, SEED), ids=str)
def test_killed_at_a_random_point_and_started_again_everything_is_the_same(tiny_world: TinyWorld, strike: Strike, tmp_path: Path) -> None:
    world = tiny_world.struck(tmp_path, strike)
    found = differences(tiny_world.world, world)
    assert not found, "\n".join(found)
    assert processes_of(world.home) == []


def test_the_undisturbed_run_gives_something_to_compare(tiny_world: TinyWorld) -> None:
    """A base on twenty tasks of each environment, a challenger that fewer decided and that was accepted; weights on the chain."""
    settings = tiny_world.world.settings()
    tables, scorer = Tables(Store(settings.store.url)), scorer_version(settings)
    rows = ledger_rows(Path(settings.store.url)).filter(pl.col("purpose") == "contest")
    decided, *counts = sorted(rows.group_by("weights_digest", "environment").len()["len"])
    assert decided in (5, 10, 15), "how far apart two models are that were made here depends on how the processor rounds"
    assert counts == [decided] * 3 + [20] * 4
    assert tables.need(FRONTIER, 0, scorer).height == 2
    assert tables.need(WEIGHT_SUBMISSIONS, 0)["class"].to_list() == ["ok"]


@pytest.fixture
def altered(tiny_world: TinyWorld, tmp_path: Path) -> tuple[Path, Path]:
    """The undisturbed store and a copy of it, to be altered."""
    store = Path(tiny_world.world.settings().store.url)
    shutil.copytree(store, tmp_path / "store")
    return store, tmp_path / "store"


def _a_batch(store: Path) -> tuple[Path, pl.DataFrame]:
    path = sorted((store / "ledger").rglob("*.parquet"))[3]
    return path, parquet_frame(ROLLOUTS, path.read_bytes())


def test_the_comparison_finds_nothing_between_equals(altered: tuple[Path, Path]) -> None:
    assert store_differences(*altered) == []


def test_the_comparison_finds_a_changed_completion(altered: tuple[Path, Path]) -> None:
    path, rows = _a_batch(altered[1])
    path.write_bytes(parquet_bytes(rows.with_columns(completion=pl.lit("other")), ROLLOUTS.version))
    [line] = store_differences(*altered)
    assert line.endswith("columns that differ: completion")


def test_the_comparison_finds_a_lost_batch(altered: tuple[Path, Path]) -> None:
    path, _ = _a_batch(altered[1])
    path.unlink()
    [line] = store_differences(*altered)
    assert line.startswith("ledger:")


def test_the_comparison_finds_a_changed_byte_of_a_table(altered: tuple[Path, Path]) -> None:
    path = next((altered[1] / "tables" / "weights").rglob("*.parquet"))
    path.write_bytes(path.read_bytes() + b"\0")
    [line] = store_differences(*altered)
    assert line == f"{path.relative_to(altered[1]).as_posix()}: other bytes"


def test_the_comparison_finds_a_missing_snapshot(altered: tuple[Path, Path]) -> None:
    (altered[1] / "published" / "latest.json").unlink()
    assert store_differences(*altered) == ["published/latest.json: only in the first"]


def test_the_comparison_passes_over_a_second_attempt(altered: tuple[Path, Path]) -> None:
    """A later attempt of a result that stands is no difference: reading removes it."""
    _, rows = _a_batch(altered[1])
    batch = int(rows["index"][0]) // 5
    assert Ledger(Store(str(altered[1]))).append(rows.with_columns(attempt=pl.lit(1, dtype=pl.Int64)), batch)
    assert store_differences(*altered) == []
