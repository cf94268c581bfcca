"""Random numbers that are a function of a key and a place alone, the same under NumPy and JAX; and counts drawn with them.

A simulation that is the same on both engines must not depend on what an engine's own generator does. What must not go in: what the
numbers are used for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Coins", "binomial_probabilities", "choose", "threefry"]

Array = Any
"""An array of NumPy or of JAX."""

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_WORD = 32
_FRACTION = 2**25
"""What is left of a word beside the place of a cell, 7 bits."""

_CELLS = 128


def threefry(engine: Any, key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Two uniform uint32 words a counter: Threefry-2x32 with 20 rounds. All four arrays are uint32 and broadcast.

    Source: Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"; it is what JAX's own keys use.
    """
    keys = (key[0], key[1], key[0] ^ key[1] ^ engine.uint32(_PARITY))
    first, second = counter[0] + keys[0], counter[1] + keys[1]
    for part in range(5):
        for turn in _ROTATIONS[part % 2]:
            first = first + second
            second = ((second << engine.uint32(turn)) | (second >> engine.uint32(_WORD - turn))) ^ first
        first = first + keys[(part + 1) % 3]
        second = second + keys[(part + 2) % 3] + engine.uint32(part + 1)
    return first, second


@dataclass(frozen=True)
class Coins:
    """Tables to draw a count with one word and one look: a distribution a row, on 0 to 127.

    ``cells``: uint32 of shape (rows * 128,): the upper 25 bits how much of the cell is its own, the lower 7 whose the rest is (Walker
    1977, Vose 1991). Probabilities are right to 2**-25 of a cell.
    """

    cells: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, rows: npt.NDArray[np.float64]) -> Coins:
        """From probabilities of shape (rows, at most 128), each row summing to 1."""
        wide = np.zeros((rows.shape[0], _CELLS))
        wide[:, : rows.shape[1]] = rows
        return cls(np.concatenate([_alias(row) for row in wide]))


def choose(engine: Any, cells: Array, row: Array, word: Array) -> Array:
    """A count an entry, int32, from the distribution of its row and a uniform word."""
    place = (word >> engine.uint32(25)).astype(engine.int32)
    cell = engine.take(cells, row * engine.int32(_CELLS) + place)
    own = (word & engine.uint32(_FRACTION - 1)) < (cell >> engine.uint32(7))
    return engine.where(own, place, (cell & engine.uint32(_CELLS - 1)).astype(engine.int32))


def _alias(probabilities: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    left = probabilities * _CELLS
    own, other = np.ones(_CELLS), np.arange(_CELLS)
    short, long = [at for at in range(_CELLS) if left[at] < 1], [at for at in range(_CELLS) if left[at] >= 1]
    while short and long:
        small, large = short.pop(), long[-1]
        own[small], other[small] = left[small], large
        left[large] -= 1 - left[small]
        if left[large] < 1:
            short.append(long.pop())
    kept = np.minimum(np.rint(own * _FRACTION), _FRACTION - 1).astype(np.uint32)
    return (kept << np.uint32(7)) | other.astype(np.uint32)


def binomial_probabilities(tasks: Sequence[int], chances: Sequence[float]) -> npt.NDArray[np.float64]:
    """P(k of n) for each pair of ``tasks`` and ``chances``, of shape (rows, max tasks + 1)."""
    top = max(tasks)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, top + 1)))])
    n, p, k = np.array(tasks)[:, None], np.array(chances)[:, None], np.arange(top + 1)[None, :]
    inside = k <= n
    rest = np.where(inside, n - k, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p = np.where(k > 0, k * np.log(p), 0.0) + np.where(rest > 0, rest * np.log1p(-p), 0.0)
        made = np.where(inside, np.exp(logs[n] - logs[k] - logs[rest] + log_p), 0.0)
    return np.asarray(made / made.sum(axis=1, keepdims=True))
