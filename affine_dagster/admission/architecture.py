"""The allowed architectures: what ``config.json`` must say, and exactly which tensors of which shapes it then needs.

The four families are Llama-like; what differs is written down in ``_FAMILIES`` after the modules and defaults of transformers
5.19 (``models/<model_type>/configuration_*.py`` and ``modeling_*.py``). A tensor that the architecture does not have is
refused too: it would change a model's digest without changing the model. What must not go in: reading files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from affine_dagster.checkpoint.digests import EMBEDDING, HEAD, TensorFacts
from affine_dagster.checkpoint.headers import TensorHeader
from affine_dagster.reasons import AffineError

__all__ = ["Architecture", "check_tensors", "check_tie", "expected_tensors", "parse_config", "refuse_remote_code"]

Json = Mapping[str, object]
_MAX_LAYERS = 1024
_FLOATS = {"F32", "F16", "BF16"}
_QUANTIZED = {"I8", "U8", "F8_E5M2", "F8_E4M3", "F8_E8M0"}


@dataclass(frozen=True)
class _Family:
    """``key_value_heads``: the default where config.json has none (None: as many as heads); ``head_dim`` likewise."""

    model_type: str
    key_value_heads: int | None = None
    head_dim: int | None = None
    attention_bias: bool | None = False
    output_bias: bool = True
    mlp_bias: bool = False
    head_norms: bool = False


_FAMILIES: Mapping[str, _Family] = {
    "LlamaForCausalLM": _Family("llama", mlp_bias=True),
    "MistralForCausalLM": _Family("mistral", key_value_heads=8, attention_bias=None),
    "Qwen2ForCausalLM": _Family("qwen2", key_value_heads=32, attention_bias=True, output_bias=False),
    "Qwen3ForCausalLM": _Family("qwen3", key_value_heads=32, head_dim=128, head_norms=True),
}
"""``attention_bias``: False, the config's field decides; True, q, k and v always have one; None, never. ``output_bias``: o has
it where q has. ``mlp_bias``: the config's field of that name counts."""


@dataclass(frozen=True)
class Architecture:
    """The sizes that decide the tensors. ``attention_bias`` is that of q, k and v, ``output_bias`` that of o."""

    name: str
    hidden: int
    inner: int
    layers: int
    heads: int
    key_value_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    attention_bias: bool
    output_bias: bool
    mlp_bias: bool
    head_norms: bool


