"""Scores for people: the mean reward of each model in each environment, with its interval and what is missing.

No decision is made from these. What must not go in: anything that the frontier or the credits use.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import polars as pl

from affine_dagster.scoring.counts import Counts
from affine_dagster.scoring.histogram import MISSING, Histogram
from affine_dagster.scoring.intervals import Interval, reward_intervals
from affine_dagster.scoring.rewards import checked_rewards
from affine_dagster.settings import Settings
from affine_dagster.tables import SCORES

__all__ = ["epoch_scores", "overall_means"]


def epoch_scores(rewards: pl.DataFrame, settings: Settings, epoch: int) -> pl.DataFrame:
    """The SCORES rows of the epoch's REWARDS rows (others are ignored), sorted by key.

    ``n`` = ``n_ok`` + ``n_model_fault`` + ``n_missing``. The mean is over results, model faults counted as 0; the interval
    (level 1 − assay_alpha) counts missing tasks against both of its ends (case E10). What did not run has no row: never 0 (S11).
    """
    checked = checked_rewards(rewards.filter(pl.col("epoch") == epoch), settings.evaluation.environments)
    groups = list(checked.group_by(["weights_digest", "environment", "purpose"], maintain_order=True))
    seen = [Histogram.of_steps(rows["steps"].to_numpy()) for _, rows in groups]
    intervals = reward_intervals(Counts.of_histograms(seen), settings.scoring.assay_alpha)
    made = [
        {"epoch": epoch, "weights_digest": key[0], "environment": key[1], "purpose": key[2], **_score(rows, seen[at], intervals.row(at))}
        for at, (key, rows) in enumerate(groups)
    ]
    return SCORES.frame(made).sort(SCORES.key)


def _score(rows: pl.DataFrame, seen: Histogram, interval: Interval) -> dict[str, Any]:
    faults = rows.filter(pl.col("model_fault") & (pl.col("steps") != MISSING)).height
    return {
        "n": seen.tasks, "n_ok": seen.observed - faults, "n_model_fault": faults, "n_missing": seen.missing,
        "mean": seen.mean, "lower": interval.lower, "upper": interval.upper,
    }


def overall_means(scores: pl.DataFrame, environments: Collection[str], purpose: str = "contest") -> pl.DataFrame:
    """By weights digest: ``mean`` of the environments' means, each environment once however many tasks it has (case S10).

    None where an environment has no mean: not evaluated is not 0 (case S11). Columns ``weights_digest``, ``mean``; sorted by digest.
    """
    mine = scores.filter((pl.col("purpose") == purpose) & pl.col("environment").is_in(list(environments))).sort(SCORES.key)
    whole = pl.col("mean").count() == len(set(environments))
    return mine.group_by("weights_digest").agg(pl.when(whole).then(pl.col("mean").sort().mean()).alias("mean")).sort("weights_digest")
