"""What the development chain's rows say at a block: subnet, epochs, metagraph, weights in force, sealed bytes.

What must not go in: writes, and whether a block is closed (the callers ask ``ChainFile.closed``).
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from affine_dagster.chain.local_file import ChainFile
from affine_dagster.chain.port import ChainRejected, Commitment, Neuron, SubnetState

__all__ = [
    "PULSE_MS", "SubnetParameters", "commitments_between", "neurons_at", "parameters_at", "pulse_round", "seal", "subnet_at", "weights_at",
]

PULSE_MS = 3_000
"""Milliseconds between two pulses: drand quicknet's period."""

_NONCE_BYTES = 12


@dataclass(frozen=True)
class SubnetParameters:
    """A subnet's parameters, with the defaults of a new subnet on the main network where it has one.

    ``commit_space`` is the pallet's MaxSpace: bytes a hotkey may commit in one epoch, each commitment counting for at least
    100. ``commit_rate_limit``: blocks between two commitments of a hotkey, 0 for none. ``max_weight_limit``: the largest share
    of one weight, in units of 1/65,535.
    """

    tempo: int = 360
    weights_rate_limit: int = 100
    min_allowed_weights: int = 1
    max_weight_limit: int = 65_535
    weights_version: int = 0
    commit_reveal: bool = False
    reveal_period_epochs: int = 1
    immunity_period: int = 4_096
    max_uids: int = 256
    commit_rate_limit: int = 0
    commit_space: int = 3_100


def parameters_at(sql: sqlite3.Connection, netuid: int, block: int) -> SubnetParameters:
    """The parameters in force at a block. Raises ChainRejected ``invalid`` where there is no such subnet."""
    return SubnetParameters(**json.loads(_subnet_row(sql, netuid, block)[3]))


def _subnet_row(sql: sqlite3.Connection, netuid: int, block: int) -> tuple[int, int, str, str]:
    row: tuple[int, int, str, str] | None = sql.execute(
        "SELECT epoch_start, epoch_index, owner_hotkey, parameters FROM subnet"
        " WHERE netuid = ? AND block <= ? ORDER BY block DESC LIMIT 1",
        (netuid, block),
    ).fetchone()
    if row is None:
        raise ChainRejected("invalid", f"no subnet {netuid} at block {block}")
    return row


def subnet_at(sql: sqlite3.Connection, netuid: int, block: int) -> SubnetState:
    """The subnet at a block. Raises ChainRejected ``invalid`` where there is no such subnet."""
    start, index, owner, text = _subnet_row(sql, netuid, block)
    parameters = SubnetParameters(**json.loads(text))
    passed = (block - start) // parameters.tempo
    last = start + passed * parameters.tempo
    return SubnetState(
        netuid=netuid, block=block, tempo=parameters.tempo, epoch_index=index + passed, last_epoch_block=last,
        next_epoch_block=last + parameters.tempo, weights_rate_limit=parameters.weights_rate_limit,
        min_allowed_weights=parameters.min_allowed_weights, max_weight_limit=parameters.max_weight_limit,
        weights_version=parameters.weights_version, commit_reveal=parameters.commit_reveal,
        immunity_period=parameters.immunity_period, owner_hotkey=owner,
    )


def neurons_at(sql: sqlite3.Connection, netuid: int, block: int) -> list[Neuron]:
    """The metagraph at a block, by uid. ``last_update`` is 0 for a neuron that has never set weights."""
    rows = sql.execute(
        "SELECT n.uid, n.hotkey, n.coldkey, n.stake_rao, n.permit, n.registered_at,"
        " (SELECT max(w.block) FROM weights w WHERE w.netuid = n.netuid AND w.uid = n.uid"
        "  AND w.registered_at = n.registered_at AND w.block <= ?2)"
        " FROM neuron n WHERE n.netuid = ?1 AND n.hotkey IS NOT NULL AND n.block ="
        " (SELECT max(o.block) FROM neuron o WHERE o.netuid = n.netuid AND o.uid = n.uid AND o.block <= ?2) ORDER BY n.uid",
        (netuid, block),
    ).fetchall()
    return [
        Neuron(
            uid=uid, hotkey=hotkey, coldkey=coldkey, stake_rao=stake, validator_permit=bool(permit), last_update=update or 0,
            registered_at=registered,
        )
        for uid, hotkey, coldkey, stake, permit, registered, update in rows
    ]


def weights_at(sql: sqlite3.Connection, netuid: int, block: int) -> dict[int, dict[int, int]]:
    """The weights in force at a block, by validator uid, by miner uid.

    A vector goes with its validator's registration; a timelocked one that is opened under a newer version is not taken.
    """
    found: dict[int, dict[int, int]] = {}
    registered = {neuron.uid: neuron.registered_at for neuron in neurons_at(sql, netuid, block)}
    for uid, at, key, opened, vector in sql.execute(
        "SELECT uid, registered_at, version_key, in_force_from, vector FROM weights"
        " WHERE netuid = ? AND in_force_from <= ? ORDER BY in_force_from DESC, block DESC, position DESC",
        (netuid, block),
    ).fetchall():
        if uid not in found and registered.get(uid) == at and key >= parameters_at(sql, netuid, opened).weights_version:
            found[uid] = {int(target): int(weight) for target, weight in json.loads(vector).items()}
    return found


def pulse_round(file: ChainFile, after_ms: int) -> int:
    """The number of the first pulse at or after a time."""
    return max(0, -((file.genesis.genesis_ms - after_ms) // PULSE_MS))


def seal(file: ChainFile, netuid: int, hotkey: str, data: bytes, reveal_block: int) -> bytes:
    """The data under the secret of its reveal block (ChaCha20-Poly1305, bound to subnet and hotkey), the nonce in front.

    The nonce is a digest of key, owner and data, so that equal histories have equal bytes; it can only repeat with its data.
    """
    secret = file.digest("seal", reveal_block)
    owner = f"{netuid}|{hotkey}".encode()
    nonce = file.digest("nonce", reveal_block, owner + b"|" + data)[:_NONCE_BYTES]
    return nonce + ChaCha20Poly1305(secret).encrypt(nonce, data, owner)


def _unseal(file: ChainFile, netuid: int, hotkey: str, sealed: bytes, reveal_block: int) -> bytes | None:
    if len(sealed) <= _NONCE_BYTES:
        return None
    box = ChaCha20Poly1305(file.digest("seal", reveal_block))
    try:
        return box.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], f"{netuid}|{hotkey}".encode())
    except InvalidTag:
        return None


def commitments_between(file: ChainFile, netuid: int, after: int, until: int) -> list[Commitment]:
    """The port's ``commitments``: made, or due to be opened, with ``after < block <= until``, as known at ``until``."""
    rows = file.connection().execute(
        "SELECT block, position, hotkey, data, reveal_block FROM commitment WHERE netuid = ?1 AND block <= ?3"
        " AND (block > ?2 OR (reveal_block > ?2 AND reveal_block <= ?3)) ORDER BY block, position",
        (netuid, after, until),
    )
    return [_commitment(file, netuid, until, row) for row in rows.fetchall()]


def _commitment(file: ChainFile, netuid: int, until: int, row: tuple[int, int, str, bytes, int | None]) -> Commitment:
    block, position, hotkey, data, reveal = row
    if reveal is None:
        return Commitment(hotkey, block, position, data, "plain")
    if reveal > until:
        return Commitment(hotkey, block, position, None, "sealed", reveal)
    opened = _unseal(file, netuid, hotkey, data, reveal)
    return Commitment(hotkey, block, position, opened, "failed" if opened is None else "revealed", reveal)
