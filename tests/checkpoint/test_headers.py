"""A safetensors header is read right or refused with a reason, whatever its bytes."""

from __future__ import annotations

import json
import struct
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from affine_dagster.checkpoint.headers import Header, read_header
from affine_dagster.reasons import AffineError, Fault

GOOD = ("a", "F32", [2], (0, 8))


def header(content: bytes, **options: int) -> Header:
    return read_header(lambda start, length: content[start : start + length], len(content), "model.safetensors", **options)


def refusal(content: bytes, **options: int) -> str:
    with pytest.raises(AffineError) as error:
        header(content, **options)
    assert error.value.reason.fault is Fault.MODEL
    return error.value.code


def with_text(text: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text + data


def test_names_types_shapes_and_places_are_read() -> None:
    content = save({"a": np.zeros((2, 3), np.float16), "b": np.zeros((), np.float32)}, metadata={"format": "pt"})
    found = {tensor.name: (tensor.dtype, tensor.shape, tensor.elements) for tensor in header(content).tensors}
    assert found == {"a": ("F16", (2, 3), 6), "b": ("F32", (), 1)}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "lfs_pointer"),
        (b"", "empty_file"),
        (b"<!DOCTYPE html><html><body>Not found</body></html>", "not_a_weights_file"),
        (b"\x80\x04\x95abcdefghijklmnopqrstuvwxyz", "not_a_weights_file"),  # pragma: allowlist secret
        (b"abc", "not_a_weights_file"),
    ],
)
def test_what_is_no_weights_file_is_named_for_what_it_is(content: bytes, code: str) -> None:
    """H1."""
    assert refusal(content) == code


@pytest.mark.parametrize("change", [-1, 1, -8])
def test_a_file_shorter_or_longer_than_its_header_says_is_refused(make: ModuleType, change: int) -> None:
    """H2."""
    content = make.raw_safetensors([GOOD], bytes(8 + change))
    assert refusal(content) == "size_mismatch"


def test_a_header_of_exactly_100000_bytes_is_read(make: ModuleType) -> None:
    """H7."""
    bare = len(make.raw_safetensors([GOOD], b"")) - 8
    content = make.raw_safetensors([GOOD], bytes(8), padding=100_000 - bare)
    assert header(content).data_start == 100_008


def test_a_reader_that_returns_too_little_is_not_the_miners_fault(make: ModuleType) -> None:
    """H7: the reader cuts at 100 bytes; the file is good."""
    content = make.raw_safetensors([GOOD], bytes(8), padding=500)
    with pytest.raises(AffineError) as error:
        read_header(lambda start, length: content[start : start + min(length, 100)], len(content), "model.safetensors")
    assert error.value.code == "hub_unavailable"


def test_a_large_length_is_refused_before_anything_of_that_size_is_read() -> None:
    """H8: 101 MiB."""
    asked: list[int] = []

    def read(start: int, length: int) -> bytes:
        asked.append(length)
        return (struct.pack("<Q", 101 * 2**20) + b"{" + bytes(100))[start : start + length]

    with pytest.raises(AffineError) as error:
        read_header(read, 10**9, "model.safetensors")
    assert error.value.code == "header_too_large"
    assert sum(asked) < 1000


def test_a_name_that_stands_twice_is_refused() -> None:
    entry = json.dumps({"dtype": "F32", "shape": [1], "data_offsets": [0, 4]})
    assert refusal(with_text(f'{{"a": {entry}, "a": {entry}}}'.encode(), bytes(4))) == "duplicate_tensor"


@pytest.mark.parametrize(
    "entries",
    [
        [("a", "F32", [2], (0, 8)), ("b", "F32", [1], (4, 8))],
        [("a", "F32", [1], (0, 4)), ("b", "F32", [1], (8, 12))],
        [("a", "F32", [1], (4, 8))],
        [("a", "F32", [3], (0, 8))],
        [("a", "F33", [2], (0, 8))],
        [("a", "F32", [-2], (0, 8))],
        [("a", "F32", [2**62, 4], (0, 8))],
        [("a", "F32", [True, 2], (0, 8))],
        [("a", "F32", [2], (8, 0))],
        [("a", "F32", [1] * 9 + [2], (0, 8))],
        [("", "F32", [2], (0, 8))],
        [("a\n", "F32", [2], (0, 8))],
        [("\ud800", "F32", [2], (0, 8))],
    ],
)
def test_holes_overlaps_and_impossible_fields_are_refused(
    make: ModuleType, entries: list[tuple[str, str, list[int], tuple[int, int]]]
) -> None:
    assert refusal(make.raw_safetensors(entries, bytes(8))) == "bad_header"


@pytest.mark.parametrize(
    "text", [b"{", b"{}}", b'{"a": NaN}', b'{"a": 1}', b'{"a": {}}', b'{"a":' + b"[" * 100_000, b"{\xff}", b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_text_that_is_no_header_is_refused(text: bytes) -> None:
    assert refusal(with_text(text)) == "bad_header"


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        header(content)
    except AffineError:
        return


LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
JSON = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=8
)
FIELDS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "BF16", "X"]) | JSON,
        "shape": st.lists(st.integers(-1, 4), max_size=3) | JSON,
        "data_offsets": st.lists(st.integers(-1, 20), min_size=2, max_size=2) | JSON,
    }
)


@settings(max_examples=200)
@given(st.dictionaries(st.text(max_size=8) | st.just("__metadata__"), FIELDS | JSON, max_size=4), st.binary(max_size=40))
def test_arbitrary_headers_are_read_or_refused(plain: dict[str, object], data: bytes) -> None:
    try:
        header(with_text(json.dumps(plain).encode(), data))
    except AffineError:
        return


@settings(max_examples=150)
@given(st.integers(0, 200), st.binary(min_size=1, max_size=4))
def test_what_we_accept_safetensors_accepts_too(at: int, change: bytes) -> None:
    content = bytearray(save({"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(2, np.float16)}))
    content[at : at + len(change)] = change
    try:
        found = header(bytes(content))
    except AffineError:
        return
    if all(tensor.dtype in {"F32", "F16"} for tensor in found.tensors):
        theirs = {name: array.shape for name, array in load(bytes(content)).items()}
        assert theirs == {tensor.name: tensor.shape for tensor in found.tensors}
