"""The rule of docs/writing-a-rule.md is a rule: what the page shows runs, and is short."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from affine_dagster.scoring.rule import EpochInputs
from affine_dagster.scoring.rules.matrix import Entrant, TaskMatrix
from affine_dagster.scoring.rules.protocol import Round
from affine_dagster.tables import PLAN, REWARDS

PAGE = (Path(__file__).parents[2] / "docs" / "writing-a-rule.md").read_text()
INPUTS = EpochInputs(1, 1, PLAN.empty(), REWARDS.empty(), REWARDS.empty(), {}, ["ada", "bob", "cy"], "burn")
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = ModuleType("best_mean")
    monkeypatch.setitem(sys.modules, "best_mean", made)  # where a dataclass looks for its module
    (code,) = CODE
    exec(compile(code, "docs/writing-a-rule.md", "exec"), vars(made))  # noqa: S102 - our own page
    return made.BestMean()


def test_it_takes_under_forty_lines() -> None:
    assert len(PAGE.splitlines()) < 40


def test_it_pays_the_best_mean_and_says_where_results_are_missing(rule: Any) -> None:
    who = (Entrant("ada", "a", 1, 0), Entrant("bob", "b", 2, 1), Entrant("cy", "c", 3, 2))
    steps = np.array([[[500, 500]], [[1000, 1000]], [[1000, -(2**14)]]], dtype=np.int32)
    ruling = rule.advance(rule.begin(), Round.of_matrix(INPUTS, TaskMatrix(("sort",), who, steps), "zero", 2))
    assert [one.share for one in ruling.placings] == [0, 1, 0]
    assert [one.reason for one in ruling.placings] == ["outscored", "best_mean", "not_decidable"]
    assert ruling.coverage == 0.5


def test_it_stands_where_nobody_takes_part(rule: Any) -> None:
    assert rule.advance(None, Round.of_matrix(INPUTS, TaskMatrix(("sort",), (), np.zeros((0, 1, 0), np.int32)), "zero", 2)).placings == ()
