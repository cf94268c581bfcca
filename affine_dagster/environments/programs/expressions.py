"""Levels 1 to 3: one expression of two whole numbers; a second step after it; a condition.

What must not go in: lists, text, recursion (``pipelines.py``, ``structures.py``).
"""

from __future__ import annotations

import random
from typing import Any

from affine_dagster.environments.programs.specification import Parameter, Relation, Specification

__all__ = ["condition", "expression", "two_steps"]

_TWO = (
    ("sum", "the sum of {x} and {y}", "{x} + {y}"), ("difference", "{x} minus {y}", "{x} - {y}"),
    ("product", "the product of {x} and {y}", "{x} * {y}"), ("larger", "the larger of {x} and {y}", "max({x}, {y})"),
    ("smaller", "the smaller of {x} and {y}", "min({x}, {y})"), ("distance", "the distance between {x} and {y}", "abs({x} - {y})"),
)
_THEN = (
    ("plus", "plus {c}", "{e} + {c}"), ("minus", "minus {c}", "{e} - {c}"), ("times", "times {c}", "({e}) * {c}"),
    ("modulo", "modulo {c}", "({e}) % {c}"), ("squared", "squared", "({e}) ** 2"), ("negated", "negated", "-({e})"),
)
_SYMMETRIC = frozenset({"sum", "product", "larger", "smaller", "distance"})
_PARAMETERS = (Parameter("a", "integer"), Parameter("b", "integer"))


def _swapped(dice: random.Random, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return arguments[::-1]


_COMMUTES = Relation("it is the same with a and b exchanged", _swapped)


def _two(dice: random.Random) -> tuple[str, str, str, tuple[int, ...], bool]:
    """Operation, words, code, constants, and whether both parameters are in it, symmetrically."""
    name, words, code = dice.choice(_TWO)
    constant = dice.randint(2, 9)
    x, y = dice.choice([("a", "b"), ("b", "a"), ("a", str(constant)), ("b", str(constant))])
    both = y in "ab"
    return name, words.format(x=x, y=y), code.format(x=x, y=y), () if both else (constant,), both and name in _SYMMETRIC


def expression(dice: random.Random) -> Specification:
    """Level 1: one expression."""
    name, words, code, constants, symmetric = _two(dice)
    return _specification(1, name, words, code, constants, symmetric)


def two_steps(dice: random.Random) -> Specification:
    """Level 2: an expression, and one more step with its result."""
    first, words, code, constants, symmetric = _two(dice)
    second, then, wrapped = dice.choice(_THEN)
    constant = dice.randint(2, 9)
    written = wrapped.format(e=code, c=constant)
    used = constants if "{c}" not in wrapped else (*constants, constant)
    return _specification(2, f"{first}_{second}", f"{words}, {then.format(c=constant)}", written, used, symmetric)


def condition(dice: random.Random) -> Specification:
    """Level 3: one expression or another, by a comparison with a constant."""
    first, words, code, constants, _ = _two(dice)
    second, others, other, more, _ = _two(dice)
    while _same(code, other):
        second, others, other, more, _ = _two(dice)
    limit, name = dice.randint(0, 9), dice.choice("ab")
    comparison, sign = dice.choice([("greater than", ">"), ("less than", "<")])
    text = f"{words} if {name} is {comparison} {limit}, and otherwise {others}"
    written = f"{code} if {name} {sign} {limit} else {other}"
    return _specification(3, f"{first}_or_{second}", text, written, (*constants, *more, limit), False)


def _same(one: str, other: str) -> bool:
    """Whether two expressions have the same values: if they differ at all, then here."""
    first, second = (eval(f"lambda a, b: {code}") for code in (one, other))  # noqa: S307 - our own text
    return all(first(a, b) == second(a, b) for a in range(-12, 13, 4) for b in range(-11, 13, 3))


def _specification(level: int, name: str, words: str, code: str, constants: tuple[int, ...], symmetric: bool) -> Specification:
    source = f"def f(a, b):\n    return {code}"
    return Specification(level, name, words, _PARAMETERS, source, constants, (_COMMUTES,) if symmetric else ())
