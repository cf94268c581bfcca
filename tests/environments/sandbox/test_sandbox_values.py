"""What crosses the wall comes out as it went in, and nothing else crosses."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.environments.sandbox.values import NotPlainError, TooLargeError, decode, encode

ROOM = 10**7
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


def same(one: object, other: object) -> bool:
    """Equal by exact type, NaN to NaN, -0.0 apart from 0.0, dictionaries in their order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or one.hex() == other.hex()
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return same(list(one.items()), list(other.items()))
    return one == other


@given(PLAIN)
def test_a_plain_value_comes_back_the_same(value: object) -> None:
    assert same(decode(encode(value, ROOM)), value)


@given(st.text(st.characters(categories=["Cs"]), min_size=1))
def test_lone_surrogates_cross_too(text: str) -> None:
    assert decode(encode(text, ROOM)) == text


class Lying(int):
    """Equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize("kind", [Counter, OrderedDict, lambda items: defaultdict(int, items)])
def test_the_standard_librarys_dictionaries_cross_as_dictionaries(kind: Callable[[dict[str, int]], object]) -> None:
    found = decode(encode(kind({"b": 2, "a": 1}), ROOM))
    assert (type(found), list(found.items())) == (dict, [("b", 2), ("a", 1)])  # type: ignore[union-attr]


@pytest.mark.parametrize("value", [Lying(3), {1, 2}, object(), b"bytes", {(1, 2): 3}, {None: 1}, lambda: 1, 1j, range(3)])
def test_what_is_not_exactly_plain_does_not_cross(value: object) -> None:
    with pytest.raises(NotPlainError):
        encode([value], ROOM)


def test_a_cycle_does_not_cross() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(NotPlainError):
        encode(cycle, ROOM)


LONG = {
    "text": "a" * 1001, "list": [0] * 1001, "integer": 10**5000, "dictionary": {str(number): number for number in range(1001)},
    "escapes": "\x00" * 300,
}


@pytest.mark.parametrize("value", LONG.values(), ids=list(LONG))
def test_what_is_longer_than_the_limit_does_not_cross(value: object) -> None:
    with pytest.raises(TooLargeError):
        encode(value, 1000)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, '{"f": "nonsense"}', '{"f": 1}', '{"t": 1}', '{"d": [[1]]}', '{"d": [[[1], 2]]}', '{"x": []}', "{}", "1.5",
     "NaN", '{"f": "0x1p999999"}', '{"f": "0x1.0", "t": []}', "9" * 5000, "\x00", '{"d": [[null, 2]]}', "[" * 60 + "]" * 60],
)
def test_a_text_that_encode_never_wrote_is_refused(text: str) -> None:
    with pytest.raises(NotPlainError):
        decode(text)


@given(st.binary())
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    with suppress(NotPlainError):
        assert encode(decode(data), ROOM)
