"""Judging a program: hidden calls, the reference's results, and relations; compared outside, by exact type.

The sandbox gets arguments only. What a right program would have returned is computed here, by the reference, and never goes in. What must
not go in: words of a specification, and sandboxes.
"""

from __future__ import annotations

import builtins
import hashlib
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from affine_dagster.environments.programs.inputs import argument_lists
from affine_dagster.environments.programs.specification import Specification
from affine_dagster.environments.sandbox.port import Outcome, Program, Raised, Returned

__all__ = ["CALLS", "Examination", "examine", "reference", "result_of", "same", "varied", "verdict"]

CALLS = 40
"""At least so many calls with expected results; a near miss that differs on one input in ten slips through one time in seventy.
Where the only argument is a count, there are no more than 26."""

_DIFFERENT = 3
"""Calls on which every constant is wrong, at least."""

_ERRORS = frozenset(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
) | {"NotPlain", "Unprintable"}
"""Names of errors that may stand in a detail: any other is the program's own word, and could hold what it was asked."""

_RELATED_CALLS = 6
"""Pairs of calls for each relation."""


@dataclass(frozen=True)
class Examination:
    """The calls of one task: those that the prompt shows, and many more that are hidden.

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


def varied(results: Sequence[object]) -> bool:
    """Whether every constant is wrong on some of these results: else knowing one would be as good as a program."""
    alike = Counter(map(repr, results))
    return len(results) - max(alike.values(), default=0) >= _DIFFERENT


def examine(specification: Specification, label: str, begun: Sequence[tuple[Any, ...]] = ()) -> Examination:
    """The examination of a specification, drawn from a label. The arguments that it was ``begun`` with are among its calls."""
    dice = random.Random(_number(label))  # noqa: S311 - reproducible by design; the label holds the task's seed
    calls = argument_lists(specification.parameters, dice, specification.constants, CALLS, begun)
    dice.shuffle(calls)
    expected = tuple(result_of(specification.source, arguments) for arguments in calls)
    pairs: list[tuple[Any, ...]] = []
    related: list[int] = []
    for number, relation in enumerate(specification.relations):
        for arguments in calls[:_RELATED_CALLS]:
            pairs += [arguments, relation.change(dice, tuple(map(_own, arguments)))]
            related.append(number)
    return Examination(specification, (*calls, *pairs), expected, tuple(related))


def verdict(examination: Examination, outcome: Outcome) -> tuple[bool, str]:
    """Whether the program passes, and in one line why not. No word of the program's own is in the line, nor what it was asked."""
    count = len(examination.expected)
    if outcome.ending == "not_loaded":
        return False, f"not_loaded: {_named(outcome.detail.partition(':')[0])}"
    if outcome.ending != "finished":
        return False, f"{outcome.ending} after {len(outcome.results)} of {len(examination.calls)} calls"
    wrong = [
        result for result, expected in zip(outcome.results[:count], examination.expected, strict=True)
        if not (isinstance(result, Returned) and same(result.value, expected))
    ]
    if wrong:
        error = next((result.error for result in wrong if isinstance(result, Raised)), None)
        return False, f"wrong on {len(wrong)} of {count} calls" + (f", first error {_named(error)}" if error else "")
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


def _named(error: str) -> str:
    return error if error in _ERRORS else "an error of its own"


def _number(label: str) -> int:
    return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=16).digest(), "big")


def result_of(source: str, arguments: tuple[Any, ...]) -> Any:
    """What the reference of that source returns; the arguments stay as they are."""
    return reference(source)(*map(_own, arguments))


def _own(argument: Any) -> Any:
    """A copy of an argument: all containers are lists, nothing is shared, and ``copy.deepcopy`` would take most of a task's time."""
    return [_own(part) for part in argument] if isinstance(argument, list) else argument


@lru_cache(maxsize=4096)
def reference(source: str) -> Any:
    """A specification's reference as a function. It is our own text, made by the builders of this room."""
    space: dict[str, Any] = {}
    exec(compile(source, "reference", "exec"), space)  # noqa: S102 - never a completion: those run in the sandbox alone
    return space["f"]
