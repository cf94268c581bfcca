"""The tokenizer: its signature, and loading it by ``tokenizers`` alone, so that no file of the repository chooses a class.

What must not go in: how prompts are made of it (``serving/``), or limits on time and memory (``admission/probe.py``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from affine_dagster.checkpoint.json_files import read_object
from affine_dagster.checkpoint.template import special_tokens
from affine_dagster.reasons import AffineError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["MAX_TOKENIZER_BYTES", "load_tokenizer", "max_token_id", "rewriting_hash", "tokenizer_rewriting", "tokenizer_signature"]

TOKENIZER = "tokenizer.json"
MAX_TOKENIZER_BYTES = 64 * 2**20
"""Gemma's 256,000 tokens take about 33 MB, the largest that we know of."""
_STATE = ("truncation", "padding")
"""Fields that say how the last caller used the tokenizer, not what it is."""
_FLAGS = ("add_bos_token", "add_eos_token")
_REWRITING = ("normalizer", "pre_tokenizer", "decoder")
"""Parts that can replace text by other text before the model sees it, or after. The vocabulary can only cut text into pieces."""


def tokenizer_signature(folder: Path) -> str:
    """BLAKE3 over the canonical ``tokenizer.json``, the special tokens and the flags that add them, 64 hex digits.

    Raises ``tokenizer_unreadable``.
    """
    plain = dict(read_object(folder / TOKENIZER, "tokenizer_unreadable", MAX_TOKENIZER_BYTES))
    for field in _STATE:
        plain.pop(field, None)
    config = read_object(folder / "tokenizer_config.json", "tokenizer_unreadable")
    flags = {name: config.get(name) for name in _FLAGS}
    text = json.dumps([plain, dict(special_tokens(folder)), flags], sort_keys=True, separators=(",", ":"))
    return str(blake3(text.encode()).hexdigest())


def rewriting_hash(tokenizer: Mapping[str, object]) -> str:
    """BLAKE3 over the parts of a parsed ``tokenizer.json`` that can rewrite text, 64 hex digits.

    Two hundred ``Replace`` rules of a normalizer solve every sum of two digits; such a tokenizer answers in the model's place.
    """
    text = json.dumps({name: tokenizer.get(name) for name in _REWRITING}, sort_keys=True, separators=(",", ":"))
    return str(blake3(text.encode()).hexdigest())


def tokenizer_rewriting(folder: Path) -> str:
    """:func:`rewriting_hash` of a folder's tokenizer. Raises ``tokenizer_unreadable``."""
    return rewriting_hash(read_object(folder / TOKENIZER, "tokenizer_unreadable", MAX_TOKENIZER_BYTES))


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of ``tokenizer.json``. Raises ``tokenizer_unreadable``."""
    import tokenizers

    path = folder / TOKENIZER
    if path.is_file() and path.stat().st_size > MAX_TOKENIZER_BYTES:
        raise AffineError("tokenizer_unreadable", f"{TOKENIZER} has over {MAX_TOKENIZER_BYTES} bytes")
    try:
        return tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:
        # tokenizers raises plain Exception
        raise AffineError("tokenizer_unreadable", f"{TOKENIZER}: {ascii(str(error))[:200]}") from error


def max_token_id(tokenizer: Tokenizer) -> int:
    """The largest id, added tokens included; -1 for an empty vocabulary."""
    return max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
