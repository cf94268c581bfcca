"""The ledger: the append-only store of rollouts, one Parquet file a batch, and the rewards that scoring reads from it.

One file holds one batch of consecutive tasks of one environment for one model, under a name that says which
(``ledger/<epoch>/<environment>/<digest>-<purpose>-<task epoch>-<batch>-<attempt>.parquet``). A file appears whole or not at
all and is never replaced, so a process that is killed anywhere loses no committed row, and one that starts again writes
nothing twice. What must not go in: who runs on what (``evaluation/``) and any arithmetic on rewards (``scoring/``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import structlog

from affine_dagster.reasons import REASONS, AffineError, Fault
from affine_dagster.sealed import EPOCHS_A_FILE, SealedRewards
from affine_dagster.store import Store, epoch_name, parquet_bytes, parquet_frame
from affine_dagster.tables import REWARDS, ROLLOUTS

__all__ = ["BatchKey", "BatchName", "Ledger", "is_complete", "rewards_of_rollouts"]

BatchKey = tuple[str, str, int, int]
"""(environment, purpose, task epoch, batch) of one model in one epoch."""

_LOG = structlog.get_logger(__name__)
_DIGEST_CHARACTERS = 16
_UNSEALED = 10
"""Newest epochs that keep their hundred unsealed, since a run that lags may still write there."""

_ONE_BATCH = ("epoch", "environment", "environment_version", "purpose", "task_epoch", "weights_digest", "sampling_digest", "attempt")
_FAULTS = {code: str(entry.fault) for code, entry in REASONS.items() if entry.fault is not None}


@dataclass(frozen=True, order=True)
class BatchName:
    """What a file's name says. ``weights`` is the first sixteen hex digits of the weights digest; ``attempt`` counts from 0."""

    epoch: int
    environment: str
    weights: str
    purpose: str
    task_epoch: int
    batch: int
    attempt: int

    @property
    def key(self) -> str:
        """The key in the store."""
        stem = f"{self.weights}-{self.purpose}-{epoch_name(self.task_epoch)}-{self.batch:05d}-{self.attempt}"
        return f"ledger/{epoch_name(self.epoch)}/{self.environment}/{stem}.parquet"

    @classmethod
    def parse(cls, key: str) -> BatchName:
        """The name of a key. Raises ``bad_table`` on a file that no ledger wrote."""
        try:
            _, epoch, environment, file = key.split("/")
            weights, purpose, task_epoch, batch, attempt = file.removesuffix(".parquet").split("-")
            return cls(int(epoch[1:]), environment, weights, purpose, int(task_epoch[1:]), int(batch), int(attempt))
        except ValueError as error:
            raise AffineError("bad_table", f"{key} is no name of the ledger") from error


