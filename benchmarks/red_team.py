"""Points of weight that each strategy gains under ``frontier_credits`` and what honest miners lose by it, beside champion_challenger.

Also false and missed crowns. What must not go in: a figure of a rule that the command
``affine redteam`` does not print.
"""

from __future__ import annotations

import os

import polars as pl

from affine_dagster.league.redteam.earnings import OURS, earnings, strategies_named
from benchmarks._figures import Figure

__all__ = ["run"]

MARKETS, EPOCHS, SEED = 40, 12, 1000
OTHER = "champion_challenger"


def run() -> list[Figure]:
    """A figure a strategy for its gain and for its cost, and the false and missed crowns over all of them."""
    markets = int(os.environ.get("AFFINE_REDTEAM_MARKETS", MARKETS))
    table = earnings(strategies_named(["all"]), markets, EPOCHS, lambda name: print(f"  played {name}", flush=True), SEED)
    ours, other = (table.filter(pl.col("rule") == rule).to_dicts() for rule in (OURS, OTHER))
    note = f"mean of {markets} markets of {EPOCHS} epochs, 95 % interval"
    figures = []
    for one, old in zip(ours, other, strict=True):
        for name, words in (("gain", "gains over"), ("cost", "costs the honest miners, beside")):
            title = f"{one['strategy']} {words} {one['against']}"
            low, high = 100 * one[f"{name}_lower"], 100 * one[f"{name}_upper"]
            exact = "; exactly 0 in every market" if one[name] == low == high == 0 else ""
            figures.append(Figure(title, 100 * one[name], "points", low, high, 100 * old[name], OTHER, note + exact))
    for name in ("false_crowns", "missed_crowns"):
        means = [sum(row[name] for row in rows) / len(rows) for rows in (ours, other)]
        figures.append(Figure(name.replace("_", " ") + " a market, all strategies", means[0], "", comparison=means[1], against=OTHER))
    return figures
