"""Digests of a checkpoint's tensors: streamed in one pass, free of sharding, order and the two spellings of a tied head.

Definitions. tensor digest: BLAKE3 over ``dtype|shape|`` and the tensor's bytes. ``tensors_digest``: BLAKE3 over the sorted
lines (name, dtype, shape, tensor digest). ``tensor_set_digest``: the same over the sorted multiset without names. A tied head
(``lm_head.weight`` equal to the embedding) is left out of both, so it may be stored or not (case H10). A model is never in
memory whole: at most one chunk is. What must not go in: what an architecture needs (``admission/``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from blake3 import blake3

from affine_dagster.checkpoint.headers import MAX_HEADER_BYTES, Header, TensorHeader, read_header
from affine_dagster.checkpoint.layout import INDEX, Layout, check_agreement, layout_of
from affine_dagster.reasons import AffineError

__all__ = [
    "EMBEDDING", "HEAD", "FileFacts", "TensorFacts", "file_blake3", "folder_headers", "folder_layout", "scan_file", "tensor_set_digest",
    "tensors_digest", "untied",
]

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
_CHUNK = 8 * 2**20
_EXPONENT: Mapping[str, tuple[type[np.unsignedinteger], int]] = {
    "F16": (np.uint16, 0x7C00), "BF16": (np.uint16, 0x7F80), "F32": (np.uint32, 0x7F800000), "F64": (np.uint64, 0x7FF0000000000000),
}
"""The exponent bits (IEEE 754; bfloat16 is float32's upper half): all set means NaN or infinity."""


@dataclass(frozen=True)
class TensorFacts:
    """A tensor as read. ``blake3``: 64 hex digits; ``finite``: no NaN or infinity among its values (true for integers)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    blake3: str
    finite: bool

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class FileFacts:
    """A weights file as read: its size in bytes, BLAKE3 of all its bytes, its tensors in the order of their bytes."""

    name: str
    size: int
    blake3: str
    tensors: tuple[TensorFacts, ...]


def file_blake3(path: Path) -> str:
    """BLAKE3 of a file, streamed, 64 hex digits."""
    hasher = blake3()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
    return hasher.hexdigest()


def folder_layout(folder: Path) -> Layout:
    """The layout of a local folder. Raises as ``layout_of``."""
    index = folder / INDEX
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return layout_of(names, index.read_bytes() if index.is_file() else None)


def folder_headers(folder: Path, layout: Layout, *, max_header_bytes: int = MAX_HEADER_BYTES) -> dict[str, Header]:
    """The header of every weights file, checked against each other. Raises as ``read_header`` and ``check_agreement``."""
    headers: dict[str, Header] = {}
    for name in layout.files:
        path = folder / name
        with path.open("rb") as file:

            def read(start: int, length: int, file: BinaryIO = file) -> bytes:
                file.seek(start)
                return file.read(length)

            headers[name] = read_header(read, path.stat().st_size, name, max_header_bytes=max_header_bytes)
    check_agreement(layout, headers)
    return headers


def scan_file(path: Path, header: Header) -> FileFacts:
    """Read a weights file once: digest of the file, digest and finiteness of each tensor.

    Raises ``size_mismatch`` when the file ends before its header says.
    """
    whole = blake3()
    with path.open("rb", buffering=0) as file:
        for chunk in _chunks(file, header.data_start, path.name):
            whole.update(chunk)
        tensors = tuple(_scan_tensor(file, tensor, whole, path.name) for tensor in header.tensors)
    return FileFacts(path.name, header.file_bytes, whole.hexdigest(), tensors)


def _scan_tensor(file: BinaryIO, tensor: TensorHeader, whole: blake3, name: str) -> TensorFacts:
    hasher = blake3(f"{tensor.dtype}|{','.join(map(str, tensor.shape))}|".encode())
    finite = True
    for chunk in _chunks(file, tensor.end - tensor.start, name):
        whole.update(chunk)
        hasher.update(chunk)
        finite = finite and _finite(chunk, tensor.dtype)
    return TensorFacts(tensor.name, tensor.dtype, tensor.shape, hasher.hexdigest(), finite)


def _chunks(file: BinaryIO, length: int, name: str) -> Iterator[memoryview]:
    buffer = bytearray(min(length, _CHUNK))
    left = length
    while left:
        view = memoryview(buffer)[: min(left, _CHUNK)]
        filled = 0
        while filled < len(view):
            got = file.readinto(view[filled:])  # type: ignore[attr-defined]
            if not got:
                raise AffineError("size_mismatch", f"{name} ends {left - filled} bytes early")
            filled += got
        yield view
        left -= len(view)


def _finite(chunk: memoryview, dtype: str) -> bool:
    if dtype not in _EXPONENT:
        return True
    kind, mask = _EXPONENT[dtype]
    values = np.frombuffer(chunk, dtype=np.dtype(kind).newbyteorder("<"))
    bits = kind(mask)
    return not bool(((values & bits) == bits).any())


def untied(tensors: Iterable[TensorFacts]) -> list[TensorFacts]:
    """The tensors without a head that equals the embedding, sorted by name."""
    by_name = {tensor.name: tensor for tensor in tensors}
    head, embedding = by_name.get(HEAD), by_name.get(EMBEDDING)
    if head is not None and embedding is not None and head.blake3 == embedding.blake3:
        del by_name[HEAD]
    return [by_name[name] for name in sorted(by_name)]


def tensors_digest(tensors: Sequence[TensorFacts]) -> str:
    """Equal for two models that hold the same tensors under the same names, 64 hex digits (see the module's docstring)."""
    return _digest(sorted(f"{tensor.name}|{_line(tensor)}" for tensor in untied(tensors)))


def tensor_set_digest(tensors: Sequence[TensorFacts]) -> str:
    """Equal for two models that hold the same tensors, whatever their names, 64 hex digits."""
    return _digest(sorted(_line(tensor) for tensor in untied(tensors)))


def _line(tensor: TensorFacts) -> str:
    return f"{tensor.dtype}|{','.join(map(str, tensor.shape))}|{tensor.blake3}"


def _digest(lines: Sequence[str]) -> str:
    return str(blake3("\n".join(lines).encode()).hexdigest())
