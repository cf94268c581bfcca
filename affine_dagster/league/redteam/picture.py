"""What each strategy gains under each rule, as one picture.

What must not go in: any figure that the table (``earnings.py``) does not have.
"""

from __future__ import annotations

import io

import numpy as np
import polars as pl

__all__ = ["earnings_png"]


def earnings_png(table: pl.DataFrame) -> bytes:
    """A PNG of EARNINGS: rules across, strategies down, in a cell the gain in points of weight; red gains, blue loses, 0 is exactly 0."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rules = table["rule"].unique(maintain_order=True).to_list()
    strategies = table["strategy"].unique(maintain_order=True).to_list()
    gains = {(rule, strategy): gain for rule, strategy, gain in table.select("rule", "strategy", "gain").iter_rows()}
    points = 100 * np.array([[gains[rule, strategy] for rule in rules] for strategy in strategies])
    figure = Figure(figsize=(1.15 * len(rules) + 2.4, 0.42 * len(strategies) + 2.0), dpi=90, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    limit = max(float(np.abs(points).max()), 1.0)
    shown = axes.imshow(points, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    axes.set_xticks(range(len(rules)), [rule.replace("_", "\n") for rule in rules], fontsize=8)
    axes.set_yticks(range(len(strategies)), [name.replace("_", " ") for name in strategies], fontsize=9)
    for row, column in np.ndindex(points.shape):
        value = points[row, column]
        text = "0" if value == 0 else f"{value:+.1f}"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if abs(value) > 0.6 * limit else "black")
    axes.set_title("What a strategy gains over its baseline, in points of weight", fontsize=10)
    figure.colorbar(shown, ax=axes, shrink=0.8)
    buffer = io.BytesIO()
    canvas.print_png(buffer)
    return buffer.getvalue()
