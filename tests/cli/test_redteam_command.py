"""``affine redteam``: a table a rule, a picture, and one clear error for an unknown strategy."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from affine_dagster.cli.main import main
from affine_dagster.scoring.rules.replay import EARLIER_RULES

SMALL = ["redteam", "--strategies", "copier,sybil", "--markets", "1", "--epochs", "3"]


def test_it_prints_every_rule_and_every_strategy_that_was_asked_for() -> None:
    result = CliRunner().invoke(main, SMALL)
    assert result.exit_code == 0, result.output
    assert all(name in result.output for name in (*EARLIER_RULES, "frontier_credits", "copier", "sybil"))


def test_it_says_where_nothing_was_gained_at_all() -> None:
    _, _, ours = CliRunner().invoke(main, SMALL).output.partition("frontier_credits")
    assert ours.count("exactly 0") == 4


def test_the_picture_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    picture = tmp_path / "gains.png"
    CliRunner().invoke(main, [*SMALL, "--picture", str(picture)])
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_an_unknown_strategy_is_one_clear_error() -> None:
    result = CliRunner().invoke(main, ["redteam", "--strategies", "burglar"])
    assert result.exit_code == 1
    assert "bad_settings" in result.output
    assert "burglar" in result.output
