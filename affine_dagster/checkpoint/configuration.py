"""What of ``config.json`` reaches an engine, and its digest: the part of a model's function that is not in its tensors.

Engines take these fields and no others, so that two folders with one digest are given to an engine alike. What must not go in: which
values are allowed (``admission/``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from blake3 import blake3

__all__ = ["ARITHMETIC_FIELDS", "arithmetic", "config_digest"]

ARITHMETIC_FIELDS = frozenset({
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "hidden_act", "max_position_embeddings", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor",
    "attention_bias", "mlp_bias", "tie_word_embeddings", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types",
})
"""Fields that shape the arithmetic of the allowed architectures (transformers 5.19, ``models/<model_type>/configuration_*.py``)."""

_BESIDE = ("architectures", "model_type", "eos_token_id")
"""Read beside the arithmetic: which model it is, and the tokens at which an answer ends (case V4)."""


def arithmetic(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a parsed ``config.json`` that an engine builds the model from."""
    return {name: value for name, value in config.items() if name in ARITHMETIC_FIELDS}


def config_digest(config: Mapping[str, Any]) -> str:
    """BLAKE3 over all fields that reach an engine, as canonical JSON, 64 hex digits.

    Values are not interpreted: a default that is written out gives another digest than one that is left out.
    """
    read = arithmetic(config) | {name: config[name] for name in _BESIDE if name in config}
    return str(blake3(json.dumps(read, sort_keys=True, separators=(",", ":")).encode()).hexdigest())
