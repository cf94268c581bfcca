"""Owners of several hotkeys, as findings for people. Who belongs together is a fact of the chain (``chain/owners.py``).

What must not go in: guesses from weights or behaviour (``kinship/``).
"""

from __future__ import annotations

import polars as pl

from affine_dagster.chain.owners import owner_clusters
from affine_dagster.tables import INTEGRITY

__all__ = ["owner_findings"]


def owner_findings(epoch: int, submissions: pl.DataFrame, swaps: pl.DataFrame) -> pl.DataFrame:
    """INTEGRITY rows: one for each owner with several hotkeys (nothing wrong with it; the frontier pays by weights, not by owner)."""
    members: dict[str, list[str]] = {}
    for hotkey, cluster in sorted(owner_clusters(submissions, swaps).items()):
        members.setdefault(cluster, []).append(hotkey)
    return INTEGRITY.frame(
        {
            "epoch": epoch,
            "check": "owner_cluster",
            "subject": cluster,
            "ok": True,
            "value": float(len(hotkeys)),
            "threshold": None,
            "reason": None,
            "detail": ", ".join(hotkeys),
        }
        for cluster, hotkeys in sorted(members.items())
        if len(hotkeys) > 1
    )
