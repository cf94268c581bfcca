"""A development world with a crowd: a genesis model and any number of miners who each commit a tiny checkpoint of their own.

The checkpoints are whole (configuration, tokenizer, template, weights) and pass the real admission, but are too small and too
random to be run. What must not go in: anything that an epoch does with them.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from affine_dagster.league.world import Entry, Scenario, World, make_world

__all__ = ["crowd_world"]

HIDDEN, INNER, LAYERS, HEADS, VOCABULARY = 8, 12, 2, 2, 32
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER,
    "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "vocab_size": VOCABULARY,
    "tie_word_embeddings": True,
}
SPARE_BLOCKS = 20
"""Blocks of an epoch beyond one for each commitment: the beacon comes after the last of them."""


def crowd_world(home: Path, miners: int, *, epoch: int, seed: int) -> World:
    """A world in which ``miners`` miners commit one distinct model each in ``epoch``, under the product's default settings."""
    names = [f"miner{number:03d}" for number in range(miners)]
    models = {name: _checkpoint(home / "made" / name, seed + at) for at, name in enumerate(["base", *names])}
    entries = tuple(Entry(epoch, name.capitalize(), name, name="model") for name in names)
    return make_world(home / "world", models, Scenario("base", entries, settings="", tempo=miners + SPARE_BLOCKS))


def _checkpoint(folder: Path, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        shapes |= {f"{at}self_attn.{part}_proj.weight": (HIDDEN, HIDDEN) for part in "qkvo"}
        shapes |= {f"{at}mlp.{part}_proj.weight": (INNER, HIDDEN) for part in ("gate", "up")}
        shapes |= {f"{at}mlp.down_proj.weight": (HIDDEN, INNER)}
        shapes |= {f"{at}{part}_layernorm.weight": (HIDDEN,) for part in ("input", "post_attention")}
    words = {"<unk>": 0, **{f"w{number}": number for number in range(1, VOCABULARY)}}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unk>"))  # noqa: S106 - a token of text
    tokenizer.pre_tokenizer = Whitespace()
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(save({name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_text(str(tokenizer.to_str()))
    (folder / "tokenizer_config.json").write_text(json.dumps({"unk_token": "<unk>", "eos_token": "w1"}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder
