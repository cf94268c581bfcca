"""Whom a planned challenger must beat, with what earlier epochs know of each pair: the contest that its looks are judged by.

What must not go in: reading tables (``run.py``), and the look itself (``stopping.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from affine_dagster.evaluation.job import Contest, Opponent
from affine_dagster.scoring.contest import ContestRule, ContestState
from affine_dagster.scoring.histogram import Histogram
from affine_dagster.settings import Settings

__all__ = ["PriorPairs", "contest_of"]

Row = Mapping[str, Any]


@dataclass(frozen=True)
class PriorPairs:
    """By (challenger, incumbent): the newest CONTESTS row, and the newest merged histogram of each environment."""

    contests: Mapping[tuple[str, str], Row]
    evidence: Mapping[tuple[str, str], tuple[tuple[str, Histogram], ...]]

    @classmethod
    def of(cls, contests: pl.DataFrame, evidence: pl.DataFrame, challengers: Collection[str]) -> PriorPairs:
        """Those of some challengers, from the CONTESTS and EVIDENCE rows of earlier epochs."""
        histograms: dict[tuple[str, str], tuple[tuple[str, Histogram], ...]] = {}
        for row in _newest(evidence, challengers, "challenger", "incumbent", "environment"):
            pair = (row["challenger"], row["incumbent"])
            known = (row["environment"], Histogram.from_rows(row["histogram"], row["missing"]))
            histograms[pair] = (*histograms.get(pair, ()), known)
        standing = _newest(contests, challengers, "challenger", "incumbent")
        return cls({(row["challenger"], row["incumbent"]): row for row in standing}, histograms)


def _newest(frame: pl.DataFrame, challengers: Collection[str], *key: str) -> list[dict[str, Any]]:
    chosen = frame.filter(pl.col("challenger").is_in(list(challengers)))
    return chosen.sort("epoch", *key).unique(list(key), keep="last", maintain_order=True).to_dicts()


def contest_of(row: Row, prior: PriorPairs, settings: Settings) -> Contest:
    """The contest of a challenger's PLAN row."""
    return Contest(tuple(_opponent(row, digest, prior, settings) for digest in row["opponents"]), settings.evaluation.environments)


def _opponent(row: Row, digest: str, prior: PriorPairs, settings: Settings) -> Opponent:
    """The pair as scoring will judge it: an earlier epoch's alpha and discordance stand, and so does a win."""
    pair = (row["weights_digest"], digest)
    before = prior.contests.get(pair)
    fixed = row if before is None else before
    return Opponent(
        weights_digest=digest, rule=ContestRule.of(settings.scoring, settings.evaluation, fixed["alpha"], fixed["discordance"]),
        epochs=0 if before is None else before["epochs"], won=before is not None and before["state"] == ContestState.WON,
        histograms=prior.evidence.get(pair, ()),
    )
