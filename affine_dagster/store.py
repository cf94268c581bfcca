"""Where bytes and tables lie: a folder now, an object store by the same calls later.

A write is whole or absent: obstore writes to a temporary name and renames, and ``create`` never replaces. What must not go
in: the ledger's own layout (``ledger.py``) and anything that knows what a column means.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import obstore
import polars as pl
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore, ObjectStore, from_url

from affine_dagster.reasons import AffineError
from affine_dagster.tables import Table

__all__ = ["Store", "Tables", "epoch_name", "parquet_bytes", "parquet_frame", "parquet_metadata"]

_VERSION_KEY = "affine_table_version"


def epoch_name(epoch: int) -> str:
    """The epoch's name in keys, paths and partitions: ``e`` and seven digits, so that text order is epoch order."""
    if not 0 <= epoch < 10_000_000:
        raise ValueError(f"epoch {epoch} is outside 0..9,999,999")
    return f"e{epoch:07d}"


class Store:
    """Bytes by key, under one root folder or URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._objects: ObjectStore
        if "://" in url:
            self._objects = from_url(url)
        else:
            Path(url).mkdir(parents=True, exist_ok=True)
            self._objects = LocalStore(Path(url))

    def create(self, key: str, content: bytes) -> bool:
        """Write where nothing is yet. Returns whether this call wrote; the first write stands."""
        try:
            obstore.put(self._objects, key, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        return True

    def put(self, key: str, content: bytes) -> None:
        """Write, replacing whole what was there."""
        obstore.put(self._objects, key, content, use_multipart=False)

    def get(self, key: str) -> bytes | None:
        """The content, or None where nothing is."""
        try:
            return bytes(obstore.get(self._objects, key).bytes())
        except FileNotFoundError:
            return None

    def folders(self, prefix: str) -> list[str]:
        """The names of the folders right under a prefix, sorted, without looking into them."""
        found = obstore.list_with_delimiter(self._objects, prefix)
        return sorted(str(name).rstrip("/").rsplit("/", 1)[-1] for name in found["common_prefixes"])

    def names(self, prefix: str) -> list[str]:
        """All keys under a prefix, sorted."""
        return sorted(str(entry["path"]) for batch in obstore.list(self._objects, prefix) for entry in batch)


def parquet_bytes(frame: pl.DataFrame, version: int, more: Mapping[str, str] | None = None) -> bytes:
    """The frame as Parquet with its table's version, and ``more``, in the file's metadata. The same frame gives the same bytes."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", metadata={_VERSION_KEY: str(version), **(more or {})})
    return buffer.getvalue()


def parquet_metadata(content: bytes) -> Mapping[str, str]:
    """What :func:`parquet_bytes` put beside the frame."""
    return pl.read_parquet_metadata(io.BytesIO(content))


def _version(content: bytes) -> int:
    return int(parquet_metadata(content).get(_VERSION_KEY, "1"))


