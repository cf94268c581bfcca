"""A tiny random Llama in Hugging Face layout, made on the spot, and the ways in which a folder can be spoilt."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]

MakeModel = Callable[..., Path]


def _tokenizer(folder: Path) -> int:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate([*SPECIAL, *alphabet])}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(SPECIAL)
    made.add_tokens([AddedToken("reverse", normalized=False)])
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {"eos_token": "<|end|>", "pad_token": "<|pad|>", "chat_template": TEMPLATE, "tokenizer_class": "PreTrainedTokenizerFast"}
        )
    )
    return int(made.get_vocab_size())


@pytest.fixture(scope="session")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> MakeModel:
    """``make_model(seed=0, change=None, **config)``: a folder; ``change`` gets the torch model before it is saved."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    def make(seed: int = 0, change: Callable[[Any], None] | None = None, **config: Any) -> Path:
        folder = tmp_path_factory.mktemp("model")
        vocabulary = _tokenizer(folder)
        torch.manual_seed(seed)
        values: dict[str, Any] = {
            "vocab_size": vocabulary, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 256, "tie_word_embeddings": True, "initializer_range": 0.3,
            "bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0, **config,
        }
        model = LlamaForCausalLM(LlamaConfig(**values))
        with torch.no_grad():
            model.model.norm.weight.mul_(3.0)
            if change is not None:
                change(model)
        model.save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def tiny(make_model: MakeModel) -> Path:
    """One sound folder; never written to."""
    return make_model()


