"""Where an epoch starts and ends, and which one is closed: by asking the chain, never by a formula over the tempo.

What must not go in: reading what happened in an epoch (``snapshot.py``). Tempos change and epochs are deferred on a real
chain; ``subnet().epoch_index`` is the one thing that says which epoch a block belongs to.
"""

from __future__ import annotations

from affine_dagster.chain.port import Chain, ChainRejected
from affine_dagster.reasons import AffineError
from affine_dagster.settings import ChainSettings

__all__ = ["epoch_boundary", "newest_closed_epoch"]


def epoch_boundary(chain: Chain, netuid: int, epoch: int) -> tuple[int, int]:
    """The first and the last block of an epoch, by bisection on the chain's own count.

    Raises ``epoch_not_closed`` while the epoch's last block is not finalised; ChainRejected ``invalid`` where the chain has no
    such epoch, ``unavailable`` where the node has forgotten the blocks.
    """
    head = chain.head().number
    state = chain.subnet(netuid, block=head)
    if state.epoch_index <= epoch:
        raise AffineError("epoch_not_closed", f"epoch {epoch} of subnet {netuid}: block {head} is in epoch {state.epoch_index}")
    stride = (state.epoch_index - epoch + 1) * max(1, state.tempo)
    low = head - stride
    while low >= 0 and _index(chain, netuid, low) >= epoch:
        stride *= 2
        low = head - stride
    start = _first_block(chain, netuid, epoch, max(low, -1), head)
    after = _first_block(chain, netuid, epoch + 1, start - 1, head)
    if start == after:
        raise ChainRejected("invalid", f"subnet {netuid} has no block in epoch {epoch}")
    return start, after - 1


def _first_block(chain: Chain, netuid: int, epoch: int, below: int, at: int) -> int:
    """The first block whose index is at least ``epoch``, given that ``below`` is under it and ``at`` is not."""
    while at - below > 1:
        middle = (below + at) // 2
        if _index(chain, netuid, middle) >= epoch:
            at = middle
        else:
            below = middle
    return at


def _index(chain: Chain, netuid: int, block: int) -> int:
    """The epoch index at a block, -1 before the subnet was founded."""
    try:
        return chain.subnet(netuid, block=block).epoch_index
    except ChainRejected as error:
        if error.kind != "invalid":
            raise
        return -1


def newest_closed_epoch(chain: Chain, settings: ChainSettings) -> int | None:
    """The newest epoch whose beacon is known, None if there is none yet.

    An epoch is closed when the block ``beacon_lag_blocks`` after its last one is finalised and the pulse at or after that
    block's time is there. Two reads of the subnet find the block, so it can be asked at every tick of a sensor.
    """
    head = chain.head().number
    lag = settings.beacon_lag_blocks
    if head < lag:
        return None
    newest = _index(chain, settings.netuid, head - lag + 1) - 1
    if newest < 0:
        return None
    _, boundary = epoch_boundary(chain, settings.netuid, newest)
    if _has_pulse(chain, boundary + lag):
        return newest
    return newest - 1 if newest > 0 else None


def _has_pulse(chain: Chain, block: int) -> bool:
    try:
        chain.pulse(after_ms=chain.block(block).timestamp_ms)
    except ChainRejected as error:
        if error.kind != "unavailable":
            raise
        return False
    return True
