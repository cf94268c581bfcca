"""``affine replay``: history under each rule, as tables in a terminal and a picture.

What must not go in: the rules, and what the tables say (``leaderboard/replays.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from affine_dagster.cli.board import wide_console
from affine_dagster.history import replayed
from affine_dagster.leaderboard.replay_picture import replay_png
from affine_dagster.leaderboard.replays import hotkey_names, mean_shares, what_rules_did, with_paid
from affine_dagster.settings import Settings, scorer_version
from affine_dagster.store import Store, Tables

__all__ = ["print_replay"]


def print_replay(
    settings: Settings, rules: Sequence[str], epochs: str, picture: Path | None = None, console: Console | None = None
) -> None:
    """Print who was paid, and who would have been under each rule; whom it crowned and terminated; and where that cannot be told.

    ``picture``: where to write the shares over time as a PNG. Raises ``bad_settings`` for an unknown rule or epoch.
    """
    console = console or wide_console()
    tables = Tables(Store(settings.store.url))
    rows = replayed(settings, rules, epochs)
    names = hotkey_names(tables, int(rows["epoch"].to_list()[-1]))
    weights = with_paid(tables, scorer_version(settings), rows)
    console.print(_table("Mean share of the weights, as it was paid and as each rule would have", mean_shares(weights, names)))
    console.print(_table("What each rule did: who, and in which epoch", _told(what_rules_did(rows, names))))
    if picture is not None:
        picture.write_bytes(replay_png(weights, names))
        console.print(f"picture: {picture}", markup=False, highlight=False)


def _told(did: pl.DataFrame) -> pl.DataFrame:
    """With one column that says in how many epochs the ledger holds all results that a rule asks for, and how much of them at least."""
    decidable = pl.format("{} of {} epochs, coverage from {}%", "decidable", "epochs", (pl.col("coverage") * 100).floor().cast(pl.Int64))
    return did.select("rule", decidable=decidable, crowned="crowned", terminated="terminated")


def _table(title: str, frame: pl.DataFrame) -> Table:
    """Shares as percentages, what is not there as a dash."""
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    for name, kind in frame.schema.items():
        number = kind == pl.Float64
        table.add_column(name.replace("_", " "), justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in frame.iter_rows():
        table.add_row(*("-" if value in (None, "") else f"{value:.1%}" if isinstance(value, float) else str(value) for value in row))
    return table
