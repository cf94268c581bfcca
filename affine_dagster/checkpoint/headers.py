"""The header of a safetensors file, parsed as hostile bytes.

The format (safetensors README, "Format"): 8 bytes little-endian length N, N bytes of JSON ``{name: {dtype, shape,
data_offsets: [start, end]}}`` with offsets from the end of the header, then the data without holes. Every bound is checked
before anything of that size is allocated, and all of it needs only the file's size and its first bytes, so that a broken file
is refused before it is downloaded. What must not go in: tensor values (``digests.py``) or what a model needs (``admission/``).
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from affine_dagster.reasons import AffineError

__all__ = ["DTYPE_BYTES", "MAX_HEADER_BYTES", "Header", "TensorHeader", "parse_header", "read_header"]

DTYPE_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8, "C64": 8,
}
"""Bytes an element of the types of safetensors 0.8 whose elements are whole bytes; its types of 4 and 6 bits are not read here."""

MAX_HEADER_BYTES = 100_000_000
"""safetensors' own bound (``MAX_HEADER_SIZE``)."""

_LENGTH_BYTES = 8
_PREFIX_BYTES = 64
_LFS = b"version https://git-lfs"
_NAME = re.compile(r"[\x21-\x7e]{1,512}")
_MAX_DIMENSIONS = 8
_MAX_SIZE = 2**53


@dataclass(frozen=True)
class TensorHeader:
    """One tensor. ``start`` and ``end`` are byte offsets in the data, which begins after the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def elements(self) -> int:
        """The number of elements; 1 for a scalar."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Header:
    """A file's tensors in the order of their bytes. ``data_start`` is the offset of the data in the file."""

    tensors: tuple[TensorHeader, ...]
    data_start: int
    file_bytes: int


def read_header(read: Callable[[int, int], bytes], file_bytes: int, name: str, *, max_header_bytes: int = MAX_HEADER_BYTES) -> Header:
    """The header of a file of which ``read(start, length)`` gives ranges.

    Raises AffineError: ``empty_file``, ``lfs_pointer``, ``not_a_weights_file``, ``header_too_large``, ``size_mismatch``,
    ``bad_header``, ``duplicate_tensor``; ``hub_unavailable`` when a range comes back shorter than the size promises: then the
    reader is at fault, not the file.
    """
    prefix = _exactly(read, 0, min(file_bytes, _PREFIX_BYTES), name)
    length = _header_length(prefix, file_bytes, name, max_header_bytes)
    return parse_header(_exactly(read, _LENGTH_BYTES, length, name), file_bytes, name)


def _exactly(read: Callable[[int, int], bytes], start: int, length: int, name: str) -> bytes:
    got = read(start, length)
    if len(got) != length:
        raise AffineError("hub_unavailable", f"{name}: asked for {length} bytes at {start}, got {len(got)}")
    return got


def _header_length(prefix: bytes, file_bytes: int, name: str, max_header_bytes: int) -> int:
    if file_bytes == 0:
        raise AffineError("empty_file", name)
    if prefix.startswith(_LFS):
        raise AffineError("lfs_pointer", name)
    if len(prefix) <= _LENGTH_BYTES or not prefix[_LENGTH_BYTES:].startswith(b"{"):
        raise AffineError("not_a_weights_file", f"{name} begins with {prefix[:16]!r}")
    length = int(struct.unpack("<Q", prefix[:_LENGTH_BYTES])[0])
    if length > max_header_bytes:
        raise AffineError("header_too_large", f"{name}: {length} bytes, at most {max_header_bytes}")
    if _LENGTH_BYTES + length > file_bytes:
        raise AffineError("size_mismatch", f"{name}: {file_bytes} bytes, its header alone has {length}")
    return length


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise AffineError("duplicate_tensor", ascii(twice[:200]))
    return made


def _no_constants(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def parse_header(text: bytes, file_bytes: int, name: str) -> Header:
    """The header from its JSON bytes. Raises ``bad_header``, ``duplicate_tensor``, ``size_mismatch``."""
    try:
        plain = json.loads(text.decode("utf-8"), object_pairs_hook=_no_twins, parse_constant=_no_constants)
    except (ValueError, RecursionError) as error:
        raise AffineError("bad_header", f"{name}: {ascii(str(error))[:200]}") from error
    if not isinstance(plain, dict):
        raise AffineError("bad_header", f"{name}: not an object")
    plain.pop("__metadata__", None)
    found = (_tensor(key, value, name) for key, value in plain.items())
    tensors = sorted(found, key=lambda tensor: (tensor.start, tensor.end, tensor.name))
    data_start = _LENGTH_BYTES + len(text)
    _check_cover(tensors, data_start, file_bytes, name)
    return Header(tuple(tensors), data_start, file_bytes)


def _tensor(name: str, value: object, file: str) -> TensorHeader:
    if not _NAME.fullmatch(name):
        raise AffineError("bad_header", f"{file}: a tensor name is empty, too long or not printable ASCII: {name[:80]!a}")
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise AffineError("bad_header", f"{file}: {name} has other fields than dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise AffineError("bad_header", f"{file}: {name} has the unknown type {ascii(dtype)[:40]}")
    if not _sizes(shape) or len(shape) > _MAX_DIMENSIONS:
        raise AffineError("bad_header", f"{file}: {name} has a shape that is not a list of at most {_MAX_DIMENSIONS} sizes")
    if not _sizes(offsets) or len(offsets) != 2:
        raise AffineError("bad_header", f"{file}: {name} has offsets that are not two sizes")
    tensor = TensorHeader(name, dtype, tuple(shape), offsets[0], offsets[1])
    if tensor.end - tensor.start != tensor.elements * DTYPE_BYTES[dtype]:
        raise AffineError("bad_header", f"{file}: {name} has {tensor.end - tensor.start} bytes, its shape and type need another number")
    return tensor


def _sizes(value: object) -> bool:
    return isinstance(value, list) and all(type(size) is int and 0 <= size <= _MAX_SIZE for size in value)


def _check_cover(tensors: Sequence[TensorHeader], data_start: int, file_bytes: int, name: str) -> None:
    reached = 0
    for tensor in tensors:
        if tensor.start != reached:
            raise AffineError("bad_header", f"{name}: {tensor.name} begins at {tensor.start}, the bytes before it end at {reached}")
        reached = tensor.end
    if data_start + reached != file_bytes:
        raise AffineError("size_mismatch", f"{name}: {file_bytes} bytes, its header says {data_start + reached}")
