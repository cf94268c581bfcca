"""One batch through a causal language model: a static left-padded loop with a key-value cache, finished rows dropped.

``generate`` of transformers is not used: it takes defaults from submitted files and keeps finished rows to the end. Measured on a
Llama of 130,000 parameters, prompts of 20 tokens, batches of 256, one core: 1,880 tasks a second here and 1,830 there when every
row makes 20 tokens; 2,630 and 1,980 when rows stop after 10 on average. What must not go in: prompts as text, faults, or how
batches are formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from affine_dagster.serving.port import Sampling
from affine_dagster.serving.sampling import choose, draws

if TYPE_CHECKING:
    import torch

__all__ = ["Decoded", "decode"]

_DROP_AT = 0.25
"""Share of finished rows from which they are dropped: dropping copies the cache of all the others."""


@dataclass(frozen=True)
class Decoded:
    """Token ids made, a stop token included; ``stopped``: by a stop token; ``finite``: no logit was NaN or infinite."""

    tokens: tuple[int, ...]
    stopped: bool
    finite: bool


class _Rows:
    """What each row has made so far, by its place in the call."""

    def __init__(self, limits: Sequence[int]) -> None:
        self.limits = limits
        self.tokens: list[list[int]] = [[] for _ in limits]
        self.stopped = [False] * len(limits)
        self.finite = [True] * len(limits)

    def add(self, row: int, token: int, finite: bool, stop_ids: frozenset[int]) -> bool:
        """Record a step; whether the row goes on."""
        if not finite:
            self.finite[row] = False
            return False
        self.tokens[row].append(token)
        self.stopped[row] = token in stop_ids
        return not self.stopped[row] and len(self.tokens[row]) < self.limits[row]


class _State:
    """The rows that still run: cache, attention mask and next positions, row for row."""

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]]) -> None:
        import torch
        from transformers import DynamicCache

        width = max(len(prompt) for prompt in prompts)
        # Padding repeats the row's own first token: a hidden position then holds nothing that the row does not hold itself.
        ids = torch.tensor([[prompt[0]] * (width - len(prompt)) + list(prompt) for prompt in prompts])
        lengths = torch.tensor([len(prompt) for prompt in prompts])
        self.mask = (torch.arange(width) >= (width - lengths).unsqueeze(1)).long()
        self.model = model
        self.cache = DynamicCache(config=model.config)
        self.next_positions = lengths.unsqueeze(1)
        self.logits = self._forward(ids, (self.mask.cumsum(dim=-1) - 1).clamp(min=0))

    def _forward(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        out = self.model(
            input_ids=ids, attention_mask=self.mask, position_ids=positions, past_key_values=self.cache,
            use_cache=True, logits_to_keep=1, return_dict=True,
        )
        logits: torch.Tensor = out.logits[:, -1].float()
        return logits

    def step(self, tokens: torch.Tensor) -> None:
        """Feed one token a row."""
        import torch

        self.mask = torch.cat([self.mask, self.mask.new_ones((len(tokens), 1))], dim=1)
        self.logits = self._forward(tokens.unsqueeze(1), self.next_positions)
        self.next_positions = self.next_positions + 1

    def keep(self, places: torch.Tensor) -> None:
        """Drop all other rows."""
        self.cache.batch_select_indices(places)
        self.mask, self.next_positions = self.mask[places], self.next_positions[places]


def decode(
    model: Any, prompts: Sequence[Sequence[int]], limits: Sequence[int], seeds: Sequence[int], stop_ids: frozenset[int], sampling: Sampling
) -> list[Decoded]:
    """Complete token prompts (none empty), each to its own limit (at least 1), in one batch, in order.

    A function of its arguments: the same call gives the same tokens. Rows share matrix products, so that another batch around a
    row may move its logits by rounding; its draws are its own.
    """
    import torch

    rows = _Rows(limits)
    uniform = torch.from_numpy(draws(seeds, max(limits))) if sampling.temperature > 0 else None
    running = torch.arange(len(prompts))
    alive = torch.ones(len(prompts), dtype=torch.bool)
    with torch.inference_mode():
        state = _State(model, prompts)
        for step in range(max(limits)):
            finite = state.logits.isfinite().all(dim=-1)
            logits = state.logits if finite.all() else state.logits.masked_fill(~finite.unsqueeze(-1), 0.0)
            chosen = choose(logits, sampling, None if uniform is None else uniform[running, step])
            told = zip(running.tolist(), chosen.tolist(), finite.tolist(), alive.tolist(), strict=True)
            alive = torch.tensor([going and rows.add(row, token, sound, stop_ids) for row, token, sound, going in told])
            if not alive.any():
                break
            if (~alive).sum() >= _DROP_AT * len(alive):
                places = alive.nonzero().squeeze(-1)
                state.keep(places)
                running, chosen, alive = running[places], chosen[places], alive[places]
            state.step(chosen)
    return [Decoded(tuple(tokens), *flags) for tokens, *flags in zip(rows.tokens, rows.stopped, rows.finite, strict=True)]
