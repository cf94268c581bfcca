"""Values across the sandbox's wall: plain data to JSON and back, by exact type, bounded in depth, size and digits.

Read by both sides, so it imports next to nothing: a sandbox starts in the time that its imports take. What must not go in: anything
that would make an object of a name that the other side chose (no pickle, no marshal, no eval): the text from inside is hostile.
"""

from __future__ import annotations

import collections
import json
import re

TYPE_CHECKING = False  # not typing's: importing that would cost the sandbox's start more than all else in here
if TYPE_CHECKING:
    from affine_dagster.environments.sandbox.port import Value

__all__ = ["MAX_DEPTH", "NotPlainError", "TooLargeError", "decode", "encode"]

MAX_DEPTH = 40
"""Lists in lists that still cross."""

_DICTIONARIES = (dict, collections.Counter, collections.defaultdict, collections.OrderedDict)
"""A program that counts returns a Counter: the standard library's own kinds of dictionary cross as dictionaries."""

_SURROGATE = re.compile("[\ud800-\udfff]")

MAX_INTEGER_BITS = 13_000
"""About 3,900 decimal digits: Python itself refuses to print or read more than 4,300."""


class NotPlainError(ValueError):
    """What is no plain value: another type, a subclass, a cycle or a nesting deeper than :data:`MAX_DEPTH`."""


class TooLargeError(ValueError):
    """A value whose text is longer than the limit."""


def encode(value: object, limit: int) -> str:
    """The value as JSON text of at most ``limit`` characters, ASCII. Raises NotPlainError, TooLargeError.

    None, bool, str and int stand for themselves; a list is a list; ``{"f": hex}`` a float, ``{"t": [...]}`` a tuple, ``{"d": [[key,
    value], ...]}`` a dictionary in its order (also one of ``collections``), ``{"s": hex}`` a text with surrogates, which JSON would
    join to pairs.
    """
    budget = [limit]
    text = json.dumps(_plain(value, MAX_DEPTH, budget), ensure_ascii=True, separators=(",", ":"))
    if len(text) > limit:
        raise TooLargeError(f"{len(text)} characters")
    return text


def _plain(value: object, depth: int, budget: list[int]) -> object:
    """The tagged form. ``budget`` falls by what each part will print at least, so that a huge value is refused before it is copied."""
    kind = type(value)
    if kind is str:
        _spend(budget, len(value))  # type: ignore[arg-type]
        return value if not _SURROGATE.search(value) else {"s": value.encode("utf-8", "surrogatepass").hex()}  # type: ignore[attr-defined, call-overload]
    _spend(budget, 1)
    if value is None or kind is bool:
        return value
    if kind is int:
        bits = value.bit_length()  # type: ignore[attr-defined]
        if bits > MAX_INTEGER_BITS:
            raise TooLargeError(f"an integer of {bits} bits")
        _spend(budget, bits // 4)
        return value
    if kind is float:
        return {"f": value.hex()}  # type: ignore[attr-defined]
    return _container(value, depth, budget)


def _container(value: object, depth: int, budget: list[int]) -> object:
    if depth == 0:
        raise NotPlainError("nested too deep")
    if type(value) is list:
        return [_plain(item, depth - 1, budget) for item in value]
    if type(value) is tuple:
        return {"t": [_plain(item, depth - 1, budget) for item in value]}
    if isinstance(value, dict) and type(value) in _DICTIONARIES:
        if not all(type(key) in (str, int) for key in value):
            raise NotPlainError("a dictionary whose keys are neither text nor whole numbers")
        return {"d": [[_plain(key, 1, budget), _plain(item, depth - 1, budget)] for key, item in value.items()]}
    raise NotPlainError("neither None nor exactly bool, int, float, str, list, tuple or dict")


def _spend(budget: list[int], amount: int) -> None:
    budget[0] -= amount
    if budget[0] < 0:
        raise TooLargeError("more than the limit")


def decode(text: str | bytes) -> Value:
    """The value of a text that ``encode`` wrote. Raises NotPlainError for any other text, whatever it holds."""
    try:
        return _value(json.loads(text), MAX_DEPTH)
    except (ValueError, RecursionError, OverflowError) as error:
        raise NotPlainError(f"not a value: {type(error).__name__}") from None  # the text is hostile: its words are not passed on


def _value(tagged: object, depth: int) -> Value:
    if tagged is None or type(tagged) in (bool, int, str):
        return tagged  # type: ignore[return-value]
    if depth == 0:
        raise NotPlainError("nested too deep")
    if type(tagged) is list:
        return [_value(item, depth - 1) for item in tagged]
    if type(tagged) is dict and len(tagged) == 1:
        ((tag, inner),) = tagged.items()
        if tag == "f" and type(inner) is str:
            return float.fromhex(inner)
        if tag == "s" and type(inner) is str:
            return bytes.fromhex(inner).decode("utf-8", "surrogatepass")
        if tag == "t" and type(inner) is list:
            return tuple(_value(item, depth - 1) for item in inner)
        if tag == "d" and type(inner) is list:
            return dict(_item(item, depth) for item in inner)
    raise NotPlainError("an unknown form")


def _item(pair: object, depth: int) -> tuple[str | int, Value]:
    if type(pair) is not list or len(pair) != 2 or type(pair[0]) not in (str, int, dict):
        raise NotPlainError("an unknown form of a dictionary's item")
    key = _value(pair[0], 1)
    if type(key) not in (str, int):
        raise NotPlainError("a key that is neither text nor a whole number")
    return key, _value(pair[1], depth - 1)  # type: ignore[return-value]