class Ledger:
    """The rollouts of all epochs in one store. Safe under any number of processes: the first write of a name stands."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.sealed = SealedRewards(store)

    def append(self, frame: pl.DataFrame, batch: int) -> bool:
        """Commit one batch (ROLLOUTS rows of one file) and return whether this call wrote it.

        Where the name is taken the first write stands: the same content is silent, other content is logged as
        ``conflicting_write``. Raises ``bad_table`` on rows of several batches or on a malformed result (``reward`` not finite
        or outside [0, 1], no reward without a fault, a fault that is not its reason's).
        """
        frame = _sound(frame)
        first = frame.row(0, named=True)
        name = BatchName(
            first["epoch"], first["environment"], first["weights_digest"][:_DIGEST_CHARACTERS], first["purpose"],
            first["task_epoch"], batch, first["attempt"],
        )
        hundred = name.epoch // EPOCHS_A_FILE
        self.sealed.open(hundred)
        wrote = self.store.create(name.key, parquet_bytes(frame, ROLLOUTS.version))
        self.sealed.open(hundred)  # again, for a seal that was made since
        if wrote:
            return True
        standing = self._file(name.key)
        if not standing.equals(frame):
            differing = [column for column in frame.columns if not standing[column].equals(frame[column], null_equal=True)]
            _LOG.warning("conflicting_write", key=name.key, columns=differing, rows=frame.height, standing_rows=standing.height)
        return False

    def batches(self, epoch: int, environments: Collection[str] | None = None, weights_digest: str | None = None) -> list[BatchName]:
        """The committed batches of an epoch by their names, in order, without reading them."""
        names = [BatchName.parse(key) for key in self._keys(epoch)]
        return sorted(
            name for name in names
            if (environments is None or name.environment in environments)
            and (weights_digest is None or name.weights == weights_digest[:_DIGEST_CHARACTERS])
        )

    def rollouts(self, epoch: int, environments: Collection[str] | None = None, weights_digest: str | None = None) -> pl.DataFrame:
        """All attempts of an epoch as they were written (ROLLOUTS), in the order of the table's key."""
        frames = [self._file(name.key) for name in self.batches(epoch, environments, weights_digest)]
        if not frames:
            return ROLLOUTS.empty()
        rows = pl.concat(frames).sort(ROLLOUTS.key)
        return rows if weights_digest is None else rows.filter(pl.col("weights_digest") == weights_digest)

    def rewards(self, epoch: int, environments: Collection[str] | None = None) -> pl.DataFrame:
        """One row a (task, model) of an epoch (REWARDS), in the order of the table's key; see :func:`rewards_of_rollouts`.

        Read from the sealed file of its hundred epochs where there is one; else from the epoch's compacted file, which is used only
        while it was made from exactly the files that are there now; else from the rollouts.
        """
        rows = self.sealed.rewards(epoch)
        if rows is None:
            keys = self._keys(epoch)
            compacted = self.store.get(_compacted_key(epoch, keys)) if keys else None
            if compacted is None:
                return rewards_of_rollouts(self.rollouts(epoch, environments))
            rows = parquet_frame(REWARDS, compacted)
        return rows if environments is None else rows.filter(pl.col("environment").is_in(list(environments)))

    def rewards_between(self, first: int, last: int) -> pl.DataFrame:
        """The rewards of the epochs first..last, in epoch order."""
        return pl.concat([REWARDS.empty(), *(self.rewards(epoch) for epoch in range(first, last + 1))])

    def close_epoch(self, epoch: int) -> str | None:
        """Compact the epoch's rewards (no completions) into one file and return its key, None where there are no rollouts.

        The name carries the digest of the names that it was made from, so a later batch makes it unused, never wrong.
        """
        keys = self._keys(epoch)
        if not keys:
            return None
        frames = [self._file(key) for key in keys]
        key = _compacted_key(epoch, keys)
        self.store.create(key, parquet_bytes(rewards_of_rollouts(pl.concat(frames)), REWARDS.version))
        return key

    def seal_before(self, epoch: int) -> list[str]:
        """Seal every hundred of epochs that lies ten epochs or more before ``epoch`` and is not sealed; return the new keys.

        A batch that is written meanwhile, or later, opens the seal: it is never left out.
        """
        last = (epoch - _UNSEALED) // EPOCHS_A_FILE
        known = [int(name[1:]) for name in self.store.folders("ledger/")]
        due = sorted({one // EPOCHS_A_FILE for one in known if one // EPOCHS_A_FILE < last} - set(self.sealed.hundreds()))
        return [self._seal(hundred, [one for one in known if one // EPOCHS_A_FILE == hundred]) for hundred in due]

    def _seal(self, hundred: int, epochs: Sequence[int]) -> str:
        sources = self._sources(epochs)
        rewards = pl.concat([REWARDS.empty(), *(self.rewards(epoch) for epoch in epochs)])
        key = self.sealed.seal(hundred, rewards, sources)
        if self.sealed.sources(hundred) not in (None, self._sources(epochs)):
            self.sealed.open(hundred)
        return key

    def _sources(self, epochs: Iterable[int]) -> dict[int, str]:
        return {epoch: digest for epoch in epochs if (digest := _digest(self._keys(epoch)))}

    def attempts(self, epoch: int, weights_digest: str) -> dict[BatchKey, list[pl.DataFrame]]:
        """The committed files of a model by batch, each list in the order of attempts (ROLLOUTS)."""
        files: dict[BatchKey, list[pl.DataFrame]] = {}
        for name in self.batches(epoch, weights_digest=weights_digest):
            rows = self._file(name.key).filter(pl.col("weights_digest") == weights_digest)
            if rows.height:
                files.setdefault((name.environment, name.purpose, name.task_epoch, name.batch), []).append(rows)
        return files

    def completed_batches(self, epoch: int, weights_digest: str, attempts: int) -> frozenset[BatchKey]:
        """The batches of a model that need no further run; see :func:`is_complete`.

        Whoever asks is about to run the epoch again, perhaps after a kill between a write and the opening of a seal: a seal that was
        made from other files than there are is opened here.
        """
        hundred = epoch // EPOCHS_A_FILE
        sources = self.sealed.sources(hundred)
        if sources is not None and sources.get(epoch, "") != _digest(self._keys(epoch)):
            self.sealed.open(hundred)
        return frozenset(batch for batch, files in self.attempts(epoch, weights_digest).items() if is_complete(files, attempts))

    def _keys(self, epoch: int) -> list[str]:
        return self.store.names(f"ledger/{epoch_name(epoch)}/")

    def _file(self, key: str) -> pl.DataFrame:
        content = self.store.get(key)
        if content is None:
            raise AffineError("missing_input", f"{key} was listed and is gone")
        try:
            return parquet_frame(ROLLOUTS, content)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise AffineError("bad_table", f"{key} cannot be read: {error}") from error


def is_complete(files: Sequence[pl.DataFrame], attempts: int) -> bool:
    """Whether a batch is done: each of its tasks has a result or a fault of the model, or its attempts are used up.

    ``files``: the batch's ROLLOUTS frames, one an attempt. Without a file it is not done.
    """
    return len(files) >= attempts or bool(files and rewards_of_rollouts(pl.concat(files)).select(_final().all()).item())


def rewards_of_rollouts(rollouts: pl.DataFrame) -> pl.DataFrame:
    """The rewards of ROLLOUTS rows, duplicates removed: REWARDS, sorted by its key, the same for any order of the rows.

    Of several results of one (task, model) the first (lowest attempt) that is a result or a fault of the model counts; where
    there is none, the fault of the highest attempt. A malformed row (reward not finite or outside [0, 1], neither reward nor
    fault) is a fault ``malformed_result`` of the evaluator, never a zero.
    """
    rank = pl.when(_final()).then(pl.col("attempt")).otherwise(-pl.col("attempt"))
    rows = _validated(rollouts).with_columns(~_final().alias("_open"), rank.alias("_rank"))
    ties = ["environment_version", "sampling_digest", "reward", "fault", "reason", "seed", "completion_tokens"]
    chosen = rows.sort([*REWARDS.key, "_open", "_rank", *ties]).unique(subset=list(REWARDS.key), keep="first", maintain_order=True)
    return REWARDS.check(chosen.select(REWARDS.schema.names()))


def _final() -> pl.Expr:
    return pl.col("fault").is_null() | (pl.col("fault") == Fault.MODEL.value)


def _sane() -> pl.Expr:
    in_range = pl.col("reward").is_finite() & pl.col("reward").is_between(0.0, 1.0)
    result = pl.col("fault").is_null() & in_range
    model_fault = (pl.col("fault") == Fault.MODEL.value) & (pl.col("reward") == 0.0)
    other = pl.col("fault").is_in([fault.value for fault in Fault if fault is not Fault.MODEL]) & pl.col("reward").is_null()
    return (result | model_fault | other).fill_null(value=False)


def _validated(rows: pl.DataFrame) -> pl.DataFrame:
    sane = _sane()
    return rows.with_columns(
        pl.when(sane).then(pl.col("reward")).alias("reward"),
        pl.when(sane).then(pl.col("fault")).otherwise(pl.lit(Fault.EVALUATOR.value)).alias("fault"),
        pl.when(sane).then(pl.col("reason")).otherwise(pl.lit("malformed_result")).alias("reason"),
    )


def _sound(frame: pl.DataFrame) -> pl.DataFrame:
    frame = ROLLOUTS.check(frame).sort("index")
    if frame.is_empty():
        raise AffineError("bad_table", "rollouts: a batch without rows")
    mixed = [column for column in _ONE_BATCH if frame[column].n_unique() != 1 or frame[column].null_count()]
    if mixed:
        raise AffineError("bad_table", f"rollouts: a batch must have one value of {', '.join(mixed)}")
    malformed = frame.filter(~_sane())
    if malformed.height:
        raise AffineError("bad_table", f"rollouts: malformed result at index {malformed['index'][0]}: reward {malformed['reward'][0]!r}")
    _check_reasons(frame)
    return frame


def _check_reasons(frame: pl.DataFrame) -> None:
    pairs: Iterable[Mapping[str, str]] = frame.select("fault", "reason").unique().iter_rows(named=True)
    for pair in pairs:
        if pair["fault"] is not None and _FAULTS.get(pair["reason"]) != pair["fault"]:
            raise AffineError("bad_table", f"rollouts: fault {pair['fault']} with reason {pair['reason']}")


def _compacted_key(epoch: int, keys: Iterable[str]) -> str:
    return f"rewards/{epoch_name(epoch)}/{_digest(keys)}.parquet"


def _digest(keys: Iterable[str]) -> str:
    """Which files these are; ``""`` for none."""
    names = "\n".join(sorted(keys))
    return hashlib.blake2b(names.encode(), digest_size=16).hexdigest() if names else ""
