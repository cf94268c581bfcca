"""What the chain says about a closed epoch, frozen: parameters and beacon, metagraph, commitments, hotkey swaps.

What must not go in: decoding a commitment (``intake.py``). Everything after this step reads the frozen frames, never the
chain; taking the snapshot again only compares, so that a lying or reorganised node is noticed and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import polars as pl

from affine_dagster.chain.epochs import epoch_boundary
from affine_dagster.chain.port import BlockRef, Chain, ChainRejected, Pulse, SubnetState
from affine_dagster.reasons import AffineError
from affine_dagster.settings import ChainSettings
from affine_dagster.store import Tables
from affine_dagster.tables import COMMITMENTS, EPOCHS, NEURONS, SWAPS, Table

__all__ = ["Snapshot", "read_snapshot", "store_snapshot", "take_snapshot"]


@dataclass(frozen=True)
class Snapshot:
    """An epoch as the chain told it: one row of EPOCHS, and rows of NEURONS, COMMITMENTS and SWAPS."""

    epoch: int
    epochs: pl.DataFrame
    neurons: pl.DataFrame
    commitments: pl.DataFrame
    swaps: pl.DataFrame


def take_snapshot(chain: Chain, settings: ChainSettings, epoch: int) -> Snapshot:
    """Read an epoch at its last block. Raises ``epoch_not_closed`` until its beacon block and pulse are there."""
    netuid = settings.netuid
    start, boundary = epoch_boundary(chain, netuid, epoch)
    beacon, pulse = _beacon(chain, boundary + settings.beacon_lag_blocks, epoch)
    state = chain.subnet(netuid, block=boundary)
    return Snapshot(
        epoch=epoch,
        epochs=EPOCHS.frame([_epoch_row(state, start, chain.block(boundary), beacon, pulse)]),
        neurons=NEURONS.frame(_rows(epoch, chain.neurons(netuid, block=boundary))).sort("uid"),
        commitments=_commitments(epoch, chain.commitments(netuid, after=start - 1, until=boundary)),
        swaps=SWAPS.frame(_rows(epoch, chain.swaps(netuid, after=start - 1, until=boundary))),
    )


def _beacon(chain: Chain, number: int, epoch: int) -> tuple[BlockRef, Pulse]:
    try:
        block = chain.block(number)
        return block, chain.pulse(after_ms=block.timestamp_ms)
    except ChainRejected as error:
        if error.kind != "unavailable":
            raise
        raise AffineError("epoch_not_closed", f"epoch {epoch}: beacon of block {number}: {error.plain_detail}") from error


def _epoch_row(state: SubnetState, start: int, boundary: BlockRef, beacon: BlockRef, pulse: Pulse) -> Mapping[str, object]:
    return {
        "epoch": state.epoch_index, "netuid": state.netuid, "tempo": state.tempo,
        "start_block": start, "boundary_block": boundary.number, "boundary_hash": boundary.hash,
        "boundary_time_ms": boundary.timestamp_ms, "beacon_block": beacon.number, "beacon_hash": beacon.hash,
        "pulse_round": pulse.round, "pulse_randomness": pulse.randomness,
        "weights_rate_limit": state.weights_rate_limit, "min_allowed_weights": state.min_allowed_weights,
        "max_weight_limit": state.max_weight_limit, "weights_version": state.weights_version,
        "immunity_period": state.immunity_period, "commit_reveal": state.commit_reveal, "owner_hotkey": state.owner_hotkey,
    }


def _rows(epoch: int, values: Sequence[object]) -> list[Mapping[str, object]]:
    return [{"epoch": epoch, **asdict(value)} for value in values]  # type: ignore[call-overload]


def _commitments(epoch: int, values: Sequence[object]) -> pl.DataFrame:
    """The rows in order of position. Of two that one extrinsic wrote for one hotkey (a batch) the last stands, as on the chain."""
    made = pl.DataFrame(_rows(epoch, values), schema=COMMITMENTS.schema)
    last = made.unique(subset=list(COMMITMENTS.key), keep="last", maintain_order=True)
    return COMMITMENTS.check(last.sort("block", "extrinsic_index", "hotkey", nulls_last=True))


def store_snapshot(tables: Tables, snapshot: Snapshot) -> Snapshot:
    """Freeze a snapshot, or compare it with the one that stands. Returns what stands.

    The row in ``epochs`` is written last: an epoch that has it has all frames. Raises ``snapshot_differs`` where the stored
    frame is another.
    """
    return Snapshot(
        epoch=snapshot.epoch,
        neurons=_freeze(tables, NEURONS, snapshot.epoch, snapshot.neurons),
        commitments=_freeze(tables, COMMITMENTS, snapshot.epoch, snapshot.commitments),
        swaps=_freeze(tables, SWAPS, snapshot.epoch, snapshot.swaps),
        epochs=_freeze(tables, EPOCHS, snapshot.epoch, snapshot.epochs),
    )


def _freeze(tables: Tables, table: Table, epoch: int, frame: pl.DataFrame) -> pl.DataFrame:
    stands = tables.freeze(table, epoch, frame)
    if not stands.equals(frame):
        ours, theirs = set(stands.hash_rows(seed=0)), set(frame.hash_rows(seed=0))
        raise AffineError(
            "snapshot_differs",
            f"{table.name} of epoch {epoch}: {stands.height} rows stored, {frame.height} read, {len(ours ^ theirs)} not in both",
        )
    return stands


def read_snapshot(tables: Tables, epoch: int) -> Snapshot:
    """The stored snapshot of an epoch. Raises ``missing_input`` where it was not (wholly) stored."""
    return Snapshot(
        epoch=epoch, epochs=tables.need(EPOCHS, epoch), neurons=tables.need(NEURONS, epoch),
        commitments=tables.need(COMMITMENTS, epoch), swaps=tables.need(SWAPS, epoch),
    )
