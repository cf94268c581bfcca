"""Whose fault it is when an engine gives no answer: the model's, once it alone has failed often enough on a task.

A task that gave ``no_answer``, ``prompt_too_long`` or ``engine_crashed`` in every attempt for one model, and has a result of
another, is the model's fault (``model_crashes_engine``, reward 0; DESIGN section 4): a prompt that fits others is long by this
model's own tokenizer, and a member whose tasks went missing at its choice would hold every challenger off. It is judged when the
epoch's jobs are over, since an incumbent runs before those that it is compared with, and written as one more attempt: nothing
that stands is changed.
What must not go in: retries.
"""

from __future__ import annotations

import polars as pl

from affine_dagster.ledger import rewards_of_rollouts
from affine_dagster.reasons import Fault
from affine_dagster.tables import ROLLOUTS

__all__ = ["crashes"]

_TASK = ["environment", "purpose", "task_epoch", "index"]
_MODEL_TASK = [*_TASK, "weights_digest"]
_CRASHED = "engine_crashed"
_PERHAPS_THE_MODELS = ("no_answer", "prompt_too_long", _CRASHED)
"""Reasons that a model can bring about alone. A grader's failure is not among them: it is never a model's fault (case E4)."""


def crashes(rollouts: pl.DataFrame, attempts: int) -> pl.DataFrame:
    """The rows to add (ROLLOUTS) for an epoch's rollouts: one for each task that only this model failed, ``attempts`` times.

    ``attempt`` is one above the highest of the model in the epoch, the same for all of its rows. Judging again adds nothing.
    """
    rewards = rewards_of_rollouts(rollouts)
    answered = rewards.filter(pl.col("fault").is_null()).select(_TASK).unique()
    suspect = pl.col("reason").is_in(_PERHAPS_THE_MODELS)
    failed = _survived(rewards).filter(suspect).select(_MODEL_TASK)
    times = rollouts.filter(suspect).group_by(_MODEL_TASK).len("times").filter(pl.col("times") >= attempts)
    guilty = failed.join(answered, on=_TASK, how="semi").join(times, on=_MODEL_TASK, how="semi")
    last = rollouts.join(guilty, on=_MODEL_TASK, how="semi").sort("attempt").unique(_MODEL_TASK, keep="last", maintain_order=True)
    next_attempt = rollouts.group_by("weights_digest").agg((pl.col("attempt").max() + 1).alias("attempt"))
    judged = last.drop("attempt").join(next_attempt, on="weights_digest").with_columns(
        reward=pl.lit(0.0), fault=pl.lit(Fault.MODEL.value), reason=pl.lit("model_crashes_engine"),
    )
    return ROLLOUTS.check(judged.select(ROLLOUTS.schema.names()).sort(ROLLOUTS.key))


def _survived(rewards: pl.DataFrame) -> pl.DataFrame:
    """The rewards without the crashes after which the model answered nothing more.

    A machine that breaks while others have their answers already crashes whatever runs then. That the same model answered a task
    of the same index or a later one shows that the machine was still able to run it.
    """
    shared = ["weights_digest", "purpose", "task_epoch"]
    reached = rewards.filter(pl.col("fault").is_null()).group_by(shared).agg(pl.col("index").max().alias("reached"))
    known = rewards.join(reached, on=shared, how="left")
    lived_on = (pl.col("index") <= pl.col("reached")).fill_null(value=False)
    return known.filter((pl.col("reason") != _CRASHED).fill_null(value=True) | lived_on)