def parquet_frame(table: Table, content: bytes, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """The frame of a Parquet file, migrated to the table's present version; ``columns``: these alone, the rest unread where it can be.

    Its key is not looked at again: whoever wrote it did. Raises ``bad_table`` on another schema.
    """
    version = _version(content)
    if columns is not None and version == table.version:
        return pl.read_parquet(io.BytesIO(content), columns=list(columns)).select(columns)
    frame = table.migrate(pl.read_parquet(io.BytesIO(content)), version)
    return frame if columns is None else frame.select(columns)


class Tables:
    """Tables by epoch (and, for scored ones, by scorer version): ``tables/<name>[/<scorer>]/<epoch>.parquet``."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def _folder(self, table: Table, scorer: str | None) -> str:
        if table.scored != (scorer is not None):
            raise AffineError("bad_table", f"{table.name}: a scorer version is {'needed' if table.scored else 'not taken'}")
        return f"tables/{table.name}/{scorer}" if scorer else f"tables/{table.name}"

    def write(self, table: Table, epoch: int, frame: pl.DataFrame, scorer: str | None = None) -> None:
        """Write an epoch's rows, replacing them whole."""
        key = f"{self._folder(table, scorer)}/{epoch_name(epoch)}.parquet"
        self.store.put(key, parquet_bytes(table.check(frame), table.version))

    def freeze(self, table: Table, epoch: int, frame: pl.DataFrame) -> pl.DataFrame:
        """Write an epoch's rows if there are none, and return what stands (which may be an earlier write's)."""
        key = f"{self._folder(table, None)}/{epoch_name(epoch)}.parquet"
        if self.store.create(key, parquet_bytes(table.check(frame), table.version)):
            return table.check(frame)
        return self.need(table, epoch)

    def read(self, table: Table, epoch: int, scorer: str | None = None, *, columns: Sequence[str] | None = None) -> pl.DataFrame | None:
        """An epoch's rows (of them ``columns``, or all), or None where the epoch was not written."""
        content = self.store.get(f"{self._folder(table, scorer)}/{epoch_name(epoch)}.parquet")
        return None if content is None else parquet_frame(table, content, columns)

    def need(self, table: Table, epoch: int, scorer: str | None = None, *, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """An epoch's rows. Raises ``missing_input`` where the epoch was not written."""
        frame = self.read(table, epoch, scorer, columns=columns)
        if frame is None:
            raise AffineError("missing_input", f"{table.name} of epoch {epoch}" + (f", scorer {scorer}" if scorer else ""))
        return frame

    def many(self, table: Table, epochs: Sequence[int], columns: Sequence[str] | None = None) -> dict[int, pl.DataFrame]:
        """The rows of many epochs (of them ``columns``, or all) by epoch, read at once; epochs that were not written are left out.

        For tables that are not scored, whose rows have the epoch that they are written under. ``epochs`` ascend.
        """
        wanted = list(columns or table.columns)
        found, rows = self._at_once(table, epochs, None, [*{"epoch": 0, **dict.fromkeys(wanted)}])
        edges = [*rows["epoch"].search_sorted(pl.Series(found, dtype=pl.Int64)), rows.height]
        plain = rows.select(wanted)
        return {epoch: plain.slice(edges[at], edges[at + 1] - edges[at]) for at, epoch in enumerate(found)}

    def _at_once(
        self, table: Table, epochs: Sequence[int], scorer: str | None, columns: Sequence[str]
    ) -> tuple[list[int], pl.DataFrame]:
        """The epochs that were written, and their rows one epoch after the other: one read of many files costs a tenth of many reads."""
        folder = self._folder(table, scorer)
        contents = {epoch: self.store.get(f"{folder}/{epoch_name(epoch)}.parquet") for epoch in epochs}
        found = {epoch: content for epoch, content in contents.items() if content is not None}
        if not found:
            return [], table.empty().select(columns)
        if any(_version(content) != table.version for content in found.values()):
            return list(found), pl.concat([parquet_frame(table, content, columns) for content in found.values()])
        return list(found), pl.read_parquet(list(found.values()), columns=list(columns)).select(columns)

    def epochs(self, table: Table, scorer: str | None = None) -> list[int]:
        """The epochs that were written, ascending."""
        folder = self._folder(table, scorer)
        depth = folder.count("/") + 1
        return [int(Path(name).stem[1:]) for name in self.store.names(folder + "/") if name.count("/") == depth]

    def newest_before(self, table: Table, epoch: int, scorer: str | None = None) -> int | None:
        """The newest written epoch before ``epoch``."""
        return max((known for known in self.epochs(table, scorer) if known < epoch), default=None)

    def until(
        self, table: Table, epoch: int, scorer: str | None = None, *, inclusive: bool = True, columns: Sequence[str] | None = None
    ) -> pl.DataFrame:
        """The rows of all epochs up to ``epoch`` (of them ``columns``, or all), in epoch order."""
        known = [e for e in self.epochs(table, scorer) if e < epoch or (inclusive and e == epoch)]
        return self._at_once(table, known, scorer, list(columns or table.columns))[1]

    def scorers(self, table: Table) -> list[str]:
        """The scorer versions that have rows."""
        return sorted({name.split("/")[2] for name in self.store.names(f"tables/{table.name}/") if name.count("/") == 3})
