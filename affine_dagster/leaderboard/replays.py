"""A replay for people: who would have been paid how much, what each rule did when, and what it could not tell.

What must not go in: any rule, and Dagster or a terminal.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from affine_dagster.store import Tables
from affine_dagster.tables import EPOCHS, FINGERPRINTS, WEIGHTS

__all__ = ["FULL_WEIGHT", "PAID", "hotkey_names", "mean_shares", "what_rules_did", "with_paid"]

FULL_WEIGHT = 65_535
"""What the weights of an epoch sum to."""

PAID = "paid"
"""Stands for a rule's name where it is what was really paid."""


def hotkey_names(tables: Tables, epoch: int) -> Mapping[str, str]:
    """What each hotkey committed last, by name; and who the subnet's owner is, to whom weights are burned."""
    owner = str(tables.need(EPOCHS, epoch).row(0, named=True)["owner_hotkey"])
    prints = tables.until(FINGERPRINTS, epoch, columns=("hotkey", "repo", "genesis", "block", "extrinsic_index"))
    prints = prints.filter(~pl.col("genesis")).sort("block", "extrinsic_index")
    return {owner: "the subnet's owner"} | dict(prints.select("hotkey", "repo").iter_rows())


def with_paid(tables: Tables, scorer: str, replayed: pl.DataFrame) -> pl.DataFrame:
    """Columns ``epoch``, ``rule``, ``hotkey``, ``weight``: what was paid under the rule's name :data:`PAID`, then REPLAYED rows."""
    columns = ["epoch", "rule", "hotkey", "weight"]
    kept = [tables.read(WEIGHTS, epoch, scorer) for epoch in replayed["epoch"].unique().sort()]
    frames = [frame.with_columns(rule=pl.lit(PAID)).select(columns) for frame in kept if frame is not None]
    return pl.concat([*frames, replayed.select(columns)])


def mean_shares(weights: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """A row a hotkey that anybody pays, by name: ``who``, then a column a rule: its mean share over the epochs, None where it is 0."""
    epochs = weights["epoch"].n_unique()
    share = (pl.col("weight").sum() / (FULL_WEIGHT * epochs)).alias("share")
    rules = weights["rule"].unique(maintain_order=True)
    means = weights.filter(pl.col("weight") > 0).group_by("rule", "hotkey").agg(share)
    who = pl.col("hotkey").replace(names)
    wide = means.pivot("rule", index="hotkey", values="share").select(who.alias("who"), pl.all().exclude("hotkey"))
    for rule in rules:
        if rule not in wide.columns:
            wide = wide.with_columns(pl.lit(None, pl.Float64).alias(rule))
    return wide.select("who", *rules).sort("who")


def what_rules_did(replayed: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """A row a rule, with whom it crowned and terminated.

    Columns: ``rule``, ``decidable`` (epochs with all results that it asks for), ``epochs``, ``coverage`` (the least of any entrant in any
    epoch), ``crowned`` and ``terminated`` (who, and in which epoch).
    """
    found = []
    for (rule,), own in replayed.group_by(["rule"], maintain_order=True):
        least = own.group_by("epoch").agg(pl.min("coverage"))
        found.append(
            {
                "rule": str(rule), "decidable": least.filter(pl.col("coverage") >= 1).height, "epochs": least.height,
                "coverage": min(least["coverage"]), **{word: _who(own.filter(word), names) for word in ("crowned", "terminated")},
            }
        )
    schema = {
        "rule": pl.String, "decidable": pl.Int64, "epochs": pl.Int64, "coverage": pl.Float64, "crowned": pl.String, "terminated": pl.String,
    }
    return pl.DataFrame(found, schema=schema)


def _who(rows: pl.DataFrame, names: Mapping[str, str]) -> str:
    """Who and when, in order."""
    met = rows.sort("epoch", "hotkey").select("epoch", "hotkey").iter_rows()
    return ", ".join(f"{names.get(hotkey, hotkey)} in {epoch}" for epoch, hotkey in met)
