"""The tokenizer's signature names what it does, and loading it runs nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from affine_dagster.checkpoint.tokenizer import load_tokenizer, max_token_id, tokenizer_signature
from affine_dagster.reasons import AffineError


def edit(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}, indent=3))


def test_layout_of_the_json_and_runtime_state_do_not_change_the_signature(make: ModuleType, tmp_path: Path) -> None:
    folder = make.write_checkpoint(tmp_path)
    before = tokenizer_signature(folder)
    edit(folder / "tokenizer.json", truncation={"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0})
    edit(folder / "tokenizer_config.json", model_max_length=77)
    assert tokenizer_signature(folder) == before


@pytest.mark.parametrize(
    ("file", "fields"),
    [
        ("tokenizer.json", {"normalizer": {"type": "Lowercase"}}), ("tokenizer_config.json", {"eos_token": "w2"}),
        ("tokenizer_config.json", {"add_bos_token": True}),
    ],
)
def test_what_changes_tokens_changes_the_signature(make: ModuleType, tmp_path: Path, file: str, fields: dict[str, object]) -> None:
    folder = make.write_checkpoint(tmp_path)
    before = tokenizer_signature(folder)
    edit(folder / file, **fields)
    assert tokenizer_signature(folder) != before


def test_an_added_token_counts_for_the_largest_id(make: ModuleType, tmp_path: Path) -> None:
    """H26."""
    folder = make.write_checkpoint(tmp_path)
    assert max_token_id(load_tokenizer(folder)) == make.VOCABULARY - 1
    tokenizer = load_tokenizer(folder)
    tokenizer.add_tokens(["<new>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    assert max_token_id(load_tokenizer(folder)) == make.VOCABULARY


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b"[1]", b'{"model": {"type": "Nothing"}}'])
def test_what_does_not_load_is_refused(make: ModuleType, tmp_path: Path, content: bytes) -> None:
    folder = make.write_checkpoint(tmp_path)
    (folder / "tokenizer.json").write_bytes(content)
    with pytest.raises(AffineError) as error:
        load_tokenizer(folder)
    assert error.value.code == "tokenizer_unreadable"
