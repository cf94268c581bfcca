"""What a checkpoint folder is, recomputed from its bytes: the digests that a receipt carries and that kinship compares.

Two identities (docs/decisions/0005-identity.md). ``weights_digest`` is the model as it is run, and the key of the ledger: tensors by
name, configuration, template and tokenizer. ``tensor_set_digest`` is what was trained, and decides whose it is. What must not go in:
whether the checkpoint may enter (``admission/``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from affine_dagster.checkpoint.configuration import config_digest
from affine_dagster.checkpoint.digests import (
    TensorFacts,
    folder_headers,
    folder_layout,
    scan_file,
    tensor_set_digest,
    tensors_digest,
    untied,
)
from affine_dagster.checkpoint.json_files import read_object
from affine_dagster.checkpoint.template import effective_template, template_hash
from affine_dagster.checkpoint.tokenizer import tokenizer_signature
from affine_dagster.reasons import AffineError

__all__ = ["CheckpointIdentity", "architecture_of", "identity", "weights_digest"]

_DOMAIN = "affine/model/2"


@dataclass(frozen=True)
class CheckpointIdentity:
    """Digests are 64 hex digits. ``parameters`` counts elements without a tied head; ``tensors`` are as stored, by name."""

    weights_digest: str
    tensors_digest: str
    tensor_set_digest: str
    config_digest: str
    template_hash: str
    tokenizer_signature: str
    parameters: int
    architecture: str
    tensors: tuple[TensorFacts, ...]


def architecture_of(folder: Path) -> str:
    """The one architecture that ``config.json`` names. Raises ``missing_config``, ``architecture_not_allowed`` if it names not one."""
    named = read_object(folder / "config.json", "missing_config").get("architectures")
    if not isinstance(named, list) or len(named) != 1 or not isinstance(named[0], str):
        raise AffineError("architecture_not_allowed", f"config.json names {ascii(named)[:200]}")
    return named[0]


def weights_digest(tensors: str, config: str, template: str, tokenizer: str) -> str:
    """The identity of a model in the ledger, 64 hex digits: BLAKE3 over its four parts, each itself a digest.

    ``tensors``: ``tensors_digest``; ``config``: ``config_digest``; then the template's hash and the tokenizer's signature.
    """
    return str(blake3("|".join((_DOMAIN, tensors, config, template, tokenizer)).encode()).hexdigest())


def identity(folder: Path) -> CheckpointIdentity:
    """Read a folder once, streamed, and say what it is.

    Raises AffineError as the readers of this room do (``bad_header``, ``index_mismatch``, ``no_chat_template``, ...).
    """
    layout = folder_layout(folder)
    headers = folder_headers(folder, layout)
    tensors = [tensor for name in layout.files for tensor in scan_file(folder / name, headers[name]).tensors]
    named, config = tensors_digest(tensors), config_digest(read_object(folder / "config.json", "missing_config"))
    template, tokenizer = template_hash(effective_template(folder)), tokenizer_signature(folder)
    return CheckpointIdentity(
        weights_digest=weights_digest(named, config, template, tokenizer),
        tensors_digest=named,
        tensor_set_digest=tensor_set_digest(tensors),
        config_digest=config,
        template_hash=template,
        tokenizer_signature=tokenizer,
        parameters=sum(tensor.elements for tensor in untied(tensors)),
        architecture=architecture_of(folder),
        tensors=tuple(sorted(tensors, key=lambda tensor: tensor.name)),
    )
