"""Laws of what runs show: small, readable, and never more rows than the bound (case D13)."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from assets.display import MAX_ROWS, picture, table


@given(st.integers(0, 5 * MAX_ROWS))
def test_a_table_shows_at_most_its_bound_of_rows(rows: int) -> None:
    shown = table(pl.DataFrame({"epoch": range(rows)}, schema={"epoch": pl.Int64}), ["epoch"])
    assert len(shown.records) == min(rows, MAX_ROWS)


def test_a_long_text_is_cut_and_a_short_one_is_not() -> None:
    shown = table(pl.DataFrame({"digest": ["a" * 64], "repo": ["acme/model"]}), ["digest", "repo"])
    assert shown.records[0].data == {"digest": "a" * 12 + "…", "repo": "acme/model"}


def test_what_is_missing_is_empty_and_never_none_or_zero() -> None:
    shown = table(pl.DataFrame({"mean": [None, 0.0]}, schema={"mean": pl.Float64}), ["mean"])
    assert [record.data["mean"] for record in shown.records] == ["", "0.0000"]


def test_only_the_named_columns_are_shown_in_their_order() -> None:
    shown = table(pl.DataFrame({"a": [1], "b": [2], "c": [3]}), ["c", "a"])
    assert [column.name for column in shown.schema.columns] == ["c", "a"]


def test_a_picture_is_shown_in_place() -> None:
    assert picture(b"\x89PNG").value == "![picture](data:image/png;base64,iVBORw==)"
