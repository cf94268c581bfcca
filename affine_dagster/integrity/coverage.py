"""Is the epoch's evaluation sound: coverage of each model, and the breaker for "many different models fail alike".

What must not go in: verdicts on models. A finding here can only withhold a verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import polars as pl

from affine_dagster.reasons import Fault
from affine_dagster.settings import EvaluationSettings
from affine_dagster.tables import INTEGRITY

__all__ = ["breaker_open", "coverage_findings", "fault_findings", "fresh_gap_findings"]

BREAKER = "breaker"


def coverage_findings(epoch: int, rewards: pl.DataFrame, settings: EvaluationSettings) -> pl.DataFrame:
    """INTEGRITY rows: the share of run tasks with a result, a model and environment. Below the floor there is no verdict."""
    shares = (
        rewards.group_by("weights_digest", "environment")
        .agg(share=pl.col("reward").is_not_null().mean(), missing=pl.col("reward").is_null().sum())
        .sort("weights_digest", "environment")
    )
    return INTEGRITY.frame(
        {
            "epoch": epoch,
            "check": "coverage",
            "subject": f"{digest}/{environment}",
            "ok": share >= settings.coverage_floor,
            "value": share,
            "threshold": settings.coverage_floor,
            "reason": None if share >= settings.coverage_floor else "low_coverage",
            "detail": f"{missing} tasks without a result",
        }
        for digest, environment, share, missing in shares.iter_rows()
    )


def fault_findings(epoch: int, rewards: pl.DataFrame, known_good: Collection[str], settings: EvaluationSettings) -> pl.DataFrame:
    """INTEGRITY rows: each reason that stopped models this epoch, and whether so many failed alike that the platform is at fault.

    A model fails with a reason if at least half of its rows carry it. The breaker opens only when a model of ``known_good``
    (incumbents, which have worked before) fails with it too: otherwise a stranger could stop an epoch's verdicts by submitting
    many broken models, or many that are too large to be loaded here. Where none of ``known_good`` ran, a fault that is not the
    models' own is believed without.
    """
    sizes = dict(rewards["weights_digest"].value_counts().iter_rows())
    ran, known = frozenset(sizes), frozenset(known_good) & frozenset(sizes)
    threshold = max(float(settings.breaker_models), settings.breaker_share * len(ran))
    rows: list[dict[str, object]] = []
    for (reason, fault), digests in _failing(rewards, sizes):
        believed = not known.isdisjoint(digests) or (fault != Fault.MODEL and not known)
        opens = believed and len(digests) >= threshold
        rows.append(
            {
                "epoch": epoch,
                "check": BREAKER,
                "subject": reason,
                "ok": not opens,
                "value": float(len(digests)),
                "threshold": threshold,
                "reason": "breaker_open" if opens else None,
                "detail": ", ".join(digest[:12] for digest in digests),
            }
        )
    return INTEGRITY.frame(rows)


def _failing(rewards: pl.DataFrame, sizes: Mapping[str, int]) -> list[tuple[tuple[str | None, str], list[str]]]:
    """By reason and fault, sorted, the weights digests that failed so, sorted; ``sizes``: all rows of each."""
    faulty = rewards.filter(pl.col("fault").is_not_null()).select("weights_digest", "reason", "fault")
    failing: dict[tuple[str | None, str], list[str]] = {}
    for (digest, reason, fault), count in Counter(faulty.iter_rows()).items():
        if count * 2 >= sizes[digest]:
            failing.setdefault((reason, fault), []).append(digest)
    return [(why, sorted(failing[why])) for why in sorted(failing, key=lambda why: (why[0] or "", why[1]))]


def fresh_gap_findings(epoch: int, rewards: pl.DataFrame, earlier: pl.DataFrame) -> pl.DataFrame:
    """INTEGRITY rows: mean reward on this epoch's fresh tasks minus the mean on earlier epochs' tasks, a model and environment.

    A model that memorised old tasks shows a large negative value. It is shown, not judged, here.
    """
    columns = ["weights_digest", "environment"]
    fresh = rewards.group_by(columns).agg(fresh=pl.col("reward").mean())
    old = earlier.group_by(columns).agg(old=pl.col("reward").mean(), n=pl.col("reward").count())
    both = fresh.join(old, on=columns).drop_nulls().sort(columns)
    return INTEGRITY.frame(
        {
            "epoch": epoch,
            "check": "fresh_gap",
            "subject": f"{digest}/{environment}",
            "ok": True,
            "value": new - before,
            "threshold": None,
            "reason": None,
            "detail": f"fresh {new:.3f}, earlier {before:.3f} over {n} tasks",
        }
        for digest, environment, new, before, n in both.select(*columns, "fresh", "old", "n").iter_rows()
    )


def breaker_open(findings: pl.DataFrame) -> bool:
    """Whether the epoch's findings withhold all verdicts."""
    return findings.filter((pl.col("check") == BREAKER) & ~pl.col("ok")).height > 0
