"""The boundary of scoring: REWARDS rows checked, quantised and laid out by task.

Everything behind it sees integers only. What must not go in: evidence and intervals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import polars as pl

from affine_dagster.reasons import AffineError, Fault
from affine_dagster.scoring.histogram import MISSING, Steps, quantise

__all__ = ["checked_rewards", "part", "task_steps"]

_TASK = ["environment", "purpose", "task_epoch", "index", "weights_digest"]


def checked_rewards(rewards: pl.DataFrame, environments: Collection[str]) -> pl.DataFrame:
    """One row a task and model of these environments, with ``steps`` (thousandths, or ``MISSING``) and ``model_fault``.

    A model fault is reward 0; any other fault is missing. Where several epochs ran the same task, the earliest result counts.
    Raises ``bad_table`` on a reward that is NaN, infinite or outside [0, 1], and on no reward without a fault.
    """
    rows = rewards.filter(pl.col("environment").is_in(list(environments))).select("epoch", *_TASK, "reward", "fault")
    model_fault = pl.col("fault").eq(str(Fault.MODEL)).fill_null(False)
    if rows.filter(pl.col("fault").is_null() & pl.col("reward").is_null()).height:
        raise AffineError("bad_table", "rewards: a row has neither a reward nor a fault")
    known = pl.when(model_fault).then(0.0).when(pl.col("fault").is_null()).then("reward")
    steps = quantise(rows.select(known.alias("known"))["known"].to_list())
    rows = rows.select("epoch", *_TASK, model_fault.alias("model_fault"), pl.Series("steps", steps))
    first = rows.sort(pl.col("steps") == MISSING, "epoch").unique(_TASK, keep="first", maintain_order=True)
    return first.sort(_TASK)


def task_steps(checked: pl.DataFrame) -> dict[tuple[str, str], Steps]:
    """By (weights digest, environment): the quantised rewards by task index from 0 to the last one that ran.

    ``checked`` holds rows of one purpose and one task epoch. An index without a row is MISSING.
    """
    found: dict[tuple[str, str], Steps] = {}
    for (digest, environment), rows in checked.group_by(["weights_digest", "environment"], maintain_order=True):
        index = rows["index"].to_numpy()
        laid = np.full(int(index.max()) + 1, MISSING, dtype=np.int32)
        laid[index] = rows["steps"].to_numpy()
        found[str(digest), str(environment)] = laid
    return found


def part(runs: Mapping[tuple[str, str], Steps], key: tuple[str, str], start: int, stop: int) -> Steps:
    """The tasks ``start..stop-1`` of a run, MISSING where it has none."""
    made = np.full(max(stop - start, 0), MISSING, dtype=np.int32)
    have = runs.get(key, made[:0])[start:max(stop, start)]
    made[: have.size] = have
    return made
