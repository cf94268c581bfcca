"""A replay as people read it: shares that add up, who was crowned when, and a picture that is one."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from affine_dagster.leaderboard.replay_picture import replay_png
from affine_dagster.leaderboard.replays import FULL_WEIGHT, mean_shares, what_rules_did
from affine_dagster.tables import REPLAYED

NAMES = {"h1": "ada/one", "h2": "bob/two"}


def row(epoch: int, rule: str, hotkey: str, weight: int, **more: Any) -> dict[str, Any]:
    return {
        "epoch": epoch, "rule": rule, "version": 1, "hotkey": hotkey, "weights_digest": "w", "weight": weight,
        "share": weight / FULL_WEIGHT, "crowned": False, "terminated": False, "reason": "r", "detail": "", "coverage": 1.0, **more,
    }


ROWS = REPLAYED.frame([
    row(1, "first", "h1", FULL_WEIGHT, crowned=True), row(1, "first", "h2", 0, coverage=0.5),
    row(1, "second", "h1", 0), row(1, "second", "h2", 0),
    row(2, "first", "h2", FULL_WEIGHT, crowned=True), row(2, "first", "h1", 0, terminated=True),
    row(2, "second", "h3", 0), row(2, "second", "h1", 0),
])


def test_mean_shares_are_over_all_epochs_and_name_only_who_is_paid() -> None:
    made = mean_shares(ROWS.select("epoch", "rule", "hotkey", "weight"), NAMES)
    assert made.to_dicts() == [{"who": "ada/one", "first": 0.5, "second": None}, {"who": "bob/two", "first": 0.5, "second": None}]


def test_what_a_rule_did_is_told_with_who_and_when() -> None:
    first, second = what_rules_did(ROWS, NAMES).to_dicts()
    assert first == {
        "rule": "first", "decidable": 1, "epochs": 2, "coverage": 0.5,
        "crowned": "ada/one in 1, bob/two in 2", "terminated": "ada/one in 2",
    }
    assert (second["decidable"], second["crowned"], second["terminated"]) == (2, "", "")


MANY = REPLAYED.frame([row(at, "all", f"h{of}", 100) for at in range(30) for of in range(20)])


@pytest.mark.parametrize("rows", [ROWS, ROWS.clear(), MANY])
def test_the_picture_is_a_png(rows: pl.DataFrame) -> None:
    assert replay_png(rows.select("epoch", "rule", "hotkey", "weight"), NAMES).startswith(b"\x89PNG")
