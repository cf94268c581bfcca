"""The development chain as an adapter of the port: real keys, real sealing, real refusals, one SQLite file.

What must not go in: world-building (``local_world.py``). Split by floor: ``local_file.py`` (file, blocks, transactions),
``local_state.py`` (what rows say at a block), ``local_calls.py`` (rules of the signed calls).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from affine_dagster.chain.keys import Signer
from affine_dagster.chain.local_calls import (
    MAX_COMMITMENT_BYTES,
    SignedCall,
    apply_commit,
    apply_weights,
    commit_payload,
    nonce_of,
    weights_payload,
)
from affine_dagster.chain.local_file import ChainFile, Clock, OpenBlock
from affine_dagster.chain.local_state import PULSE_MS, commitments_between, neurons_at, pulse_round, seal, subnet_at, weights_at
from affine_dagster.chain.port import (
    BlockRef,
    ChainRejected,
    Commitment,
    HotkeySwap,
    Neuron,
    Pulse,
    SubnetState,
    WeightsReceipt,
)

__all__ = ["LocalChain"]


class LocalChain:
    """A development chain as seen by one hotkey, or by none (reads only). Implements ``port.Chain``.

    By hand, a block stays open until ``LocalWorld.advance`` closes it: calls made meanwhile share it, in the order of their
    extrinsic indices. With a clock (milliseconds), blocks close as it passes. A closed block is final. Timestamps are the
    chain's own (``Genesis``), so that a history is the same however fast it was made. Raises ChainRejected ``unavailable``
    where there is no chain: founding one is ``LocalWorld``'s.
    """

    def __init__(self, path: Path, hotkey: Signer | None = None, *, clock: Clock | None = None) -> None:
        self._file = ChainFile(path, clock=clock)
        self._hotkey = hotkey

    def close(self) -> None:
        """Close this thread's connection."""
        self._file.close()

    def head(self) -> BlockRef:
        """The newest closed block."""
        return self.block(self._file.head())

    def block(self, number: int) -> BlockRef:
        """A closed block. Raises ChainRejected ``unavailable`` if there is none."""
        self._file.closed(number)
        return BlockRef(number, self._file.block_hash(number), self._file.timestamp_ms(number))

    def subnet(self, netuid: int, *, block: int) -> SubnetState:
        """The subnet's parameters at a block. Raises ChainRejected ``invalid`` where the subnet does not exist (yet)."""
        self._file.closed(block)
        return subnet_at(self._file.connection(), netuid, block)

    def neurons(self, netuid: int, *, block: int) -> Sequence[Neuron]:
        """The metagraph at a block, by uid."""
        self._file.closed(block)
        return neurons_at(self._file.connection(), netuid, block)

    def commitments(self, netuid: int, *, after: int, until: int) -> Sequence[Commitment]:
        """The commitments made or due to be opened with ``after < block <= until``, as known at ``until``."""
        self._file.closed(until)
        return commitments_between(self._file, netuid, after, until)

    def swaps(self, netuid: int, *, after: int, until: int) -> Sequence[HotkeySwap]:
        """Hotkey swaps with ``after < block <= until``."""
        self._file.closed(until)
        rows = self._file.connection().execute(
            "SELECT block, coldkey, old_hotkey, new_hotkey FROM swap"
            " WHERE netuid = ? AND block > ? AND block <= ? ORDER BY block, position",
            (netuid, after, until),
        )
        return [HotkeySwap(*row) for row in rows.fetchall()]

    def pulse(self, *, after_ms: int) -> Pulse:
        """The first pulse at or after a time, a function of the seed and of all extrinsics up to it.

        Raises ChainRejected ``unavailable`` until a block at or after the pulse is closed.
        """
        number = pulse_round(self._file, after_ms)
        passed_ms = number * PULSE_MS
        last_block = passed_ms // self._file.genesis.block_ms
        head = self._file.head()
        if head * self._file.genesis.block_ms < passed_ms:
            raise ChainRejected("unavailable", f"no pulse {number} yet at block {head}")
        return Pulse(number, self._file.digest("pulse", number, self._file.trail_at(last_block)).hex())

    def weights(self, netuid: int, *, block: int) -> Mapping[int, Mapping[int, int]]:
        """Weights in force at a block, by validator uid, by miner uid, scaled so that a vector's largest is 65,535."""
        self._file.closed(block)
        return weights_at(self._file.connection(), netuid, block)

    def commit(self, netuid: int, data: bytes, *, reveal_block: int | None = None) -> int:
        """Write a commitment of 1 to 512 bytes, sealed until ``reveal_block`` if given. Returns its block. Raises ChainRejected."""
        signer = self._signer()
        if not 0 < len(data) <= MAX_COMMITMENT_BYTES:
            raise ChainRejected("invalid", f"a commitment of {len(data)} bytes; 1..{MAX_COMMITMENT_BYTES}")
        body = data if reveal_block is None else seal(self._file, netuid, signer.ss58_address, data, reveal_block)
        return self.commit_sealed(netuid, body, reveal_block=reveal_block)

    def commit_sealed(self, netuid: int, sealed: bytes, *, reveal_block: int | None) -> int:
        """Write bytes as they are, as something that claims to open at ``reveal_block``; what does not open there has failed.

        No part of the port: any client can send such bytes to a real chain, and the tests do (case A1).
        """
        with self._file.writing() as block:
            return apply_commit(self._file, block, self._signed(block, commit_payload(netuid, sealed, reveal_block)))

    def set_weights(self, netuid: int, weights: Mapping[int, int], *, version_key: int) -> WeightsReceipt:
        """Send u16 weights by uid. Returns only if the chain took them; raises ChainRejected otherwise."""
        self._signer()
        payload = weights_payload(netuid, weights, version_key)
        with self._file.writing() as block:
            return apply_weights(self._file, block, self._signed(block, payload))

    def _signer(self) -> Signer:
        if self._hotkey is None:
            raise ChainRejected("not_authorized", "this chain was opened without a hotkey: reads only")
        return self._hotkey

    def _signed(self, block: OpenBlock, payload: bytes) -> SignedCall:
        signer = self._signer()
        nonce = nonce_of(block, signer.ss58_address)
        signature = signer.sign(SignedCall.message(self._file, signer.ss58_address, nonce, payload))
        return SignedCall(signer.ss58_address, nonce, payload, signature)
