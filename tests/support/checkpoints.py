"""Tiny checkpoints in Hugging Face layout, made with numpy and safetensors alone: for tests of hub, checkpoint, admission, kinship."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

Tensors = Mapping[str, np.ndarray[Any, Any]]

TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
VOCABULARY = 32
UNKNOWN = "<unk>"
HIDDEN = 8
CONFIG: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": VOCABULARY, "tie_word_embeddings": True,
}


def llama_tensors(
    seed: int = 0, config: Mapping[str, Any] = CONFIG, dtype: type[np.floating[Any]] = np.float32
) -> dict[str, np.ndarray[Any, Any]]:
    """Random tensors of a Llama of this config, without lm_head."""
    rng = np.random.default_rng(seed)
    hidden, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    keys = hidden // heads * config["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], hidden), "model.norm.weight": (hidden,)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes |= {
            at + "self_attn.q_proj.weight": (hidden, hidden), at + "self_attn.k_proj.weight": (keys, hidden),
            at + "self_attn.v_proj.weight": (keys, hidden), at + "self_attn.o_proj.weight": (hidden, hidden),
            at + "mlp.gate_proj.weight": (inner, hidden), at + "mlp.up_proj.weight": (inner, hidden),
            at + "mlp.down_proj.weight": (hidden, inner),
            at + "input_layernorm.weight": (hidden,), at + "post_attention_layernorm.weight": (hidden,),
        }
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def tokenizer_json(words: int = VOCABULARY) -> str:
    """A word-level tokenizer with ``words`` tokens."""
    tokenizer = Tokenizer(WordLevel({UNKNOWN: 0, **{f"w{number}": number for number in range(1, words)}}, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = Whitespace()
    return str(tokenizer.to_str())


def write_weights(folder: Path, tensors: Tensors, shards: int = 1) -> None:
    """Write one file, or ``shards`` files with an index."""
    if shards == 1:
        (folder / "model.safetensors").write_bytes(save(dict(tensors)))
        return
    names = list(tensors)
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: tensors[name] for name in names[shard::shards]}
        (folder / file).write_bytes(save(part))
        weight_map |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def write_checkpoint(
    folder: Path,
    tensors: Tensors | None = None,
    *,
    seed: int = 0,
    config: Mapping[str, Any] = CONFIG,
    shards: int = 1,
    template: str | None = TEMPLATE,
    words: int = VOCABULARY,
) -> Path:
    """A whole checkpoint; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder, llama_tensors(seed, config) if tensors is None else tensors, shards)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(tokenizer_json(words))
    (folder / "tokenizer_config.json").write_text(json.dumps({"unk_token": UNKNOWN, "eos_token": "w1"}))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    return folder


def raw_safetensors(entries: Sequence[tuple[str, str, Sequence[int], tuple[int, int]]], data: bytes, padding: int = 0) -> bytes:
    """A safetensors file put together by hand: (name, dtype, shape, offsets), true or not."""
    fields = {name: {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)} for name, dtype, shape, offsets in entries}
    text = (json.dumps(fields) + " " * padding).encode()
    return struct.pack("<Q", len(text)) + text + data
