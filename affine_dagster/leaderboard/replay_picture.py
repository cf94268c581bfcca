"""The weights over time under each rule, a panel a rule: whom history would have paid.

What must not go in: Dagster, or any choice of who is paid.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from affine_dagster.leaderboard.replays import FULL_WEIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MAX_NAMED", "replay_png"]

MAX_NAMED = 10
"""Hotkeys that get a colour and a name, those with the most weight in all; the others are grey together."""

_COLUMNS = 3
_GREY = "#bbbbbb"


def replay_png(weights: pl.DataFrame, names: Mapping[str, str]) -> bytes:
    """A PNG of stacked shares by epoch, a panel for each rule in the order of the rows. ``weights``: see :func:`replays.with_paid`."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    rules = weights["rule"].unique(maintain_order=True).to_list()
    most = weights.group_by("hotkey").agg(pl.sum("weight")).filter(pl.col("weight") > 0)
    named = most.sort(["weight", "hotkey"], descending=[True, False])["hotkey"].head(MAX_NAMED).to_list()
    rows = -(-max(len(rules), 1) // _COLUMNS)
    figure = Figure(figsize=(4.2 * _COLUMNS, 2.6 * rows + 1.0), dpi=80, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    palette = colormaps["tab10"]
    for place, rule in enumerate(rules, start=1):
        axes = figure.add_subplot(rows, _COLUMNS, place)
        _stacked(axes, weights.filter(pl.col("rule") == rule), named, [palette(rank) for rank in range(len(named))], names)
        axes.set(title=rule.replace("_", " "), ylim=(0, 1.02))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if rules:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, max(len(labels), 1)), fontsize=8, frameon=False)
    figure.suptitle("Share of the weights by epoch")
    buffer = io.BytesIO()
    canvas.print_png(buffer)
    return buffer.getvalue()


def _stacked(axes: Axes, own: pl.DataFrame, named: Sequence[str], colours: Sequence[object], names: Mapping[str, str]) -> None:
    """Bars, one an epoch: the named hotkeys from below, then all others as one."""
    epochs = own["epoch"].unique().sort().to_list()
    bottom = dict.fromkeys(epochs, 0.0)
    shares = {(epoch, hotkey): weight / FULL_WEIGHT for epoch, hotkey, weight in own.select("epoch", "hotkey", "weight").iter_rows()}
    for hotkey, colour in zip(named, colours, strict=True):
        heights = [shares.pop((epoch, hotkey), 0.0) for epoch in epochs]
        axes.bar(epochs, heights, bottom=list(bottom.values()), width=1.0, color=colour, label=names.get(hotkey, hotkey))
        bottom = {epoch: below + height for (epoch, below), height in zip(bottom.items(), heights, strict=True)}
    rest = [sum(share for (at, _), share in shares.items() if at == epoch) for epoch in epochs]
    if any(rest):
        axes.bar(epochs, rest, bottom=list(bottom.values()), width=1.0, color=_GREY, label="others")
