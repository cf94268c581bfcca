"""Roots and powers that come out the same on every machine: a processor's own may differ in the last bit, and weights hang on them.

Division and square roots of floating point are rounded correctly everywhere (IEEE 754); roots and powers of other degrees are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal

__all__ = ["geometric_mean", "power"]

_BITS = 60
_EXACT = Context(prec=40)


def geometric_mean(values: Sequence[float], epsilon: float) -> float:
    """(Π (v + ε))^(1/n) − ε for values of 0 or more, rounded down to 2**-60 before ε is taken off; 0 values give 0."""
    if not values:
        return 0.0
    product: float = math.prod((value + epsilon for value in values), start=1.0)
    top, bottom = product.as_integer_ratio()
    degree = len(values)
    root: float = _root((top << (_BITS * degree)) // bottom, degree) / 2**_BITS
    return root - epsilon


def _root(number: int, degree: int) -> int:
    """The whole part of a root of a whole number, by Newton's method from above."""
    if number == 0 or degree == 1:
        return number
    guess = 1 << -(-number.bit_length() // degree)
    while True:
        better = ((degree - 1) * guess + number // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better


def power(base: float, exponent: float) -> float:
    """base**exponent for a positive base, by the decimal module's own arithmetic, which no processor has a part in."""
    scaled = _EXACT.multiply(_EXACT.ln(Decimal(base)), Decimal(exponent))
    return float(_EXACT.exp(scaled))