def refuse_remote_code(config: Json, name: str) -> None:
    """Refuse ``auto_map`` at any depth (case H17). Raises ``remote_code``."""
    waiting: list[object] = [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if value.get("auto_map"):
                raise AffineError("remote_code", f"{name} has auto_map")
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def parse_config(config: Json, allowed: Sequence[str]) -> Architecture:
    """The architecture of a ``config.json``.

    Raises AffineError: ``remote_code``, ``quantized``, ``architecture_not_allowed``, ``missing_config`` (a field is missing or
    no size), ``shape_mismatch`` (sizes that do not go together).
    """
    refuse_remote_code(config, "config.json")
    for field in ("quantization_config", "compression_config"):
        if config.get(field):
            raise AffineError("quantized", f"config.json has {field}")
    name, family = _family(config, allowed)
    heads = _size(config, "num_attention_heads")
    hidden = _size(config, "hidden_size")
    head_dim = _size(config, "head_dim", family.head_dim or hidden // heads or None)
    keys = _size(config, "num_key_value_heads", family.key_value_heads if "num_key_value_heads" not in config else None, heads)
    if heads % keys or (config.get("head_dim") is None and family.head_dim is None and hidden % heads):
        raise AffineError("shape_mismatch", f"config.json: hidden {hidden}, {heads} heads, {keys} key-value heads")
    layers = _size(config, "num_hidden_layers")
    if layers > _MAX_LAYERS:
        raise AffineError("too_large", f"config.json: {layers} layers, at most {_MAX_LAYERS}")
    bias = family.attention_bias if family.attention_bias is not False else _flag(config, "attention_bias")
    return Architecture(
        name=name, hidden=hidden, inner=_size(config, "intermediate_size"), layers=layers, heads=heads, key_value_heads=keys,
        head_dim=head_dim, vocabulary=_size(config, "vocab_size"), tied=_flag(config, "tie_word_embeddings"),
        attention_bias=bool(bias), output_bias=bool(bias) and family.output_bias,
        mlp_bias=family.mlp_bias and _flag(config, "mlp_bias"), head_norms=family.head_norms,
    )


def _family(config: Json, allowed: Sequence[str]) -> tuple[str, _Family]:
    named, model_type = config.get("architectures"), config.get("model_type")
    if not isinstance(named, list) or len(named) != 1 or named[0] not in allowed or named[0] not in _FAMILIES:
        raise AffineError("architecture_not_allowed", f"config.json names {ascii(named)[:200]}, allowed are {', '.join(allowed)}")
    family = _FAMILIES[named[0]]
    if model_type != family.model_type:
        raise AffineError("architecture_not_allowed", f"model_type {ascii(model_type)[:80]} is not {named[0]}'s {family.model_type}")
    return named[0], family


def _size(config: Json, field: str, *defaults: int | None) -> int:
    value = config.get(field)
    if value is None:
        value = next((default for default in defaults if default is not None), None)
    if type(value) is not int or not 1 <= value <= 2**31:
        raise AffineError("missing_config", f"config.json: {field} is {ascii(value)[:80]}")
    return value


def _flag(config: Json, field: str) -> bool:
    value = config.get(field, False)
    if not isinstance(value, bool):
        raise AffineError("missing_config", f"config.json: {field} is {ascii(value)[:80]}")
    return value


def expected_tensors(architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """Every tensor of the architecture with its shape, ``lm_head.weight`` included."""
    embedding = (architecture.vocabulary, architecture.hidden)
    made = {EMBEDDING: embedding, HEAD: embedding, "model.norm.weight": (architecture.hidden,)}
    for layer in range(architecture.layers):
        made.update({f"model.layers.{layer}.{name}": shape for name, shape in _layer(architecture)})
    return made


def _layer(architecture: Architecture) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, inner = architecture.hidden, architecture.inner
    queries, keys = architecture.heads * architecture.head_dim, architecture.key_value_heads * architecture.head_dim
    bias = architecture.attention_bias
    linears = (
        ("self_attn.q_proj", queries, hidden, bias), ("self_attn.k_proj", keys, hidden, bias), ("self_attn.v_proj", keys, hidden, bias),
        ("self_attn.o_proj", hidden, queries, architecture.output_bias),
        ("mlp.gate_proj", inner, hidden, architecture.mlp_bias), ("mlp.up_proj", inner, hidden, architecture.mlp_bias),
        ("mlp.down_proj", hidden, inner, architecture.mlp_bias),
    )
    for name, rows, columns, biased in linears:
        yield f"{name}.weight", (rows, columns)
        if biased:
            yield f"{name}.bias", (rows,)
    yield "input_layernorm.weight", (hidden,)
    yield "post_attention_layernorm.weight", (hidden,)
    if architecture.head_norms:
        yield "self_attn.q_norm.weight", (architecture.head_dim,)
        yield "self_attn.k_norm.weight", (architecture.head_dim,)


def check_tensors(architecture: Architecture, tensors: Sequence[TensorHeader]) -> None:
    """Judge the headers' tensors; a tied head may be stored or not (case H10).

    Raises AffineError: ``missing_tensor``, ``unexpected_tensor``, ``shape_mismatch``, ``quantized``, ``dtype_not_allowed``.
    """
    expected = expected_tensors(architecture)
    found = {tensor.name: tensor for tensor in tensors}
    missing = sorted(set(expected) - set(found) - ({HEAD} if architecture.tied else set()))
    if missing:
        raise AffineError("missing_tensor", f"{len(missing)} missing: {', '.join(missing[:5])}")
    unexpected = sorted(set(found) - set(expected))
    if unexpected:
        raise AffineError("unexpected_tensor", f"{len(unexpected)} more: {', '.join(unexpected[:5])[:500]}")
    for tensor in tensors:
        if tensor.shape != expected[tensor.name]:
            raise AffineError("shape_mismatch", f"{tensor.name} is {tensor.shape}, config.json says {expected[tensor.name]}")
        if tensor.dtype not in _FLOATS:
            raise AffineError("quantized" if tensor.dtype in _QUANTIZED else "dtype_not_allowed", f"{tensor.name} is {tensor.dtype}")


def check_tie(architecture: Architecture, tensors: Sequence[TensorFacts]) -> None:
    """A stored head must equal the embedding where config.json ties them: loaders differ on which one counts.

    Raises ``unexpected_tensor``.
    """
    digests = {tensor.name: tensor.blake3 for tensor in tensors}
    if architecture.tied and HEAD in digests and digests[HEAD] != digests[EMBEDDING]:
        raise AffineError("unexpected_tensor", f"{HEAD} differs from the embedding although tie_word_embeddings is true")
