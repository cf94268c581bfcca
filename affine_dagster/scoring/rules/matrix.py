"""Who did what on which task: the one table that every earlier rule reads, with means and counts that no order of adding can change.

What must not go in: any rule's idea of who is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from affine_dagster.scoring.histogram import MISSING, STEPS
from affine_dagster.scoring.rewards import checked_rewards

__all__ = ["Common", "Entrant", "TaskMatrix", "task_matrix"]

_TASK = ["purpose", "task_epoch", "index"]


@dataclass(frozen=True)
class Entrant:
    """A registered hotkey with its present model. ``block``: that of its first commitment of it; ``uid``: its place in the metagraph."""

    hotkey: str
    weights_digest: str
    block: int
    uid: int

    @property
    def position(self) -> tuple[int, int]:
        """Commit order as the old rules had it: block, then uid."""
        return self.block, self.uid


@dataclass(frozen=True)
class Common:
    """Two entrants on the tasks of one environment that both have: how many, and their mean rewards there (0 without tasks)."""

    tasks: int
    first: float
    second: float


@dataclass(frozen=True)
class TaskMatrix:
    """Rewards in thousandths, int32, of shape (entrants, environments, tasks); ``MISSING`` where an entrant has no result.

    ``entrants`` stand in commit order. A task is the same column for all entrants; environments with fewer tasks are filled up.
    """

    environments: tuple[str, ...]
    entrants: tuple[Entrant, ...]
    steps: npt.NDArray[np.int32]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Results, of shape (entrants, environments)."""
        found: npt.NDArray[np.int64] = (self.steps != MISSING).sum(axis=2, dtype=np.int64)
        return found

    @property
    def tasks(self) -> tuple[int, ...]:
        """Tasks that anybody has a result on, an environment."""
        return tuple(int(one) for one in (self.steps != MISSING).any(axis=0).sum(axis=1))

    @property
    def means(self) -> npt.NDArray[np.float64]:
        """Mean rewards in [0, 1], of shape (entrants, environments); 0 without results. One division of two whole numbers each."""
        sums = np.where(self.steps == MISSING, 0, self.steps).sum(axis=2, dtype=np.int64)
        found: npt.NDArray[np.float64] = sums / (STEPS * np.maximum(self.counts, 1))
        return found

    def covered(self, asked: Sequence[float]) -> dict[str, float]:
        """By hotkey the least part, over environments, of the results that are asked for there; may exceed 1."""
        parts = ([ran / least if least > 0 else 1.0 for ran, least in zip(row, asked, strict=True)] for row in self.counts.tolist())
        return {one.hotkey: min(part, default=1.0) for one, part in zip(self.entrants, parts, strict=True)}

    def common(self, first: int, second: int) -> tuple[Common, ...]:
        """Two entrants, by place, on the tasks that both have; one entry an environment."""
        both = (self.steps[first] != MISSING) & (self.steps[second] != MISSING)
        tasks = both.sum(axis=1)
        sums = [np.where(both, self.steps[one], 0).sum(axis=1, dtype=np.int64) for one in (first, second)]
        means = [total / (STEPS * np.maximum(tasks, 1)) for total in sums]
        return tuple(Common(int(count), float(one), float(other)) for count, one, other in zip(tasks, *means, strict=True))


def task_matrix(rewards: pl.DataFrame, entrants: Sequence[Entrant], environments: Sequence[str]) -> TaskMatrix:
    """The matrix of REWARDS rows. A model fault is 0, any other fault no result; two entrants with the same weights share their results.

    Raises ``bad_table`` on impossible rewards.
    """
    ordered = tuple(sorted(entrants, key=lambda entrant: (*entrant.position, entrant.hotkey)))
    rows = checked_rewards(rewards, environments).filter(pl.col("weights_digest").is_in([one.weights_digest for one in ordered]))
    columns = rows.select("environment", *_TASK).unique().sort("environment", *_TASK)
    columns = columns.with_columns(column=pl.int_range(pl.len()).over("environment"))
    laid = rows.join(columns, on=["environment", *_TASK])
    width = max(columns["column"].to_list(), default=-1) + 1
    steps = np.full((len(ordered), len(environments), width), MISSING, dtype=np.int32)
    by_model = _by_model(laid, {name: at for at, name in enumerate(environments)})
    for place, entrant in enumerate(ordered):
        if entrant.weights_digest in by_model:
            where, column, values = by_model[entrant.weights_digest]
            steps[place, where, column] = values
    return TaskMatrix(tuple(environments), ordered, steps)


_Cells = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32]]


def _by_model(laid: pl.DataFrame, places: Mapping[str, int]) -> dict[str, _Cells]:
    found: dict[str, _Cells] = {}
    for (digest,), rows in laid.group_by(["weights_digest"]):
        where = rows["environment"].replace_strict(places, return_dtype=pl.Int64).to_numpy()
        found[str(digest)] = (where, rows["column"].to_numpy(), rows["steps"].to_numpy())
    return found
