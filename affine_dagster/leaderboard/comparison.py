"""An epoch as two or more scorers saw it: states and shares side by side, for whoever has just re-scored it.

What must not go in: which scorer is right, and Dagster.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from affine_dagster.tables import STANDINGS

__all__ = ["FULL_WEIGHT", "ONE_SCORER", "side_by_side"]

FULL_WEIGHT = 65_535
"""What the weights of an epoch sum to (u16, as the chain takes them)."""

ONE_SCORER = 2
"""Columns of a comparison with nobody: the model's, and one scorer's share."""


def side_by_side(standings: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """One row a submission whose reason or weight any two scorers see otherwise; no row where all agree.

    ``standings``: STANDINGS of one epoch by scorer version. Columns: ``model`` (its repository; its submission id where it has
    none), then for each scorer, in the order given, ``<scorer> share`` (of the weight vector, 0 to 1; null where it is not in the
    running), then, where any reason differs, ``<scorer> reason`` for each. In the order of the commitments.
    """
    known = pl.concat([STANDINGS.empty(), *standings.values()]).unique("submission_id", keep="first", maintain_order=True)
    made = known.sort("block", "extrinsic_index", "submission_id", nulls_last=True)
    made = made.select("submission_id", model=pl.coalesce("repo", "submission_id"))
    for scorer, frame in standings.items():
        share = (pl.col("weight") / FULL_WEIGHT).alias(f"{scorer} share")
        seen = frame.select("submission_id", pl.col("reason").alias(f"{scorer} reason"), share)
        made = made.join(seen, on="submission_id", how="left", maintain_order="left")
    columns = {what: [f"{scorer} {what}" for scorer in standings] for what in ("share", "reason")}
    differs = {what: [pl.col(one).ne_missing(pl.col(names[0])) for one in names[1:]] for what, names in columns.items()}
    shares, reasons = (pl.any_horizontal(pl.lit(value=False), *found) for found in differs.values())
    rows = made.filter(shares | reasons)
    return rows.select("model", *columns["share"], *(columns["reason"] if rows.select(reasons.any()).item() else ()))

