"""The schema of every table that crosses a room: polars dtypes, units, keys, versions.

A room hands a frame of one of these tables to another room, never a bare dict. What must not go in here: reading and
writing (``store.py``, ``ledger.py``) and any computation on the values.

Conventions: ``epoch`` is the subnet's epoch index; ``block`` and ``extrinsic_index`` are the chain's; a digest is lower-case
hex; a reward is in [0, 1]; ``reason`` is a code of ``reasons.REASONS``; None means "not known" and never zero. ``weights_digest``
identifies a model as it is run, its configuration, template and tokenizer included; ``tensor_set_digest`` what was trained, and so
whose it is (docs/decisions/0005-identity.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cached_property
from typing import Any

import polars as pl

from affine_dagster.reasons import AffineError

__all__ = [
    "ADMISSIONS", "COMMITMENTS", "CONTESTS", "CREDITS", "EPOCHS", "EVIDENCE", "FINGERPRINTS", "FINGERPRINT_FAILURES", "FRONTIER",
    "INTEGRITY", "KINSHIP", "NEURONS", "PLAN", "REPLAYED", "REWARDS", "ROLLOUTS", "SCORES", "STANDINGS", "SUBMISSIONS", "SWAPS", "TABLES",
    "TASKS", "WEIGHTS", "WEIGHT_SUBMISSIONS", "Table",
]

Migration = Callable[[pl.DataFrame], pl.DataFrame]
DType = pl.DataType | type[pl.DataType]


@dataclass(frozen=True)
class Table:
    """One table: its columns in order, the columns that identify a row, and how old versions become this one.

    ``scored`` tables keep one set of rows a scorer version, side by side.
    """

    name: str
    columns: Mapping[str, DType]
    key: tuple[str, ...]
    version: int = 1
    scored: bool = False
    migrations: Mapping[int, Migration] = field(default_factory=dict)

    @cached_property
    def schema(self) -> pl.Schema:
        """The polars schema, columns in order."""
        return pl.Schema(dict(self.columns))

    def empty(self) -> pl.DataFrame:
        """A frame without rows."""
        return self._empty

    @cached_property
    def _empty(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.schema)

    def frame(self, rows: Iterable[Mapping[str, object] | object]) -> pl.DataFrame:
        """A checked frame of dataclass instances or mappings with exactly this table's columns. Raises ``bad_table``."""
        plain: list[Mapping[str, Any]] = [
            asdict(row) if is_dataclass(row) and not isinstance(row, type) else row for row in rows  # type: ignore[misc]
        ]
        try:
            made = pl.DataFrame(plain, schema=self.schema, orient="row") if plain else self.empty()
        except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
            raise AffineError("bad_table", f"{self.name}: {error}") from error
        return self.check(made)

    def check(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with its columns in order. Raises ``bad_table`` on another schema or on a key that stands twice."""
        frame = self.conformed(frame)
        if self.key and frame.height and frame.select(self.key).is_duplicated().any():
            twice = frame.filter(frame.select(self.key).is_duplicated()).select(self.key).head(1).to_dicts()
            raise AffineError("bad_table", f"{self.name}: key {self.key} stands twice: {twice}")
        return frame

    def conformed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with its columns in order. Raises ``bad_table`` on another schema."""
        if frame.schema == self.schema:
            return frame
        if dict(frame.schema) != dict(self.schema):
            wrong = {name: (frame.schema.get(name), self.schema.get(name)) for name in {*frame.schema, *self.schema}}
            raise AffineError("bad_table", f"{self.name}: {({name: pair for name, pair in wrong.items() if pair[0] != pair[1]})}")
        return frame.select(self.schema.names())

    def migrate(self, frame: pl.DataFrame, version: int) -> pl.DataFrame:
        """A frame of an older version as this version. Raises ``newer_table`` if it is from the future."""
        if version > self.version:
            raise AffineError("newer_table", f"{self.name}: version {version}, this code knows {self.version}")
        for old in range(version, self.version):
            frame = self.migrations[old](frame)
        return self.conformed(frame)


def _before_configurations(frame: pl.DataFrame) -> pl.DataFrame:
    """FINGERPRINTS 1: the weights digest was that of the tensors alone, and stands for what was planned and run under it."""
    return frame.with_columns(tensors_digest="weights_digest", config_digest=pl.lit(None, pl.String))


def _without_parts(frame: pl.DataFrame) -> pl.DataFrame:
    """ROLLOUTS 1: receipts did not name the tensors and the configuration apart."""
    return frame.with_columns(tensors_digest="loaded_weights_digest", config_digest=pl.lit(None, pl.String))


_POSITION: Mapping[str, DType] = {"block": pl.Int64, "extrinsic_index": pl.Int64}
_MODEL: Mapping[str, DType] = {"submission_id": pl.String, "hotkey": pl.String, "repo": pl.String, "revision": pl.String}

EPOCHS = Table(
    "epochs",
    {
        "epoch": pl.Int64, "netuid": pl.Int64, "tempo": pl.Int64,
        "start_block": pl.Int64, "boundary_block": pl.Int64, "boundary_hash": pl.String, "boundary_time_ms": pl.Int64,
        "beacon_block": pl.Int64, "beacon_hash": pl.String, "pulse_round": pl.Int64, "pulse_randomness": pl.String,
        "weights_rate_limit": pl.Int64, "min_allowed_weights": pl.Int64, "max_weight_limit": pl.Int64, "weights_version": pl.Int64,
        "immunity_period": pl.Int64, "commit_reveal": pl.Boolean, "owner_hotkey": pl.String,
    },
    key=("epoch",),
)
"""One row an epoch: parameters at its last block (``boundary_block``, the commit cutoff) and the beacon. Frozen."""

NEURONS = Table(
    "neurons",
    {
        "epoch": pl.Int64, "uid": pl.Int64, "hotkey": pl.String, "coldkey": pl.String, "stake_rao": pl.Int64,
        "validator_permit": pl.Boolean, "last_update": pl.Int64, "registered_at": pl.Int64,
    },
    key=("epoch", "uid"),
)
"""The metagraph at the boundary block. Frozen."""

COMMITMENTS = Table(
    "commitments",
    {"epoch": pl.Int64, "hotkey": pl.String, **_POSITION, "status": pl.String, "reveal_block": pl.Int64, "data": pl.Binary},
    key=("epoch", "hotkey", "block", "extrinsic_index"),
)
"""Commitments made, or due to be opened, in the epoch, raw. ``status``: plain, sealed, revealed, failed. Frozen."""

SWAPS = Table(
    "swaps",
    {"epoch": pl.Int64, "block": pl.Int64, "coldkey": pl.String, "old_hotkey": pl.String, "new_hotkey": pl.String},
    key=("epoch", "block", "old_hotkey"),
)
"""Hotkey swaps of the epoch: history for people, never inheritance (case A7). Frozen."""

SUBMISSIONS = Table(
    "submissions",
    {
        "epoch": pl.Int64, "submission_id": pl.String, "hotkey": pl.String, "coldkey": pl.String, "uid": pl.Int64, **_POSITION,
        "repo": pl.String, "revision": pl.String, "state": pl.String, "reason": pl.String, "detail": pl.String, "raw": pl.Binary,
    },
    key=("submission_id",),
)
"""One row a commitment. ``state``: submitted, sealed, failed, undecodable, review. ``raw`` is kept when it cannot be decoded.
``submission_id`` names hotkey and position, so a commitment has the same one sealed and opened: the newest epoch's row counts."""

ADMISSIONS = Table(
    "admissions",
    {
        "epoch": pl.Int64, **_MODEL, **_POSITION, "state": pl.String, "reason": pl.String, "fault": pl.String, "detail": pl.String,
        "deferrals": pl.Int64, "first_epoch": pl.Int64, "manifest_digest": pl.String, "weights_bytes": pl.Int64,
        "files": pl.List(pl.Struct({"name": pl.String, "bytes": pl.Int64, "blake3": pl.String})),
        "architecture": pl.String, "parameters": pl.Int64, "template_hash": pl.String, "tokenizer_signature": pl.String,
    },
    key=("submission_id",),
)
"""One row a submission judged in this epoch (new, or deferred before). ``state``: admitted, rejected, deferred."""

FINGERPRINTS = Table(
    "fingerprints",
    {
        "epoch": pl.Int64, **_MODEL, **_POSITION, "genesis": pl.Boolean, "weights_digest": pl.String, "tensor_set_digest": pl.String,
        "parameters": pl.Int64, "template_hash": pl.String, "tokenizer_signature": pl.String,
        "tensors": pl.List(pl.Struct({"name": pl.String, "dtype": pl.String, "shape": pl.List(pl.Int64), "blake3": pl.String})),
        "tensors_digest": pl.String, "config_digest": pl.String,
    },
    key=("submission_id",),
    version=2,
    migrations={1: _before_configurations},
)
"""One row an admitted submission or genesis model. ``hotkey`` is None and the position is (-1, rank in the settings) for genesis."""

FINGERPRINT_FAILURES = Table(
    "fingerprint_failures",
    {
        "epoch": pl.Int64, **_MODEL, **_POSITION, "state": pl.String, "reason": pl.String, "fault": pl.String, "detail": pl.String,
        "deferrals": pl.Int64,
    },
    key=("epoch", "submission_id"),
)
"""Admitted submissions that could not be read for their fingerprint in this epoch. ``state``: deferred (tried again next epoch) or
rejected (given up). One with a later FINGERPRINTS row has been read since. An epoch without failures has no rows, or no file."""

KINSHIP = Table(
    "kinship",
    {
        "epoch": pl.Int64, "submission_id": pl.String, "hotkey": pl.String, "weights_digest": pl.String, **_POSITION,
        "verdict": pl.String, "reason": pl.String,
        "peer_submission_id": pl.String, "peer_hotkey": pl.String, "peer_weights_digest": pl.String,
        "peer_block": pl.Int64, "peer_extrinsic_index": pl.Int64, "peer_genesis": pl.Boolean,
        "statistic": pl.String, "value": pl.Float64, "threshold": pl.Float64, "threshold_version": pl.String, "detail": pl.String,
    },
    key=("epoch", "submission_id"),
)
"""Verdicts made in this epoch, of new submissions and of old ones that an earlier commitment admitted late overtakes.
``verdict``: origin, exact_copy, needs_review. The newest epoch's row of a submission counts."""

TASKS = Table(
    "tasks",
    {
        "epoch": pl.Int64, "environment": pl.String, "environment_version": pl.String, "purpose": pl.String,
        "index": pl.Int64, "seed": pl.UInt64,
    },
    key=("epoch", "environment", "purpose", "index"),
)
"""The epoch's seeds. ``purpose``: contest or assay. Frozen; a function of the beacon (anyone can recompute it)."""

PLAN = Table(
    "plan",
    {
        "epoch": pl.Int64, "weights_digest": pl.String, "genesis": pl.Boolean, **_MODEL, **_POSITION,
        "role": pl.String, "purpose": pl.String, "task_epoch": pl.Int64, "opponents": pl.List(pl.String), "alpha": pl.Float64,
        "discordance": pl.Float64, "first_task": pl.Int64, "tasks": pl.Int64, "tasks_before": pl.Int64, "epochs_before": pl.Int64,
        "planned": pl.Boolean, "reason": pl.String, "prior_epoch": pl.Int64, "scorer": pl.String,
    },
    key=("epoch", "weights_digest", "purpose", "task_epoch"),
)
"""Who runs how much, frozen once written. ``role``: incumbent or challenger in a contest, assayed or reference in an assay.
``purpose``: contest or assay; ``task_epoch`` is the epoch whose seeds are used (an assay that was not finished goes on with its own).
``opponents`` are weights digests. ``planned`` false: not run, and why."""

ROLLOUTS = Table(
    "rollouts",
    {
        "epoch": pl.Int64, "environment": pl.String, "environment_version": pl.String, "purpose": pl.String,
        "task_epoch": pl.Int64, "index": pl.Int64, "seed": pl.UInt64,
        "weights_digest": pl.String, "sampling_digest": pl.String, "attempt": pl.Int64,
        "reward": pl.Float64, "fault": pl.String, "reason": pl.String, "detail": pl.String,
        "completion": pl.String, "finish_reason": pl.String, "prompt_tokens": pl.Int64, "completion_tokens": pl.Int64,
        "loaded_weights_digest": pl.String, "template_hash": pl.String, "tokenizer_signature": pl.String,
        "engine": pl.String, "engine_version": pl.String, "tensors_digest": pl.String, "config_digest": pl.String,
    },
    key=(
        "epoch", "environment", "environment_version", "purpose", "task_epoch", "index", "weights_digest", "sampling_digest", "attempt",
    ),
    version=2,
    migrations={1: _without_parts},
)
"""The ledger: one rollout with its receipt. ``reward`` in [0, 1], or None with a ``fault``. A model fault has reward 0 and its fault.
``loaded_weights_digest`` is what was loaded, and ``tensors_digest``, ``config_digest``, ``template_hash`` and ``tokenizer_signature``
are its parts."""

REWARDS = Table(
    "rewards",
    {
        "epoch": pl.Int64, "environment": pl.String, "environment_version": pl.String, "purpose": pl.String,
        "task_epoch": pl.Int64, "index": pl.Int64, "seed": pl.UInt64, "weights_digest": pl.String,
        "reward": pl.Float64, "fault": pl.String, "reason": pl.String, "completion_tokens": pl.Int64,
    },
    key=("epoch", "environment", "purpose", "task_epoch", "index", "weights_digest"),
)
"""The ledger without completions, duplicates removed: all that scoring reads."""

EVIDENCE = Table(
    "evidence",
    {
        "epoch": pl.Int64, "challenger": pl.String, "incumbent": pl.String, "environment": pl.String,
        "tasks": pl.Int64, "missing": pl.Int64, "histogram": pl.List(pl.Struct({"bin": pl.Int32, "count": pl.Int64})),
        "mean_difference": pl.Float64, "lower": pl.Float64, "upper": pl.Float64,
        "log_e_win": pl.Float64, "log_e_not_worse": pl.Float64, "log_e_futile": pl.Float64, "log_e_regressed": pl.Float64,
    },
    key=("epoch", "challenger", "incumbent", "environment"),
    scored=True,
)
"""Merged state of each running pair at the end of the epoch. ``bin`` is the difference of rewards in thousandths, -1000..1000."""

CONTESTS = Table(
    "contests",
    {
        "epoch": pl.Int64, "challenger": pl.String, "incumbent": pl.String, "state": pl.String, "reason": pl.String,
        "environment": pl.String, "strict": pl.Boolean,
        "tasks": pl.Int64, "epochs": pl.Int64, "alpha": pl.Float64, "discordance": pl.Float64,
    },
    key=("epoch", "challenger", "incumbent"),
    scored=True,
)
"""The verdict on each pair. ``state``: won, futile, regressed, undecided, expired. ``strict``: better by the margin everywhere."""

SCORES = Table(
    "scores",
    {
        "epoch": pl.Int64, "weights_digest": pl.String, "environment": pl.String, "purpose": pl.String,
        "n": pl.Int64, "n_ok": pl.Int64, "n_model_fault": pl.Int64, "n_missing": pl.Int64,
        "mean": pl.Float64, "lower": pl.Float64, "upper": pl.Float64,
    },
    key=("epoch", "weights_digest", "environment", "purpose"),
    scored=True,
)
"""For people: mean reward with its confidence sequence at level 1 - assay_alpha. ``mean`` None where n is 0."""

FRONTIER = Table(
    "frontier",
    {
        "epoch": pl.Int64, "weights_digest": pl.String, "genesis": pl.Boolean, **_MODEL, **_POSITION,
        "accepted_epoch": pl.Int64, "accepted_block": pl.Int64, "incumbent": pl.Boolean, "redundant_by": pl.String,
        "environments": pl.List(pl.String), "lower": pl.List(pl.Int64), "upper": pl.List(pl.Int64),
        "assay_epoch": pl.Int64, "assay_tasks": pl.Int64, "assay_complete": pl.Boolean,
        "reason": pl.String, "prior_epoch": pl.Int64,
    },
    key=("epoch", "weights_digest"),
    scored=True,
)
"""Genesis and accepted models in commit order. ``lower`` (v) and ``upper`` (u) are grid steps, 0..grid, an environment."""

CREDITS = Table(
    "credits",
    {
        "epoch": pl.Int64, "weights_digest": pl.String, "submission_id": pl.String, "hotkey": pl.String, **_POSITION,
        "credit_units": pl.String, "credit": pl.Float64, "frozen": pl.Boolean, "accepted_block": pl.Int64, "decayed_units": pl.String,
        "decayed": pl.Float64, "registered": pl.Boolean, "reason": pl.String,
    },
    key=("epoch", "weights_digest"),
    scored=True,
)
"""Credit an accepted model. ``*_units``: exact integers as decimal text (credit: units of grid**-d; decayed: 2**-32 of those)."""

WEIGHTS = Table(
    "weights",
    {
        "epoch": pl.Int64, "rule": pl.String, "hotkey": pl.String, "burn": pl.Boolean, "weight": pl.Int64, "share": pl.Float64,
        "sendable": pl.Boolean, "reason": pl.String,
    },
    key=("epoch", "rule", "hotkey"),
    scored=True,
)
"""The weight vector by hotkey; ``weight`` sums to 65,535 over an epoch and rule."""

WEIGHT_SUBMISSIONS = Table(
    "weight_submissions",
    {
        "epoch": pl.Int64, "attempt": pl.Int64, "scorer": pl.String, "class": pl.String, "reason": pl.String, "message": pl.String,
        "block": pl.Int64, "extrinsic_id": pl.String, "mode": pl.String, "uids": pl.List(pl.Int64), "values": pl.List(pl.Int64),
        "dropped_hotkeys": pl.List(pl.String),
    },
    key=("epoch", "attempt"),
)
"""Every attempt to send. ``class``: ok, rate_limited, rejected, timeout, skipped, dry_run, not_sendable."""

STANDINGS = Table(
    "standings",
    {
        "epoch": pl.Int64, **_MODEL, "coldkey": pl.String, "uid": pl.Int64, **_POSITION, "weights_digest": pl.String, "genesis": pl.Boolean,
        "state": pl.String, "reason": pl.String, "fault": pl.String, "detail": pl.String, "next_step": pl.String, "peer": pl.String,
        "credit": pl.Float64, "weight": pl.Int64, "first_epoch": pl.Int64, "since_epoch": pl.Int64,
    },
    key=("epoch", "submission_id"),
    scored=True,
)
"""The one status of each submission known so far, with its reason and next step (cases W11, O2)."""

INTEGRITY = Table(
    "integrity",
    {
        "epoch": pl.Int64, "check": pl.String, "subject": pl.String, "ok": pl.Boolean, "value": pl.Float64, "threshold": pl.Float64,
        "reason": pl.String, "detail": pl.String,
    },
    key=("epoch", "check", "subject"),
)
"""Findings on the epoch: owner clusters, coverage, faults alike (the breaker), fresh against old tasks."""

REPLAYED = Table(
    "replayed",
    {
        "epoch": pl.Int64, "rule": pl.String, "version": pl.Int64, "hotkey": pl.String, "weights_digest": pl.String, "weight": pl.Int64,
        "share": pl.Float64, "crowned": pl.Boolean, "terminated": pl.Boolean, "reason": pl.String, "detail": pl.String,
        "coverage": pl.Float64,
    },
    key=("epoch", "rule", "hotkey"),
)
"""What a rule says of each registered hotkey in each epoch of a replay. ``weight`` sums to 65,535 over an epoch and rule, or to 0 where
it pays nobody. ``coverage`` under 1: the ledger lacks results that the rule asks for. Derived, never stored."""

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        EPOCHS, NEURONS, COMMITMENTS, SWAPS, SUBMISSIONS, ADMISSIONS, FINGERPRINTS, FINGERPRINT_FAILURES, KINSHIP, TASKS, PLAN,
        ROLLOUTS, REWARDS, EVIDENCE, CONTESTS, SCORES, FRONTIER, CREDITS, WEIGHTS, WEIGHT_SUBMISSIONS, STANDINGS, INTEGRITY,
    )
}
"""Every table by its name."""
