"""``affine simulate``: a table of strategies beside an oracle, the same on both engines."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from affine_dagster.cli import simulate
from affine_dagster.cli.main import main
from affine_dagster.league.simulation.state import CLASSES

SMALL = ["simulate", "--leagues", "8", "--epochs", "12"]


def told(engine: str) -> str:
    """What the command prints, without the line that names the engine."""
    result = CliRunner().invoke(main, [*SMALL, "--engine", engine])
    assert result.exit_code == 0, result.output
    return re.sub(r"engine \w+", "", result.output)


def test_it_prints_every_strategy_and_both_engines_print_the_same() -> None:
    shown = told("numpy")
    assert all(name in shown for name in CLASSES)
    assert "total variation" in shown
    assert shown == told("jax")


def test_an_engine_that_is_not_installed_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "find_spec", lambda _: None)
    result = CliRunner().invoke(main, [*SMALL, "--engine", "jax"])
    assert result.exit_code == 1
    assert "simulate" in result.output
    assert simulate.chosen_engine("auto") == "numpy"
