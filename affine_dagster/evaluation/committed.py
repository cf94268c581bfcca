"""What a model has in the ledger already: which of its batches are done, and which attempt comes next.

The worker asks it before each batch and tells it after each; a run that starts again reads the same from the ledger and goes
on where the other ended. What must not go in: how a batch is answered (``rollouts.py``).
"""

from __future__ import annotations

import sys

import polars as pl

from affine_dagster.ledger import BatchKey, Ledger, is_complete, rewards_of_rollouts
from affine_dagster.tables import ROLLOUTS

__all__ = ["CommittedBatches"]


class CommittedBatches:
    """The committed batches of one model in one run.

    Batches that are whole in an epoch from ``first_epoch`` on count as done (an assay goes on over epochs); one that ended
    there with its attempts used up is tried anew. What is written is written under ``epoch``.
    """

    def __init__(self, ledger: Ledger, weights_digest: str, first_epoch: int, epoch: int, attempts: int) -> None:
        self._ledger = ledger
        self._weights_digest = weights_digest
        self._epoch = epoch
        self._limit = attempts
        self._earlier: set[BatchKey] = set()
        for before in range(first_epoch, epoch):
            self._earlier |= ledger.completed_batches(before, weights_digest, sys.maxsize)
        self._read()

    def _read(self) -> None:
        self._files = self._ledger.attempts(self._epoch, self._weights_digest)
        self._next = {
            (name.environment, name.purpose, name.task_epoch, name.batch): name.attempt + 1
            for name in self._ledger.batches(self._epoch, weights_digest=self._weights_digest)
        }

    def is_complete(self, key: BatchKey) -> bool:
        """Whether the batch needs no further attempt."""
        return key in self._earlier or is_complete(self._files.get(key, []), self._limit)

    def next_attempt(self, key: BatchKey) -> int:
        """The number of the attempt that would be written next, from 0."""
        return self._next.get(key, 0)

    def rewards(self, key: BatchKey) -> pl.DataFrame:
        """The batch's results so far in this epoch (REWARDS)."""
        return rewards_of_rollouts(pl.concat([ROLLOUTS.empty(), *self._files.get(key, [])]))

    def commit(self, key: BatchKey, rows: pl.DataFrame) -> None:
        """Write the rows of an attempt. Where another write stands under the name, what stands is taken over."""
        if self._ledger.append(rows, key[-1]):
            self._files.setdefault(key, []).append(rows)
            self._next[key] = self.next_attempt(key) + 1
        else:
            self._read()
