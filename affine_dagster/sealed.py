"""Sealed rewards: a hundred epochs in one file, since a year in seven thousand files is read a hundred times slower.

``sealed/<hundred>/<number>.parquet`` holds the REWARDS of epochs 100 · hundred to 100 · hundred + 99, epoch by epoch, each in the order
of the table's key. A file is never replaced; one that no longer is what the ledger has is opened by the mark
``<number>.opened`` beside it, and the next sealing makes the next number. What must not go in: rollouts, and how rewards are made
of them (``ledger.py``).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import PurePosixPath

import numpy as np
import polars as pl

from affine_dagster.store import Store, parquet_bytes, parquet_frame, parquet_metadata
from affine_dagster.tables import REWARDS

__all__ = ["EPOCHS_A_FILE", "SealedRewards"]

EPOCHS_A_FILE = 100
"""Epochs a sealed file (DESIGN section 4)."""

_SOURCES_KEY = "affine_sealed_from"
_KEPT = 2
"""Files that are kept in memory: an assay may reach over the border of two."""


class SealedRewards:
    """The sealed files of one store. Safe under any number of processes: the first write of a name stands."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: OrderedDict[str, tuple[pl.DataFrame, tuple[int, ...]]] = OrderedDict()

    def rewards(self, epoch: int) -> pl.DataFrame | None:
        """The REWARDS rows of an epoch, or None where its hundred is not sealed, or has been opened."""
        hundred = epoch // EPOCHS_A_FILE
        key = self._standing(hundred)
        if key is None:
            return None
        if key not in self._read:
            content = self._store.get(key)
            if content is None:
                return None
            rows = parquet_frame(REWARDS, content)
            starts = np.searchsorted(rows["epoch"].to_numpy(), np.arange(EPOCHS_A_FILE + 1) + hundred * EPOCHS_A_FILE)
            self._read[key] = (rows, tuple(starts.tolist()))
            while len(self._read) > _KEPT:
                self._read.popitem(last=False)
        rows, edges = self._read[key]
        at = epoch % EPOCHS_A_FILE
        return rows.slice(edges[at], edges[at + 1] - edges[at])

    def sources(self, hundred: int) -> Mapping[int, str] | None:
        """What the sealed rows of each epoch were made from (a digest of names), or None where the hundred is not sealed.

        An epoch without rollouts is left out, and so are all where the file came without them.
        """
        key = self._standing(hundred)
        content = None if key is None else self._store.get(key)
        if content is None:
            return None
        found: Mapping[str, str] = json.loads(parquet_metadata(content).get(_SOURCES_KEY, "{}"))
        return {int(epoch): digest for epoch, digest in found.items()}

    def hundreds(self) -> list[int]:
        """The hundreds that are sealed and not opened, ascending."""
        names = {PurePosixPath(key).parent.name for key in self._store.names("sealed/")}
        return sorted(hundred for name in names if self._standing(hundred := int(name[1:])) is not None)

    def seal(self, hundred: int, rewards: pl.DataFrame, sources: Mapping[int, str]) -> str:
        """Write the rewards of a hundred epochs, with the digest of what each was made from, and return the key.

        Raises ``bad_table`` on rows that are not REWARDS.
        """
        rows = REWARDS.check(rewards).sort(REWARDS.key)
        metadata = {_SOURCES_KEY: json.dumps({str(epoch): digest for epoch, digest in sorted(sources.items())})}
        content = parquet_bytes(rows, REWARDS.version, metadata)
        number = 1 + max((int(PurePosixPath(key).stem) for key in self._names(hundred)), default=0)
        key = f"{_folder(hundred)}{number:04d}.parquet"
        self._store.create(key, content)
        return key

    def open(self, hundred: int) -> None:
        """Mark the standing file of a hundred as no longer what the ledger has. Nothing is done where none stands."""
        key = self._standing(hundred)
        if key is not None:
            self._store.create(str(PurePosixPath(key).with_suffix(".opened")), b"")

    def _names(self, hundred: int) -> list[str]:
        return self._store.names(_folder(hundred))

    def _standing(self, hundred: int) -> str | None:
        """The key of the newest file, if it has not been opened."""
        names = set(self._names(hundred))
        newest = max((name for name in names if name.endswith(".parquet")), default=None)
        if newest is None or str(PurePosixPath(newest).with_suffix(".opened")) in names:
            return None
        return newest


def _folder(hundred: int) -> str:
    return f"sealed/h{hundred:05d}/"
