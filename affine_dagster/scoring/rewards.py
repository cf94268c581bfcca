"""The boundary of scoring: REWARDS rows checked, quantised and laid out by task.

Everything behind it sees integers only. What must not go in: evidence and intervals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from affine_dagster.reasons import AffineError, Fault
from affine_dagster.scoring.histogram import MISSING, Steps, quantised

__all__ = ["Runs", "checked_rewards", "codes", "part", "runs_of", "task_steps"]

_TASK = ["environment", "purpose", "task_epoch", "index", "weights_digest"]


def checked_rewards(rewards: pl.DataFrame, environments: Collection[str]) -> pl.DataFrame:
    """One row a task and model of these environments, with ``steps`` (thousandths, or ``MISSING``) and ``model_fault``.

    A model fault is reward 0; any other fault is missing. Where several epochs ran the same task, the earliest result counts.
    Raises ``bad_table`` on a reward that is NaN, infinite or outside [0, 1], and on no reward without a fault.
    """
    model_fault = pl.col("fault").eq(str(Fault.MODEL)).fill_null(False)
    known = pl.when(model_fault).then(0.0).when(pl.col("fault").is_null()).then("reward")
    rows = rewards.lazy().filter(pl.col("environment").is_in(list(environments))).select(
        "epoch", *_TASK, model_fault.alias("model_fault"), known.alias("steps"), (pl.col("fault").is_null()).alias("sound"),
    ).collect()
    found = rows["steps"]
    if (rows["sound"] & found.is_null()).any():
        raise AffineError("bad_table", "rewards: a row has neither a reward nor a fault")
    steps = quantised(found.fill_null(0.0).to_numpy(), found.is_not_null().to_numpy())
    rows = rows.drop("sound").with_columns(pl.Series("steps", steps))
    if rows["epoch"].n_unique() > 1:  # the key of a table has the epoch in it, so one epoch has no task twice
        rows = rows.sort(pl.col("steps") == MISSING, "epoch").unique(_TASK, keep="first", maintain_order=True)
    return rows


def codes(names: pl.Series) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """The distinct names in order of first appearance, and the place of each row's name among them."""
    distinct = names.unique(maintain_order=True)
    return tuple(distinct), names.cast(pl.Enum(distinct)).to_physical().cast(pl.Int64).to_numpy()


@dataclass(frozen=True)
class Runs:
    """Quantised rewards, int32 of shape (models, environments, tasks), ``MISSING`` where there is none.

    ``places``: by weights digest the place on the first axis. ``sizes``: by model and environment the last task that ran, plus one.
    The last model is one that never ran: the place of any digest that is not here.
    """

    places: Mapping[str, int]
    steps: Steps
    sizes: npt.NDArray[np.int64]

    def place(self, weights_digest: str) -> int:
        """The place of a model on the first axis."""
        return self.places.get(weights_digest, len(self.places))


def runs_of(checked: pl.DataFrame, environments: Sequence[str]) -> Runs:
    """The runs of :func:`checked_rewards` rows of one purpose and one task epoch, in the order of ``environments``."""
    digests, model = codes(checked["weights_digest"])
    names, named = codes(checked["environment"])
    environment = np.array([list(environments).index(name) for name in names], dtype=np.int64)[named] if names else named
    index = checked["index"].to_numpy()
    sizes = np.zeros((len(digests) + 1, len(environments)), dtype=np.int64)
    np.maximum.at(sizes, (model, environment), index + 1)
    steps = np.full((*sizes.shape, int(sizes.max(initial=0))), MISSING, dtype=np.int32)
    steps[model, environment, index] = checked["steps"].to_numpy()
    return Runs({digest: at for at, digest in enumerate(digests)}, steps, sizes)


def task_steps(checked: pl.DataFrame) -> dict[tuple[str, str], Steps]:
    """By (weights digest, environment): the quantised rewards by task index from 0 to the last one that ran.

    ``checked`` holds rows of one purpose and one task epoch. An index without a row is MISSING.
    """
    environments = sorted(checked["environment"].unique())
    runs = runs_of(checked, environments)
    return {
        (digest, name): runs.steps[place, at, : runs.sizes[place, at]]
        for digest, place in runs.places.items() for at, name in enumerate(environments) if runs.sizes[place, at]
    }


def part(runs: Mapping[tuple[str, str], Steps], key: tuple[str, str], start: int, stop: int) -> Steps:
    """The tasks ``start..stop-1`` of a run, MISSING where it has none."""
    made = np.full(max(stop - start, 0), MISSING, dtype=np.int32)
    have = runs.get(key, made[:0])[start:max(stop, start)]
    made[: have.size] = have
    return made
