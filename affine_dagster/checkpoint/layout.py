"""Which files hold a checkpoint's weights, and whether index and shards tell the same story.

One layout or none: ``model.safetensors`` alone, or ``model.safetensors.index.json`` with exactly its shards. Loaders disagree
about everything else (case H5), so everything else is refused. What must not go in: what a tensor is for.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from affine_dagster.checkpoint.headers import Header
from affine_dagster.checkpoint.json_files import parse_object
from affine_dagster.reasons import AffineError

__all__ = ["INDEX", "MAX_INDEX_BYTES", "SINGLE", "Layout", "check_agreement", "layout_of", "parse_index", "sharded"]

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
MAX_INDEX_BYTES = 16 * 2**20
"""About 100 bytes a tensor: room for 160,000 tensors."""


@dataclass(frozen=True)
class Layout:
    """``weight_map`` gives each tensor's shard, None without an index; ``files`` are the weights files, sorted."""

    files: tuple[str, ...]
    weight_map: Mapping[str, str] | None = None


def sharded(names: Iterable[str]) -> bool:
    """Whether the weights lie in shards with an index.

    Raises ``no_weights`` without safetensors, ``ambiguous_weights`` when single file, index or stray files lie side by side.
    """
    known = set(names)
    weights = {name for name in known if name.endswith(".safetensors")}
    indexes = {name for name in known if name.endswith(".safetensors.index.json")}
    if not weights:
        raise AffineError("no_weights", "no .safetensors file")
    if weights == {SINGLE} and not indexes:
        return False
    if indexes == {INDEX} and SINGLE not in weights:
        return True
    if not indexes and SINGLE not in weights:
        raise AffineError("no_weights", f"neither {SINGLE} nor {INDEX}, only {', '.join(sorted(weights))[:300]}")
    raise AffineError("ambiguous_weights", ", ".join(sorted(weights | indexes))[:500])


def parse_index(content: bytes) -> Mapping[str, str]:
    """The weight map of an index: tensor name to shard. Raises ``index_mismatch``."""
    if len(content) > MAX_INDEX_BYTES:
        raise AffineError("index_mismatch", f"{INDEX} has more than {MAX_INDEX_BYTES} bytes")
    weight_map = parse_object(content, "index_mismatch", INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise AffineError("index_mismatch", f"{INDEX} has no weight_map")
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str) or posixpath.basename(shard) != shard or not shard.endswith(".safetensors"):
            raise AffineError("index_mismatch", f"{tensor[:100]!a} is mapped to {ascii(shard)[:100]}")
    return weight_map


def layout_of(names: Iterable[str], index: bytes | None) -> Layout:
    """The layout of a repository with these file names; ``index`` is the index's content where there is one.

    Raises as :func:`sharded` and :func:`parse_index`; ``index_mismatch`` when index and files name different shards.
    """
    known = set(names)
    if not sharded(known):
        return Layout((SINGLE,))
    if index is None:
        raise AffineError("index_mismatch", f"{INDEX} was not read")
    weight_map = parse_index(index)
    mapped = set(weight_map.values())
    present = {name for name in known if name.endswith(".safetensors")}
    if mapped != present:
        raise AffineError(
            "index_mismatch",
            f"only in the index: {sorted(mapped - present)[:5]}; only in the repository: {sorted(present - mapped)[:5]}",
        )
    return Layout(tuple(sorted(mapped)), weight_map)


def check_agreement(layout: Layout, headers: Mapping[str, Header]) -> None:
    """Check each (tensor, shard) pair both ways. Raises ``duplicate_tensor``, ``index_mismatch``, ``no_weights``."""
    place: dict[str, str] = {}
    for file in layout.files:
        for tensor in headers[file].tensors:
            if tensor.name in place:
                raise AffineError("duplicate_tensor", f"{tensor.name} is in {place[tensor.name]} and in {file}")
            place[tensor.name] = file
    if not place:
        raise AffineError("no_weights", "the weights files hold no tensor")
    if layout.weight_map is not None and place != layout.weight_map:
        pairs = sorted(set(place.items()) ^ set(layout.weight_map.items()))
        raise AffineError("index_mismatch", f"index and shards differ in {ascii(pairs[:3])[:300]}")
