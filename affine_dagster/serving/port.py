"""What an engine is: a model folder opened once, prompts in, completions out, and a receipt of what was really loaded.

What must not go in: tasks, rewards, retries, or any adapter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol

__all__ = ["Completion", "Engine", "LoadedModel", "Receipt", "Sampling"]


@dataclass(frozen=True)
class Sampling:
    """Every sampling parameter, sent explicitly. ``temperature`` 0 is greedy; ``max_new_tokens`` counts completion tokens."""

    temperature: float = 0.0
    top_p: float = 1.0
    max_new_tokens: int = 24
    max_model_length: int = 256

    @property
    def digest(self) -> str:
        """Sixteen hex digits over all parameters."""
        text = "|".join(f"{name}={value!r}" for name, value in sorted(asdict(self).items()))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Receipt:
    """What was really loaded: digests are recomputed from the bytes that the engine read.

    ``weights_digest`` is the identity of the ledger; ``tensors_digest``, ``config_digest``, ``template_hash`` and
    ``tokenizer_signature`` are its parts.
    """

    weights_digest: str
    tensors_digest: str
    config_digest: str
    template_hash: str
    tokenizer_signature: str
    engine: str
    engine_version: str


@dataclass(frozen=True)
class Completion:
    """An answer, or a fault's reason code. ``finish_reason`` stop: the model ended; length: our limit did; fault: no answer."""

    text: str
    finish_reason: Literal["stop", "length", "fault"]
    prompt_tokens: int
    completion_tokens: int
    reason: str | None = None
    detail: str = ""


class LoadedModel(Protocol):
    """A model in memory."""

    @property
    def receipt(self) -> Receipt:
        """What was loaded."""
        ...

    def complete(self, prompts: Sequence[str], seeds: Sequence[int], sampling: Sampling) -> list[Completion]:
        """One completion a user message, in order. ``seeds`` seed the sampling one by one (unused when greedy).

        The same prompts in the same call give the same completions. A prompt that cannot be answered gives a fault, not an error.
        """
        ...


class Engine(Protocol):
    """A way to run models."""

    def open(self, folder: Path) -> AbstractContextManager[LoadedModel]:
        """Load a model folder and free it at the end.

        Raises AffineError ``not_loadable`` (the model's fault) or ``unloadable_here`` (ours).
        """
        ...
