"""One layout of weights files, agreed on by index and shards, or a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from affine_dagster.checkpoint.digests import folder_headers, folder_layout
from affine_dagster.checkpoint.layout import INDEX, SINGLE, layout_of, parse_index
from affine_dagster.reasons import AffineError

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def index(weight_map: object) -> bytes:
    return json.dumps({"weight_map": weight_map}).encode()


def refusal_of(names: list[str], content: bytes | None) -> str:
    with pytest.raises(AffineError) as error:
        layout_of(names, content)
    return error.value.code


@pytest.mark.parametrize(
    "names",
    [
        [SINGLE, INDEX, *SHARDS], [SINGLE, "extra.safetensors"], [SINGLE, "original/consolidated.safetensors"], [SINGLE, INDEX],
        [*SHARDS, INDEX, "other.safetensors.index.json"], [SINGLE, "model.fp16.safetensors.index.json"],
    ],
)
def test_two_layouts_in_one_repository_are_refused(names: list[str]) -> None:
    """H5."""
    assert refusal_of(names, index({"a": SHARDS[0], "b": SHARDS[1]})) == "ambiguous_weights"


def test_a_stale_index_is_refused() -> None:
    """H5: the index names other shards than the repository has, in either direction."""
    assert refusal_of([*SHARDS, INDEX], index({"a": SHARDS[0]})) == "index_mismatch"
    assert refusal_of([SHARDS[0], INDEX], index({"a": SHARDS[0], "b": SHARDS[1]})) == "index_mismatch"


def test_without_weights_there_is_no_layout() -> None:
    assert refusal_of(["config.json"], None) == "no_weights"
    assert refusal_of(["odd.safetensors"], None) == "no_weights"


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"{}", b"\xff", index({}), index([1]), index({"a": 1}), index({"a": "../model.safetensors"}), index({"a": "x.bin"}),
        b"[" * 10**5,
    ],
)
def test_an_index_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(AffineError) as error:
        parse_index(content)
    assert error.value.code == "index_mismatch"


def shards(make: ModuleType, folder: Path) -> tuple[Path, dict[str, str]]:
    make.write_checkpoint(folder, shards=2)
    return folder, json.loads((folder / INDEX).read_text())["weight_map"]


def refusal_in(folder: Path, weight_map: dict[str, str]) -> str:
    (folder / INDEX).write_bytes(index(weight_map))
    with pytest.raises(AffineError) as error:
        folder_headers(folder, folder_layout(folder))
    return error.value.code


def test_a_tensor_that_is_mapped_but_not_stored_is_refused(make: ModuleType, tmp_path: Path) -> None:
    """H4."""
    folder, weight_map = shards(make, tmp_path)
    assert refusal_in(folder, {**weight_map, "mtp.fc.weight": SHARDS[0]}) == "index_mismatch"


def test_a_tensor_that_is_stored_but_not_mapped_is_refused(make: ModuleType, tmp_path: Path) -> None:
    """H4, the other way."""
    folder, weight_map = shards(make, tmp_path)
    del weight_map["model.norm.weight"]
    assert refusal_in(folder, weight_map) == "index_mismatch"


def test_a_tensor_that_is_mapped_to_the_wrong_shard_is_refused(make: ModuleType, tmp_path: Path) -> None:
    """H4: each pair is checked."""
    folder, weight_map = shards(make, tmp_path)
    other = {SHARDS[0]: SHARDS[1], SHARDS[1]: SHARDS[0]}
    weight_map["model.norm.weight"] = other[weight_map["model.norm.weight"]]
    assert refusal_in(folder, weight_map) == "index_mismatch"


def test_a_tensor_in_two_shards_is_refused(make: ModuleType, tmp_path: Path) -> None:
    folder, weight_map = shards(make, tmp_path)
    tensors = make.llama_tensors()
    for shard in SHARDS:
        part = {name: array for name, array in tensors.items() if weight_map[name] == shard or name == "model.norm.weight"}
        (folder / shard).write_bytes(make.save(part))
    assert refusal_in(folder, weight_map) == "duplicate_tensor"
