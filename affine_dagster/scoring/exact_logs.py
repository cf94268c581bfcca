"""Logarithms as whole numbers of 2**-32, rounded down: the same on every machine, and sums of them in every order.

A processor's ``log1p`` and ``exp`` may differ in the last bits from another's, and a sum of floating-point numbers depends on its order.
Here each logarithm is computed in double precision and rounded down; where it lies so near a whole number that those bits could decide,
it is computed again to fifty digits (Ziv 1991, "Fast evaluation of elementary mathematical functions with correctly rounded last bit").
What must not go in: what is bet, and on what (``bets.py``, ``evidence.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
import numpy.typing as npt

__all__ = ["UNIT", "Units", "log1p_units", "log_half_one_plus_units", "log_mean_units"]

UNIT = 2**32
"""Units of a natural logarithm of 1."""

Units = npt.NDArray[np.int64]
"""Logarithms in units of 2**-32."""

_DIGITS = 50
_DOUBT = 2.0**-12
"""How near a whole number a value in units is computed again. Logarithms here are under 2**5, so 2**37 units, in which four units in the
last place of a double are 2**-14."""


def log1p_units(values: npt.NDArray[np.float64]) -> Units:
    """Log of 1 + value in units, rounded down, of any shape. Values from -1 + 2**-30 to 2**30."""
    return _floored(np.log1p(values) * UNIT, values, _exact_log1p)


def log_mean_units(logs: Units) -> Units:
    """Log of the mean of exp over the last axis, in units and from units, rounded down; the last axis has at most 2**10 entries."""
    top = logs.max(axis=-1, keepdims=True)
    below = np.ascontiguousarray(logs - top)
    mean = np.exp(below / UNIT).sum(axis=-1) / below.shape[-1]
    flat = below.reshape(-1, below.shape[-1])
    found = np.log(mean) * UNIT
    places = np.arange(flat.shape[0]).reshape(found.shape)
    return np.asarray(top[..., 0] + _floored(found, places, lambda at: _exact_log_mean(flat[int(at)])))


def log_half_one_plus_units(logs: Units) -> Units:
    """Log of (1 + exp(log)) / 2 in units and from units, rounded down; 0 at 0."""
    found = np.log1p(np.exp(-np.abs(logs) / UNIT)) - np.log(2.0)
    return np.maximum(logs, 0) + _floored(found * UNIT, -np.abs(logs), _exact_log_half_one_plus)


def _floored(found: npt.NDArray[np.float64], source: npt.NDArray[np.generic], exact: Callable[[float], int]) -> Units:
    """``found`` rounded down, by ``exact`` of the source's entry where the double cannot tell."""
    floors, sources = np.floor(found).astype(np.int64).reshape(-1), np.asarray(source).reshape(-1)
    for at in np.flatnonzero(np.abs(found - np.rint(found)) < _DOUBT):
        floors[at] = exact(sources[at].item())
    return floors.reshape(np.shape(found))


@lru_cache(maxsize=65536)
def _exact_log1p(value: float) -> int:
    if abs(value) < 1 / (2 * UNIT):  # under one unit either way, and perhaps beyond the digits of 1 + value
        return -int(value < 0)
    with localcontext() as context:
        context.prec = _DIGITS
        return _floor((1 + Decimal(value)).ln() * UNIT)


@lru_cache(maxsize=65536)
def _exact_log_half_one_plus(below: int) -> int:
    with localcontext() as context:
        context.prec = _DIGITS
        return _floor(((1 + (Decimal(below) / UNIT).exp()) / 2).ln() * UNIT)


def _exact_log_mean(below: Units) -> int:
    with localcontext() as context:
        context.prec = _DIGITS
        total = sum(((Decimal(int(value)) / UNIT).exp() for value in below), Decimal(0))
        return _floor((total / len(below)).ln() * UNIT)


def _floor(value: Decimal) -> int:
    whole = int(value)
    return whole - (value < whole)
