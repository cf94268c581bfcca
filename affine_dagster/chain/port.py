"""All that the system needs of a chain: plain values, reads pinned to a block, one write a role.

What must not go in: any SDK type, any formula for epochs (the chain counts them), any adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from affine_dagster.reasons import AffineError

__all__ = [
    "BlockRef", "Chain", "ChainRejected", "Commitment", "CommitmentStatus", "HotkeySwap", "Neuron", "Pulse", "SubnetState",
    "WeightsReceipt",
]

CommitmentStatus = Literal["plain", "sealed", "revealed", "failed"]


@dataclass(frozen=True)
class BlockRef:
    """A finalised block."""

    number: int
    hash: str
    timestamp_ms: int


@dataclass(frozen=True)
class SubnetState:
    """The subnet's parameters at a block. The epoch index and its blocks are the chain's own."""

    netuid: int
    block: int
    tempo: int
    epoch_index: int
    last_epoch_block: int
    next_epoch_block: int
    weights_rate_limit: int
    min_allowed_weights: int
    max_weight_limit: int
    weights_version: int
    commit_reveal: bool
    immunity_period: int
    owner_hotkey: str


@dataclass(frozen=True)
class Neuron:
    """One place in the metagraph at a block. ``stake_rao``: 1e-9 TAO."""

    uid: int
    hotkey: str
    coldkey: str
    stake_rao: int
    validator_permit: bool
    last_update: int
    registered_at: int


@dataclass(frozen=True)
class Commitment:
    """What a hotkey wrote. ``data`` is None while sealed or where opening failed; the index is None where the chain cannot tell.

    ``reveal_block`` is the block at which a timelocked commitment was or will be opened, None for a plain one.
    """

    hotkey: str
    block: int
    extrinsic_index: int | None
    data: bytes | None
    status: CommitmentStatus
    reveal_block: int | None = None


@dataclass(frozen=True)
class HotkeySwap:
    """A coldkey moved its registration from one hotkey to another."""

    block: int
    coldkey: str
    old_hotkey: str
    new_hotkey: str


@dataclass(frozen=True)
class Pulse:
    """A pulse of the public randomness beacon. ``randomness``: 64 hex digits."""

    round: int
    randomness: str


@dataclass(frozen=True)
class WeightsReceipt:
    """What the chain says of a taken weight vector."""

    mode: Literal["plain", "timelocked"]
    block: int
    extrinsic_id: str
    reveal_round: int | None = None


class ChainRejected(AffineError):  # noqa: N818 - the chain rejects; the name is the field's
    """The chain refused a call.

    ``kind`` is one of not_registered, rate_limited, not_authorized, invalid, limit_exceeded, unavailable, timeout, unknown.
    """

    def __init__(self, kind: str, detail: str = "") -> None:
        codes = {
            "rate_limited": "rate_limited",
            "unavailable": "chain_unavailable",
            "timeout": "chain_timeout",
            "not_registered": "no_permit",
            "not_authorized": "no_permit",
        }
        super().__init__(codes.get(kind, "chain_rejected"), f"{kind}: {detail}")
        self.kind = kind
        self.plain_detail = detail

    def __reduce__(self) -> tuple[type[ChainRejected], tuple[str, str]]:
        """Pickle by kind and detail."""
        return (type(self), (self.kind, self.plain_detail))


class Chain(Protocol):
    """A chain as seen by one hotkey (or none: reads only)."""

    def head(self) -> BlockRef:
        """The newest finalised block."""
        ...

    def block(self, number: int) -> BlockRef:
        """A finalised block. Raises ChainRejected ``unavailable`` if there is none."""
        ...

    def subnet(self, netuid: int, *, block: int) -> SubnetState:
        """The subnet's parameters at a block."""
        ...

    def neurons(self, netuid: int, *, block: int) -> Sequence[Neuron]:
        """The metagraph at a block, by uid."""
        ...

    def commitments(self, netuid: int, *, after: int, until: int) -> Sequence[Commitment]:
        """The commitments with ``after < block <= until``, and those whose reveal block lies there, as known at block ``until``.

        Ordered by (block, extrinsic index). A hotkey that committed twice is there twice.
        """
        ...

    def swaps(self, netuid: int, *, after: int, until: int) -> Sequence[HotkeySwap]:
        """Hotkey swaps with ``after < block <= until``."""
        ...

    def pulse(self, *, after_ms: int) -> Pulse:
        """The first beacon pulse at or after a time. Raises ChainRejected ``unavailable`` if it is not there yet."""
        ...

    def weights(self, netuid: int, *, block: int) -> Mapping[int, Mapping[int, int]]:
        """Weights in force at a block: by validator uid, by miner uid, u16."""
        ...

    def commit(self, netuid: int, data: bytes, *, reveal_block: int | None = None) -> int:
        """Write a commitment (sealed until ``reveal_block`` if given). Returns its block. Raises ChainRejected."""
        ...

    def set_weights(self, netuid: int, weights: Mapping[int, int], *, version_key: int) -> WeightsReceipt:
        """Send u16 weights by uid. Returns only if the chain took them; raises ChainRejected otherwise."""
        ...
