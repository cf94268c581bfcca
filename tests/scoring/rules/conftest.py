"""Rounds for the earlier rules: entrants with as many right answers as are asked for, on tasks in a row or drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from affine_dagster.scoring.histogram import MISSING
from affine_dagster.scoring.rule import EpochInputs
from affine_dagster.scoring.rules.matrix import Entrant, TaskMatrix
from affine_dagster.scoring.rules.protocol import Round
from affine_dagster.tables import PLAN, REWARDS


def entrant(name: str, block: int, uid: int | None = None, weights: str | None = None) -> Entrant:
    return Entrant(name, weights or f"weights of {name}", block, block if uid is None else uid)


def scores(means: Sequence[float], tasks: int, width: int) -> np.ndarray[Any, Any]:
    """Thousandths of shape (environments, width): each of the first ``tasks`` the mean itself."""
    made = np.full((len(means), width), MISSING, dtype=np.int32)
    for at, mean in enumerate(means):
        made[at, :tasks] = round(mean * 1000)
    return made


def round_of(
    skill: Mapping[str, Sequence[float]], tasks: int | Mapping[str, int] = 1000, *, count: int | None = None, epoch: int = 1,
    registered: Sequence[str] | None = None, sink: str = "sink", weights: Mapping[str, str] | None = None,
) -> Round:
    """A round in which every entrant has its mean reward on each task; they committed in the order in which they stand."""
    ran = {name: tasks if isinstance(tasks, int) else tasks[name] for name in skill}
    width = max(ran.values(), default=0)
    first = next(iter(skill.values()), ())
    environments = tuple(f"e{at}" for at in range(len(first)))
    entrants = tuple(entrant(name, at, weights=(weights or {}).get(name)) for at, name in enumerate(skill))
    steps = np.stack([scores(means, ran[name], width) for name, means in skill.items()]) if skill else np.zeros((0, 0, 0), np.int32)
    present = list(skill if registered is None else registered)
    return Round.of_matrix(inputs_of(epoch, present), TaskMatrix(environments, entrants, steps), sink, count or width)


def inputs_of(epoch: int, registered: Sequence[str], rewards: pl.DataFrame | None = None) -> EpochInputs:
    """An epoch of which an earlier rule reads only who is registered, and its rewards."""
    read = REWARDS.empty() if rewards is None else rewards
    return EpochInputs(epoch, 100 * epoch, PLAN.empty(), read, REWARDS.empty(), {}, list(registered), "burn")


@pytest.fixture
def inputs() -> Any:
    return inputs_of


@pytest.fixture
def rounds() -> Any:
    return round_of
