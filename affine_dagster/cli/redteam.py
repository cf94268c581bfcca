"""``affine redteam``: what each strategy of simulated miners earns under each rule, as a table in a terminal and a picture.

What must not go in: the miners, the markets and the statistics (``league/redteam/``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from affine_dagster.cli.board import wide_console
from affine_dagster.league.redteam.earnings import earnings, strategies_named
from affine_dagster.league.redteam.picture import earnings_png

__all__ = ["print_redteam"]


def print_redteam(
    strategies: Sequence[str], markets: int, epochs: int, seed: int = 0, picture: Path | None = None, console: Console | None = None
) -> None:
    """Play the markets with progress, and print a table a rule. Raises ``bad_settings`` for an unknown strategy."""
    console = console or wide_console()
    names = strategies_named(strategies)
    table = earnings(names, markets, epochs, lambda name: console.print(f"played {name}", style="dim"), seed)
    for (rule,), rows in table.group_by("rule", maintain_order=True):
        console.print(_shown(str(rule), rows))
    console.print(
        f"{markets} markets of {epochs} epochs, seeds from {seed}; a seat beside two honest miners. gain: the seat's share less the "
        "baseline's (an honest miner with the same research, or an empty seat); cost: what the honest miners lose by it; intervals: 95 %.",
        style="dim",
    )
    if picture is not None:
        picture.write_bytes(earnings_png(table))
        console.print(f"picture: {picture}", markup=False, highlight=False)


def _shown(rule: str, rows: pl.DataFrame) -> Table:
    table = Table(title=rule, box=SIMPLE_HEAD, pad_edge=False)
    for name in ("strategy", "against"):
        table.add_column(name)
    for name in ("share", "gain", "cost to honest miners", "false crowns", "missed crowns", "rollouts"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows.iter_rows(named=True):
        gain, cost = (_interval(row[name], row[f"{name}_lower"], row[f"{name}_upper"]) for name in ("gain", "cost"))
        counts = (f"{row['false_crowns']:.2f}", f"{row['missed_crowns']:.2f}", f"{row['tasks']:,.0f}")
        table.add_row(row["strategy"], row["against"], f"{row['share']:.1%}", gain, cost, *counts)
    return table


def _interval(value: float, lower: float, upper: float) -> str:
    """In points of weight; exactly nothing is said to be so."""
    if value == lower == upper == 0:
        return "exactly 0"
    return f"{100 * value:+.1f} ({100 * lower:+.1f} to {100 * upper:+.1f})"
