"""Judging a program: hidden calls, the reference's results, and relations; compared outside, by exact type.

The sandbox gets arguments only. What a right program would have returned is computed here, by the reference, and never goes in. What must
not go in: words of a specification, and sandboxes.
"""

from __future__ import annotations

import copy
import hashlib
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from affine_dagster.environments.programs.inputs import argument_lists
from affine_dagster.environments.programs.specification import Specification
from affine_dagster.environments.sandbox.port import Outcome, Program, Raised, Returned

__all__ = ["HIDDEN_CALLS", "Examination", "examine", "same", "verdict"]

HIDDEN_CALLS = 40
"""At least so many calls with expected results; a near miss that differs on one input in ten slips through one time in seventy."""

_RELATED_CALLS = 6
"""Pairs of calls for each relation."""


@dataclass(frozen=True)
class Examination:
    """The hidden calls of one task.

    ``calls``: all arguments in the order in which they are made. ``expected``: the reference's results of the first of them. The calls
    after those come in pairs: ``related`` gives the relation's number in the specification for each pair.
    """

    specification: Specification
    calls: tuple[tuple[Any, ...], ...]
    expected: tuple[Any, ...]
    related: tuple[int, ...]

    def program(self, source: str) -> Program:
        """What the sandbox is given."""
        return Program(source, "f", self.calls)


def examine(specification: Specification, label: str, shown: Sequence[tuple[Any, ...]] = ()) -> Examination:
    """The examination of a specification, drawn from a label; none of its calls with expected results was ``shown``."""
    dice = random.Random(_number(label))  # noqa: S311 - reproducible by design; the label holds the task's seed
    drawn = argument_lists(specification.parameters, dice, specification.constants, HIDDEN_CALLS + len(shown))
    known = {repr(arguments) for arguments in shown}
    hidden = [arguments for arguments in drawn if repr(arguments) not in known]
    dice.shuffle(hidden)
    reference = _reference(specification.source)
    expected = tuple(reference(*copy.deepcopy(arguments)) for arguments in hidden)
    pairs: list[tuple[Any, ...]] = []
    related: list[int] = []
    for number, relation in enumerate(specification.relations):
        for arguments in hidden[:_RELATED_CALLS]:
            pairs += [arguments, relation.change(dice, copy.deepcopy(arguments))]
            related.append(number)
    return Examination(specification, (*hidden, *pairs), expected, tuple(related))


def verdict(examination: Examination, outcome: Outcome) -> tuple[bool, str]:
    """Whether the program passes, and in one line why not. No hidden argument or result is in the line."""
    count = len(examination.expected)
    if outcome.ending != "finished":
        return False, f"{outcome.ending}: {outcome.detail}" if outcome.detail else f"{outcome.ending} after {len(outcome.results)} calls"
    wrong = [
        result for result, expected in zip(outcome.results[:count], examination.expected, strict=True)
        if not (isinstance(result, Returned) and same(result.value, expected))
    ]
    if wrong:
        error = next((result.error for result in wrong if isinstance(result, Raised)), None)
        return False, f"wrong on {len(wrong)} of {count} hidden calls" + (f", first error {error}" if error else "")
    broken = _broken(examination, outcome.results[count:])
    return (False, f"not so: {broken}") if broken else (True, "")


def same(value: object, expected: object) -> bool:
    """Equal by exact type, at every depth: True is not 1, and 2.0 is not 2. NaN is NaN; dictionaries without regard to order."""
    if type(value) is not type(expected):
        return False
    if isinstance(value, float) and isinstance(expected, float):
        return value == expected or (math.isnan(value) and math.isnan(expected))
    if isinstance(value, list | tuple) and isinstance(expected, list | tuple):
        return len(value) == len(expected) and all(map(same, value, expected))
    if isinstance(value, dict) and isinstance(expected, dict):
        keyed = {(type(key), key): item for key, item in value.items()}
        return len(value) == len(expected) and all(
            (type(key), key) in keyed and same(keyed[type(key), key], item) for key, item in expected.items()
        )
    return value == expected


def _broken(examination: Examination, results: Sequence[Returned | Raised]) -> str | None:
    """The first relation that the program's own results do not keep."""
    for index, number in enumerate(examination.related):
        first, second = results[2 * index : 2 * index + 2]
        relation = examination.specification.relations[number]
        kept = isinstance(first, Returned) and isinstance(second, Returned) and same(second.value, relation.expected(first.value))
        if not kept:
            return relation.name
    return None


def _number(label: str) -> int:
    return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=16).digest(), "big")


@lru_cache(maxsize=4096)
def _reference(source: str) -> Any:
    """The reference as a function. It is our own text, made by the builders of this room."""
    space: dict[str, Any] = {}
    exec(compile(source, "reference", "exec"), space)  # noqa: S102 - never a completion: those run in the sandbox alone
    return space["f"]
