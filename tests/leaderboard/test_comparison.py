"""Laws of a re-scoring beside the first scoring: what differs is shown, under both names, and nothing else."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from affine_dagster.leaderboard.comparison import ONE_SCORER, side_by_side
from affine_dagster.tables import STANDINGS

Books = Any
"""``conftest.Books``; a conftest is not imported by name."""


@pytest.fixture
def first(books: Books) -> pl.DataFrame:
    """Two accepted models, one of them paid, and garbage without a repository."""
    made = books.origin("a1", hotkey="h-a").member("a1").credited("a1").paid("h-a")
    return made.origin("b1", hotkey="h-b", block=11).committed("c1", state="undecodable", reason="undecodable", repo=None).standings()


def _with(frame: pl.DataFrame, submission: str, **values: object) -> pl.DataFrame:
    here = pl.col("submission_id") == submission
    return frame.with_columns(pl.when(here).then(pl.lit(value)).otherwise(name).alias(name) for name, value in values.items())


def test_where_all_agree_there_is_no_row(first: pl.DataFrame) -> None:
    assert side_by_side({"s1": first, "s2": first}).is_empty()


def test_one_scorer_alone_has_no_rows_and_no_other_columns(first: pl.DataFrame) -> None:
    made = side_by_side({"s1": first})
    assert made.is_empty()
    assert len(made.columns) == ONE_SCORER


def test_no_scorer_at_all_is_an_empty_comparison() -> None:
    assert side_by_side({}).columns == ["model"]


def test_another_share_is_shown_beside_the_first(first: pl.DataFrame) -> None:
    (row,) = side_by_side({"s1": first, "s2": _with(first, "a1", weight=0)}).to_dicts()
    assert row == {"model": "a1/model", "s1 share": 1.0, "s2 share": 0.0}


def test_another_reason_is_shown_beside_the_first(first: pl.DataFrame) -> None:
    (row,) = side_by_side({"s1": first, "s2": _with(first, "b1", state="regressed", reason="regressed")}).to_dicts()
    assert (row["model"], row["s1 reason"], row["s2 reason"]) == ("b1/model", "waiting", "regressed")


def test_a_share_that_only_one_scorer_gives_is_a_difference(first: pl.DataFrame) -> None:
    (row,) = side_by_side({"s1": first, "s2": _with(first, "a1", weight=None)}).to_dicts()
    assert (row["s1 share"], row["s2 share"]) == (1.0, None)


def test_a_submission_without_a_repository_goes_by_its_id(first: pl.DataFrame) -> None:
    (row,) = side_by_side({"s1": first, "s2": _with(first, "c1", reason="review")}).to_dicts()
    assert row["model"] == "c1"


def test_one_that_a_scorer_does_not_know_is_null_there(first: pl.DataFrame) -> None:
    made = side_by_side({"s1": STANDINGS.empty(), "s2": first})
    assert made["s1 reason"].null_count() == made.height == first.height


def test_three_scorers_stand_in_the_order_given(first: pl.DataFrame) -> None:
    made = side_by_side({"s3": first, "s1": first, "s2": _with(first, "a1", weight=1, reason="no_credit")})
    assert made.columns == ["model", "s3 share", "s1 share", "s2 share", "s3 reason", "s1 reason", "s2 reason"]
    assert made.height == 1
