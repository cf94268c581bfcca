"""Laws of the store: a first write stands, a read is what was written, a schema is checked at the door."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.reasons import AffineError
from affine_dagster.store import Store, Tables, epoch_name, parquet_bytes, parquet_frame
from affine_dagster.tables import INTEGRITY, TASKS, WEIGHTS, Table


def _tasks(epoch: int, seed: int = 1) -> pl.DataFrame:
    return TASKS.frame(
        [{"epoch": epoch, "environment": "e", "environment_version": "1", "purpose": "contest", "index": 0, "seed": seed}]
    )


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(Store(str(tmp_path)))


def test_the_first_create_stands(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    assert store.create("a/b", b"first")
    assert not store.create("a/b", b"second")
    assert store.get("a/b") == b"first"


def test_a_frozen_table_keeps_its_first_rows(tables: Tables) -> None:
    tables.freeze(TASKS, 3, _tasks(3, seed=1))
    stands = tables.freeze(TASKS, 3, _tasks(3, seed=2))
    assert stands["seed"].to_list() == [1]


def test_seeds_keep_all_64_bits(tables: Tables) -> None:
    tables.write(TASKS, 0, _tasks(0, seed=2**64 - 1))
    assert tables.need(TASKS, 0)["seed"].to_list() == [2**64 - 1]


def test_what_was_not_written_is_none_or_a_named_error(tables: Tables) -> None:
    assert tables.read(TASKS, 7) is None
    with pytest.raises(AffineError, match="tasks of epoch 7"):
        tables.need(TASKS, 7)


def test_scorer_versions_lie_side_by_side(tables: Tables) -> None:
    tables.write(WEIGHTS, 0, WEIGHTS.empty(), "s1")
    tables.write(WEIGHTS, 1, WEIGHTS.empty(), "s2")
    assert tables.scorers(WEIGHTS) == ["s1", "s2"]
    assert tables.epochs(WEIGHTS, "s1") == [0]


def test_epochs_are_listed_in_order_and_rows_concatenated(tables: Tables) -> None:
    for epoch in (10, 2, 9):
        tables.write(TASKS, epoch, _tasks(epoch))
    assert tables.epochs(TASKS) == [2, 9, 10]
    assert tables.until(TASKS, 9)["epoch"].to_list() == [2, 9]
    assert tables.newest_before(TASKS, 10) == 9


def test_a_frame_of_another_schema_is_refused(tables: Tables) -> None:
    with pytest.raises(AffineError) as caught:
        tables.write(TASKS, 0, _tasks(0).with_columns(pl.col("index").cast(pl.Int32)))
    assert caught.value.code == "bad_table"
    assert "index" in caught.value.detail


def test_a_key_that_stands_twice_is_refused(tables: Tables) -> None:
    with pytest.raises(AffineError, match="stands twice"):
        tables.write(TASKS, 0, pl.concat([_tasks(0), _tasks(0)]))


def test_an_old_version_is_migrated_and_a_newer_one_refused() -> None:
    old = Table("t", {"a": pl.Int64}, key=("a",))
    new = Table(
        "t", {"a": pl.Int64, "b": pl.Int64}, key=("a",), version=2, migrations={1: lambda frame: frame.with_columns(b=pl.lit(0, pl.Int64))}
    )
    content = parquet_bytes(old.frame([{"a": 1}]), old.version)
    assert parquet_frame(new, content).rows() == [(1, 0)]
    with pytest.raises(AffineError) as caught:
        parquet_frame(old, parquet_bytes(new.frame([{"a": 1, "b": 2}]), 2))
    assert caught.value.code == "newer_table"


@given(st.lists(st.floats(0, 1), max_size=5))
def test_the_same_frame_gives_the_same_bytes(values: list[float]) -> None:
    rows = [
        {"epoch": 0, "check": "c", "subject": str(n), "ok": True, "value": value, "threshold": None, "reason": None, "detail": ""}
        for n, value in enumerate(values)
    ]
    frame = INTEGRITY.frame(rows)
    assert parquet_bytes(frame, 1) == parquet_bytes(frame.clone(), 1)
    assert parquet_frame(INTEGRITY, parquet_bytes(frame, 1)).equals(frame)


@pytest.mark.parametrize("epoch", [-1, 10_000_000])
def test_an_epoch_outside_its_names_is_refused(epoch: int) -> None:
    with pytest.raises(ValueError, match="epoch"):
        epoch_name(epoch)


def test_epoch_names_order_as_epochs_do() -> None:
    assert sorted(map(epoch_name, (100, 9, 23))) == [epoch_name(9), epoch_name(23), epoch_name(100)]


WRITER = """
import sys
from affine_dagster.store import Store
store = Store(sys.argv[1])
n = 0
while True:
    store.create(f"k/{n:06d}", b"x" * 200_000)
    print(n, flush=True)
    n += 1
"""


def test_a_killed_writer_leaves_only_whole_files(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(40)]
        os.kill(writer.pid, signal.SIGKILL)
    store = Store(str(tmp_path))
    names = store.names("k/")
    assert len(names) >= len(acknowledged)
    assert all(len(store.get(name) or b"") == 200_000 for name in names)


def _many_tasks(epoch: int, rows: int) -> pl.DataFrame:
    return pl.concat([TASKS.empty(), *(_tasks(epoch, seed).with_columns(index=pl.lit(seed, pl.Int64)) for seed in range(rows))])


@given(
    written=st.dictionaries(st.integers(0, 30), st.integers(0, 4), max_size=6), asked=st.sets(st.integers(0, 30), max_size=10),
    narrow=st.booleans(),
)
def test_many_epochs_at_once_are_what_each_is_alone(
    tmp_path_factory: pytest.TempPathFactory, written: dict[int, int], asked: set[int], narrow: bool
) -> None:
    tables = Tables(Store(str(tmp_path_factory.mktemp("store"))))
    for epoch, rows in written.items():
        tables.write(TASKS, epoch, _many_tasks(epoch, rows))
    columns = ["seed", "environment"] if narrow else None
    found = tables.many(TASKS, sorted(asked), columns)
    assert sorted(found) == sorted(asked & written.keys())
    for epoch, frame in found.items():
        assert frame.equals(tables.need(TASKS, epoch).select(columns or list(TASKS.columns)))
