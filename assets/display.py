"""How results are shown in the Dagster UI: small tables and pictures as metadata. Nothing is decided here."""

import base64
import re
from collections.abc import Callable, Mapping, Sequence

import polars as pl
from dagster import AssetExecutionContext, MetadataValue, TableColumn, TableRecord, TableSchema
from dagster._core.definitions.metadata import RawMetadataValue, TableMetadataValue

from affine_dagster.store import epoch_name
from assets.partitions import epochs_of

__all__ = ["MAX_EPOCHS", "MAX_ROWS", "Facts", "named", "picture", "show", "table"]

Facts = Mapping[str, RawMetadataValue]
"""What a materialisation shows, by label, in the order in which it is read."""

MAX_EPOCHS = 10
"""Epochs of one run that show their facts, the newest: a re-scoring of a thousand would draw a thousand pictures."""

MAX_ROWS = 50
"""Rows shown of a table; all rows are in the tables themselves. Keeps the event log small (case D13)."""
_DIGEST = re.compile(r"[0-9A-Za-z]{20,}")
"""A word that is an id, a digest or an address: no name and no reason is as long without a sign between."""


def table(frame: pl.DataFrame, columns: Sequence[str]) -> TableMetadataValue:
    """The first rows of a frame as a table; ids, digests and addresses are cut to twelve characters to be readable."""
    shown = frame.select(columns).head(MAX_ROWS)
    records = [TableRecord({name: _plain(value) for name, value in row.items()}) for row in shown.iter_rows(named=True)]
    return MetadataValue.table(records, schema=TableSchema([TableColumn(name, "string") for name in columns]))


def show(context: AssetExecutionContext, facts: Callable[[int], Facts], *, scorer: str | None = None) -> None:
    """Give each epoch of the run its own facts: what is returned from an asset would be shown with every one of them.

    Epochs before the newest ``MAX_EPOCHS`` show their scorer alone; the tables have them all.
    """
    made: Facts = {} if scorer is None else {"scorer": scorer}
    walked = epochs_of(context)
    for epoch in walked:
        shown = {**made, **facts(epoch)} if epoch in walked[-MAX_EPOCHS:] else made
        context.add_asset_metadata(shown, partition_key=epoch_name(epoch))


def named(frame: pl.DataFrame, names: Mapping[str, str], *columns: str) -> pl.DataFrame:
    """The frame with ids, digests or addresses of these columns replaced by the names that people know; without one it stays."""
    return frame.with_columns(pl.col(column).replace(names) for column in columns)


def picture(png: bytes) -> MetadataValue[str]:
    """A PNG that the UI shows in place."""
    return MetadataValue.md(f"![picture](data:image/png;base64,{base64.b64encode(png).decode()})")


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    text = str(value)
    return text[:12] + "…" if _DIGEST.fullmatch(text) else text
