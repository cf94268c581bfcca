"""Laws of names: whoever came first gives weights their name, and what has none is not made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from affine_dagster.leaderboard.names import known_names
from affine_dagster.store import Store, Tables
from affine_dagster.tables import FINGERPRINTS, SUBMISSIONS

Books = Any
"""``conftest.Books``; a conftest is not imported by name."""

EPOCH = 5


@pytest.fixture
def tables(books: Books, tmp_path: Path) -> Tables:
    """Genesis, an origin, its copy a block later, and garbage."""
    made = books.origin("a1", repo="ada/first").origin("b1", repo="bob/second", block=11)
    made = made.related("b1", "exact_copy", "exact_copy", repo="bob/second", block=11, weights_digest="A1")
    made = made.committed("c1", state="undecodable", reason="undecodable", repo=None)
    found = Tables(Store(str(tmp_path)))
    for table in (SUBMISSIONS, FINGERPRINTS):
        frame = made.frames[table.name]
        found.write(table, EPOCH, frame.unique("submission_id", keep="last", maintain_order=True))
    return found


@pytest.mark.parametrize(
    ("key", "name"), [("a1", "ada/first"), ("b1", "bob/second"), ("genesis-0", "affine/base"), ("BASE", "affine/base")]
)
def test_ids_and_digests_have_their_repository_s_name(tables: Tables, key: str, name: str) -> None:
    assert known_names(tables, EPOCH)[key] == name


def test_a_copy_does_not_name_its_origin(tables: Tables) -> None:
    assert known_names(tables, EPOCH)["A1"] == "ada/first"


def test_what_was_committed_without_a_repository_has_no_name(tables: Tables) -> None:
    assert "c1" not in known_names(tables, EPOCH)


def test_what_is_committed_later_is_not_known_yet(tables: Tables) -> None:
    assert known_names(tables, EPOCH - 1) == {}
