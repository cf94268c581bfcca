"""One batch through a causal language model: left-padded, with a key-value cache, a common beginning once, finished rows dropped.

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

_WORTH_SHARING = 64
"""Prompt tokens that are saved from which a forward pass of its own is worth while."""


@dataclass(frozen=True)
class Decoded:
    """Token ids made, a stop token included; ``stopped``: by a stop token; ``finite``: no logit was NaN or infinite."""

    tokens: tuple[int, ...]
    stopped: bool
    finite: bool


def _shared(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens all prompts begin with, as a system prompt is; 0 where computing them once would save next to nothing.

    At least one token of each prompt is left.
    """
    most = min(map(len, prompts)) - 1
    shared = next((at for at in range(most) if len({prompt[at] for prompt in prompts}) > 1), most)
    return shared if shared * (len(prompts) - 1) >= _WORTH_SHARING else 0


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

        self.model = model
        self.cache = DynamicCache(config=model.config)
        shared = _shared(prompts)
        if shared:  # what all prompts begin with is computed once
            self.mask = torch.ones((1, shared), dtype=torch.long)
            self._forward(torch.tensor([prompts[0][:shared]]), torch.arange(shared).unsqueeze(0))
            self.cache.batch_repeat_interleave(len(prompts))
        rests = [prompt[shared:] for prompt in prompts]
        width = max(len(rest) for rest in rests)
        # Padding repeats the row's own first token: a hidden position then holds nothing that the row does not hold itself.
        ids = torch.tensor([[rest[0]] * (width - len(rest)) + list(rest) for rest in rests])
        lengths = torch.tensor([len(rest) for rest in rests])
        seen = (torch.arange(width) >= (width - lengths).unsqueeze(1)).long()
        self.mask = torch.cat([seen.new_ones((len(prompts), shared)), seen], dim=1)
        self.next_positions = lengths.unsqueeze(1) + shared
        self.logits = self._forward(ids, (seen.cumsum(dim=-1) - 1).clamp(min=0) + shared)

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
