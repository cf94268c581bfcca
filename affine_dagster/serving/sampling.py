"""Choosing a token from logits: greedy, or by a draw that belongs to the row alone.

Each row's draws are a hash of its own seed, so they depend on no neighbour, batch, library version or global generator.
What must not go in: running a model (``decoding.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from affine_dagster.serving.port import Sampling
from affine_dagster.settings import ServingSettings

if TYPE_CHECKING:
    import torch

__all__ = ["choose", "draws", "sampling_of"]


def sampling_of(settings: ServingSettings) -> Sampling:
    """The sampling that the settings ask for; nothing of a submitted file enters it."""
    return Sampling(
        temperature=settings.temperature, top_p=settings.top_p,
        max_new_tokens=settings.max_new_tokens, max_model_length=settings.max_model_length,
    )


def draws(seeds: Sequence[int], steps: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), float64 of shape (seeds, steps): row i is a function of seed i alone (SHAKE-128, 53 bits each)."""
    rows = [np.frombuffer(hashlib.shake_128(str(seed).encode()).digest(8 * steps), dtype=">u8") for seed in seeds]
    whole = np.array(rows, dtype=np.uint64).reshape(len(seeds), steps) >> np.uint64(11)
    return whole.astype(np.float64) * 2.0**-53


def choose(logits: torch.Tensor, sampling: Sampling, uniform: torch.Tensor | None) -> torch.Tensor:
    """The chosen token of each row, int64 of shape (rows,), from finite logits of shape (rows, vocabulary).

    Greedy at temperature 0: the first of the largest. Else the inverse of the distribution function over the tokens in
    descending order of probability, cut at ``top_p`` (the smallest set that reaches it), at the row's number in ``uniform``.
    """
    if sampling.temperature == 0 or uniform is None:
        return logits.argmax(dim=-1)
    ordered, tokens = (logits.double() / sampling.temperature).softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    total = ordered.cumsum(dim=-1)
    kept = ordered.masked_fill(total - ordered >= sampling.top_p, 0.0)  # the first token stays: the sum before it is 0
    reached = kept.cumsum(dim=-1)
    place = (reached <= uniform.unsqueeze(-1) * reached[:, -1:]).sum(dim=-1, keepdim=True)
    last = (kept > 0).sum(dim=-1, keepdim=True) - 1
    return tokens.gather(-1, place.minimum(last)).squeeze(-1)
