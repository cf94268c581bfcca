"""The two calls that a hotkey signs on the development chain, and the rules by which the chain takes or refuses them.

What must not go in: calls of root or of owners (``local_world.py``). The rules and their order are those of the subtensor
pallets (Commitments.set_commitment; SubtensorModule.set_weights and commit_timelocked_weights), so that what is refused
there is refused here, for the same reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from affine_dagster.chain.keys import verify
from affine_dagster.chain.local_file import ChainFile, OpenBlock
from affine_dagster.chain.local_state import SubnetParameters, neurons_at, parameters_at, pulse_round, subnet_at
from affine_dagster.chain.port import ChainRejected, Neuron, WeightsReceipt

__all__ = [
    "MAX_COMMITMENT_BYTES", "SignedCall", "apply_commit", "apply_weights", "commit_payload", "nonce_of", "weights_payload",
    "within_max_weight",
]

MAX_COMMITMENT_BYTES = 512
"""Longest commitment in one field (BigRaw), bytes."""

_MIN_SPACE = 100
_SEAL_OVERHEAD = 28
_U16 = 65_535


@dataclass(frozen=True)
class SignedCall:
    """A call with its signer, the signer's nonce and the signature over both and the chain's first hash."""

    signer: str
    nonce: int
    payload: bytes
    signature: bytes

    @staticmethod
    def message(file: ChainFile, signer: str, nonce: int, payload: bytes) -> bytes:
        """What is signed. The first hash binds a signature to one chain."""
        return f"{file.block_hash(0)}|{signer}|{nonce}|".encode() + payload


def nonce_of(block: OpenBlock, signer: str) -> int:
    """How many calls of the signer the chain has taken."""
    return int(block.connection.execute("SELECT count(*) FROM extrinsic WHERE signer = ?", (signer,)).fetchone()[0])


def _authenticate(file: ChainFile, block: OpenBlock, call: SignedCall) -> None:
    if call.nonce != nonce_of(block, call.signer):
        raise ChainRejected("invalid", f"nonce {call.nonce} is stale or in the future")
    if not verify(call.signer, SignedCall.message(file, call.signer, call.nonce, call.payload), call.signature):
        raise ChainRejected("invalid", "bad signature")


def _neuron(block: OpenBlock, netuid: int, hotkey: str) -> Neuron:
    for neuron in neurons_at(block.connection, netuid, block.number):
        if neuron.hotkey == hotkey:
            return neuron
    raise ChainRejected("not_registered", f"{hotkey} is not registered on subnet {netuid}")


def commit_payload(netuid: int, data: bytes, reveal_block: int | None) -> bytes:
    """A commitment as a call. ``data`` is sealed already where there is a reveal block."""
    return json.dumps({"call": "commit", "netuid": netuid, "data": data.hex(), "reveal_block": reveal_block}).encode()


def apply_commit(file: ChainFile, block: OpenBlock, call: SignedCall) -> int:
    """Take a commitment into the open block. Returns the block. Raises ChainRejected."""
    _authenticate(file, block, call)
    fields = json.loads(call.payload)
    netuid, data, reveal = int(fields["netuid"]), bytes.fromhex(fields["data"]), fields["reveal_block"]
    parameters = parameters_at(block.connection, netuid, block.number)
    longest = MAX_COMMITMENT_BYTES + (0 if reveal is None else _SEAL_OVERHEAD)
    if not 0 < len(data) <= longest:
        raise ChainRejected("invalid", f"a commitment of {len(data)} bytes; 1..{longest}")
    if reveal is not None and reveal <= block.number:
        raise ChainRejected("invalid", f"reveal block {reveal} is not after block {block.number}")
    _neuron(block, netuid, call.signer)
    space = max(_MIN_SPACE, len(data))
    _commitment_limits(block, netuid, call.signer, space, parameters)
    position = block.record("commit", call.payload, call.signer)
    block.connection.execute(
        "INSERT INTO commitment VALUES (?, ?, ?, ?, ?, ?, ?)", (netuid, block.number, position, call.signer, data, reveal, space)
    )
    return block.number


def _commitment_limits(block: OpenBlock, netuid: int, hotkey: str, space: int, parameters: SubnetParameters) -> None:
    epoch = subnet_at(block.connection, netuid, block.number).last_epoch_block
    last, used = block.connection.execute(
        "SELECT max(block), coalesce(sum(CASE WHEN block >= ?3 THEN space END), 0) FROM commitment WHERE netuid = ?1 AND hotkey = ?2",
        (netuid, hotkey, epoch),
    ).fetchone()
    if last is not None and block.number - last < parameters.commit_rate_limit:
        raise ChainRejected("rate_limited", f"CommitmentSetRateLimitExceeded: next at block {last + parameters.commit_rate_limit}")
    if used + space > parameters.commit_space:
        raise ChainRejected("limit_exceeded", f"SpaceLimitExceeded: {used} + {space} > {parameters.commit_space} bytes in this epoch")


def weights_payload(netuid: int, weights: Mapping[int, int], version_key: int) -> bytes:
    """A weight vector as a call. Raises ChainRejected ``invalid`` unless uids and weights are u16 and some weight is positive."""
    for value in (*weights.keys(), *weights.values()):
        if type(value) is not int or not 0 <= value <= _U16:
            raise ChainRejected("invalid", f"{value!r} is not a u16")
    if not any(weights.values()):
        raise ChainRejected("invalid", "no weight is positive")
    pairs = {str(uid): weights[uid] for uid in sorted(weights)}
    return json.dumps({"call": "set_weights", "netuid": netuid, "weights": pairs, "version_key": version_key}).encode()


def apply_weights(file: ChainFile, block: OpenBlock, call: SignedCall) -> WeightsReceipt:
    """Take a weight vector into the open block. Raises ChainRejected.

    In commit-reveal mode the vector comes into force when its epoch's reveal period has passed. The version key is checked
    here and again at the reveal; the real chain can only check it at the reveal, where a refusal is silent.
    """
    _authenticate(file, block, call)
    fields = json.loads(call.payload)
    netuid, version_key = int(fields["netuid"]), int(fields["version_key"])
    weights = {int(uid): int(weight) for uid, weight in fields["weights"].items()}
    parameters = parameters_at(block.connection, netuid, block.number)
    neuron = _neuron(block, netuid, call.signer)
    _weights_rules(block, netuid, neuron, weights, version_key, parameters)
    position = block.record("set_weights", call.payload, call.signer)
    in_force = block.number
    if parameters.commit_reveal:
        next_epoch = subnet_at(block.connection, netuid, block.number).next_epoch_block
        in_force = next_epoch + (parameters.reveal_period_epochs - 1) * parameters.tempo
    block.connection.execute(
        "INSERT INTO weights VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (netuid, neuron.uid, block.number, position, neuron.registered_at, version_key, in_force, json.dumps(_upscaled(weights))),
    )
    return WeightsReceipt(
        mode="timelocked" if parameters.commit_reveal else "plain", block=block.number, extrinsic_id=f"{block.number}-{position:04d}",
        reveal_round=pulse_round(file, file.timestamp_ms(in_force)) if parameters.commit_reveal else None,
    )


def _weights_rules(
    block: OpenBlock, netuid: int, neuron: Neuron, weights: Mapping[int, int], version_key: int, parameters: SubnetParameters
) -> None:
    if version_key < parameters.weights_version:
        raise ChainRejected("invalid", f"IncorrectWeightVersionKey: {version_key} < {parameters.weights_version}")
    if neuron.last_update and block.number - neuron.last_update < parameters.weights_rate_limit:
        raise ChainRejected("rate_limited", f"SettingWeightsTooFast: next at block {neuron.last_update + parameters.weights_rate_limit}")
    only_itself = set(weights) == {neuron.uid}
    if not only_itself and not neuron.validator_permit:
        raise ChainRejected("not_authorized", "NeuronNoValidatorPermit")
    unknown = sorted(set(weights) - {known.uid for known in neurons_at(block.connection, netuid, block.number)})
    if unknown:
        raise ChainRejected("invalid", f"UidVecContainInvalidOne: {unknown[:5]}")
    if not only_itself and len(weights) < parameters.min_allowed_weights:
        raise ChainRejected("invalid", f"WeightVecLengthIsLow: {len(weights)} < {parameters.min_allowed_weights}")
    if not only_itself and not within_max_weight(weights, parameters.max_weight_limit):
        raise ChainRejected("invalid", f"MaxWeightExceeded: limit {parameters.max_weight_limit}/65535")


def _upscaled(weights: Mapping[int, int]) -> dict[int, int]:
    """The vector as the pallet keeps it: scaled so that the largest is 65,535, rounded down."""
    largest = max(weights.values())
    return {uid: weight * _U16 // largest for uid, weight in sorted(weights.items())}


def within_max_weight(weights: Mapping[int, int], limit: int) -> bool:
    """Whether the largest share, of the vector as the pallet keeps it, is at most limit/65,535."""
    kept = _upscaled(weights)
    return limit >= _U16 or max(kept.values()) * _U16 <= limit * sum(kept.values())
