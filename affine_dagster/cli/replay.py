"""``affine replay``: history under the subnet's earlier rules, as a table in a terminal.

What must not go in: the rules, and reading tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from affine_dagster.cli.board import wide_console
from affine_dagster.history import History, epoch_range
from affine_dagster.ledger import Ledger
from affine_dagster.scoring.rules.replay import REPLAYED, replay, rules_named
from affine_dagster.scoring.weights import TOTAL
from affine_dagster.settings import Settings, scorer_version
from affine_dagster.store import Store, Tables
from affine_dagster.tables import EPOCHS, FINGERPRINTS, WEIGHTS

__all__ = ["print_replay", "replayed"]


def replayed(settings: Settings, rules: Sequence[str], epochs: str) -> pl.DataFrame:
    """REPLAYED rows of these rules over these epochs. Raises ``bad_settings`` for an unknown rule or epoch."""
    store = Store(settings.store.url)
    history = History(Tables(store), Ledger(store), settings)
    chosen, named = epoch_range(epochs, history.epochs), rules_named(rules, settings)
    environments, count = settings.evaluation.environments, settings.evaluation.tasks_per_epoch
    return pl.concat([REPLAYED.empty(), *replay(named, history.past(chosen), environments, count)])


def print_replay(settings: Settings, rules: Sequence[str], epochs: str, console: Console | None = None) -> None:
    """Print who was paid, and who would have been under each rule; whom it crowned and terminated; and where that cannot be told."""
    console = console or wide_console()
    tables = Tables(Store(settings.store.url))
    chosen = epoch_range(epochs, History(tables, Ledger(tables.store), settings).epochs)
    rows = replayed(settings, rules, epochs)
    paid = _paid(tables, settings, chosen)
    console.print(_shares(rows, paid, _hotkey_names(tables, chosen[-1]), len(chosen)))
    for line in _events(rows, _hotkey_names(tables, chosen[-1]), len(chosen)):
        console.print(line, markup=False, highlight=False)


def _paid(tables: Tables, settings: Settings, epochs: Sequence[int]) -> pl.DataFrame:
    """WEIGHTS of these epochs as the present scorer has them."""
    scorer = scorer_version(settings)
    frames = [frame for epoch in epochs if (frame := tables.read(WEIGHTS, epoch, scorer)) is not None]
    return pl.concat([WEIGHTS.empty(), *frames])


def _hotkey_names(tables: Tables, epoch: int) -> Mapping[str, str]:
    """What each hotkey committed last, by name; and who the burn hotkey is."""
    owner = str(tables.need(EPOCHS, epoch).row(0, named=True)["owner_hotkey"])
    prints = tables.until(FINGERPRINTS, epoch).filter(~pl.col("genesis")).sort("block", "extrinsic_index")
    return {owner: f"the subnet's owner, {owner}"} | dict(prints.select("hotkey", "repo").iter_rows())


def _shares(rows: pl.DataFrame, paid: pl.DataFrame, names: Mapping[str, str], epochs: int) -> Table:
    """A row a hotkey that anybody pays, a column a rule, what was paid first; the mean share over the epochs."""
    ours = paid.select(pl.lit("paid").alias("rule"), "hotkey", "weight")
    means = pl.concat([ours, rows.select("rule", "hotkey", "weight")]).group_by("rule", "hotkey", maintain_order=True).agg(pl.sum("weight"))
    found = {(rule, hotkey): weight / (TOTAL * epochs) for rule, hotkey, weight in means.iter_rows() if weight}
    columns = [*ours["rule"].unique(maintain_order=True), *rows["rule"].unique(maintain_order=True)]
    table = Table(title="Mean share of the weights, as it was paid and as each rule would have", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("who", no_wrap=True)
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right", no_wrap=True)
    hotkeys = sorted({hotkey for _, hotkey in found}, key=lambda hotkey: names.get(hotkey, hotkey))
    for hotkey in hotkeys:
        cells = [f"{found[name, hotkey]:.1%}" if (name, hotkey) in found else "-" for name in columns]
        table.add_row(names.get(hotkey, hotkey), *cells)
    return table


def _events(rows: pl.DataFrame, names: Mapping[str, str], epochs: int) -> Iterator[str]:
    """A line a rule: in how many epochs all results that it asks for are there, whom it crowned and terminated when."""
    for (rule,), own in rows.group_by(["rule"], maintain_order=True):
        least = own.group_by("epoch").agg(pl.min("coverage"))
        whole = epochs - least.filter(pl.col("coverage") < 1).height
        told = [f"{rule}: all results it asks for are there in {whole} of {epochs} epochs (coverage from {min(least['coverage']):.0%})"]
        for word in ("crowned", "terminated"):
            met = [
                f"{names.get(hotkey, hotkey)} in {epoch}"
                for epoch, hotkey in own.filter(word).sort("epoch", "hotkey").select("epoch", "hotkey").iter_rows()
            ]
            told += [f"{word} {', '.join(met)}"] if met else []
        yield "; ".join(told)

