"""How results are shown in the Dagster UI: small tables and pictures as metadata. Nothing is decided here."""

import base64
from collections.abc import Sequence

import polars as pl
from dagster import MetadataValue, TableColumn, TableRecord, TableSchema
from dagster._core.definitions.metadata import TableMetadataValue

__all__ = ["MAX_ROWS", "picture", "table"]

MAX_ROWS = 50
"""Rows shown of a table; all rows are in the tables themselves. Keeps the event log small (case D13)."""
LONG_WORD = 40
"""Characters of a word above which it is a digest or an address."""


def table(frame: pl.DataFrame, columns: Sequence[str]) -> TableMetadataValue:
    """The first rows of a frame as a table; long words (digests, hotkeys) are cut to twelve characters to be readable."""
    shown = frame.select(columns).head(MAX_ROWS)
    records = [TableRecord({name: _plain(value) for name, value in row.items()}) for row in shown.iter_rows(named=True)]
    return MetadataValue.table(records, schema=TableSchema([TableColumn(name, "string") for name in columns]))


def picture(png: bytes) -> MetadataValue[str]:
    """A PNG that the UI shows in place."""
    return MetadataValue.md(f"![picture](data:image/png;base64,{base64.b64encode(png).decode()})")


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    text = str(value)
    return text[:12] + "…" if len(text) > LONG_WORD and " " not in text else text
