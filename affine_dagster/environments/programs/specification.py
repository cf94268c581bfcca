"""What a specification is: words, a reference, the kinds of its inputs, and relations that every right program keeps.

What must not go in: any single level (``expressions.py``, ``pipelines.py``, ``structures.py``) and how a program is judged (``judge.py``).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Builder", "Kind", "Parameter", "Relation", "Specification"]

Kind = Literal[
    "integer", "count", "integers", "words", "text", "rows", "nested", "tree", "intervals", "grid", "postfix", "edges", "brackets"
]
"""What an argument is; ``inputs.py`` draws one and knows the edges of each."""


@dataclass(frozen=True)
class Parameter:
    """A parameter's name and what is given for it."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Relation:
    """A property of a right program: on changed arguments its result is what ``expected`` makes of the first result.

    ``change``: from a source of randomness and the arguments, other arguments. It holds of the program alone, without the reference.
    """

    name: str
    change: Callable[[random.Random, tuple[Any, ...]], tuple[Any, ...]]
    expected: Callable[[Any], Any] = lambda result: result


@dataclass(frozen=True)
class Specification:
    """One program to be written.

    ``words``: what comes after "returns". ``parameters``: one of any kind, or several whole numbers. ``operation``: the family of
    behaviour, for lessons and tables. ``source``: the reference, a function ``f`` of the parameters. ``constants``: the numbers that
    stand in it, around which inputs are drawn.
    """

    level: int
    operation: str
    words: str
    parameters: tuple[Parameter, ...]
    source: str
    constants: tuple[int, ...] = ()
    relations: tuple[Relation, ...] = ()


Builder = Callable[[random.Random], Specification]
"""Draws a specification of one level."""
