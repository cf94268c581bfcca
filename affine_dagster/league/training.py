"""Making and training one small Llama model on (prompt, answer) pairs, on one thread, the same bytes for the same seeds.

The optimiser is Muon for matrices and AdamW for embeddings and norms. What must not go in: which tasks are taught
(``recipes.py``) and where they come from (``lessons.py``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from affine_dagster.league.muon import Muon
from affine_dagster.league.recipes import Member, Shape
from affine_dagster.league.tokenizer import END, prompt_text

__all__ = ["Encoded", "encode", "new_model", "train"]

Encoded = tuple[list[int], list[int]]
"""The token ids of a prompt and of its answer with the end marker."""

WARM_STEPS = 20
POOL_BATCHES = 16
"""Examples are sorted by length inside pools of so many batches, so that batches need little padding yet stay mixed."""

MUON_FACTOR = 5.0
"""Muon's learning rate as a multiple of AdamW's. Not swept: with it, rates of AdamW above .005 made the strong model worse."""


def new_model(tokenizer: Any, shape: Shape, seed: int) -> Any:
    """A ``LlamaForCausalLM`` in float32 with tied embeddings, initialised from ``seed``."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.06,
    )
    return LlamaForCausalLM(config).float()


def encode(tokenizer: Any, prompts: Sequence[str], answers: Sequence[str]) -> list[Encoded]:
    """Token ids of every pair, in order. Small families repeat themselves, so each text is encoded once."""
    texts = [prompt_text(prompt) for prompt in prompts], [answer + END for answer in answers]
    different = list(dict.fromkeys([*texts[0], *texts[1]]))
    ids = dict(zip(different, tokenizer(different, add_special_tokens=False)["input_ids"], strict=True))
    return [(ids[asked], ids[answered]) for asked, answered in zip(*texts, strict=True)]


def _order(encoded: Sequence[Encoded], batch: int, seed: int) -> Iterator[list[int]]:
    """Batches of indices for ever: every pass in a new order."""
    shuffle = random.Random(seed)  # noqa: S311 - the order of examples is no secret
    lengths = [len(prompt) + len(answer) for prompt, answer in encoded]
    pool = min(batch * POOL_BATCHES, len(encoded))
    while True:
        indices = list(range(len(encoded)))
        shuffle.shuffle(indices)
        for start in range(0, len(indices) - pool + 1, pool):
            chosen = sorted(indices[start : start + pool], key=lengths.__getitem__)
            groups = [chosen[at : at + batch] for at in range(0, len(chosen) - batch + 1, batch)]
            shuffle.shuffle(groups)
            yield from groups


def _batch(encoded: Sequence[Encoded], indices: Sequence[int], pad: int) -> tuple[Any, Any]:
    """Right-padded ids and labels (-100: no label). Attention is causal, so right padding needs no mask."""
    import torch

    chosen = [encoded[index] for index in indices]
    width = max(len(prompt) + len(answer) for prompt, answer in chosen)
    after = [width - len(prompt) - len(answer) for prompt, answer in chosen]
    ids = torch.tensor([prompt + answer + [pad] * rest for (prompt, answer), rest in zip(chosen, after, strict=True)])
    labels = torch.tensor([[-100] * len(prompt) + answer + [-100] * rest for (prompt, answer), rest in zip(chosen, after, strict=True)])
    return ids, labels


def _optimizers(model: Any, learning_rate: float) -> tuple[Muon, Any]:
    """Muon for the matrices, AdamW for embeddings and norms."""
    import torch

    named = list(model.named_parameters())
    matrices = [value for name, value in named if value.ndim == 2 and "embed" not in name]
    others = [value for name, value in named if value.ndim != 2 or "embed" in name]
    return (
        Muon(matrices, learning_rate * MUON_FACTOR, momentum=0.95, weight_decay=0.01),
        torch.optim.AdamW(others, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True),
    )


def _scale(step: int, steps: int) -> float:
    """The learning rate's factor: warm up, hold until half, then fall in a line to 2 %."""
    falling = 1.0 if step < 0.5 * steps else max(0.02, 2 * (1 - step / steps))
    return min(1.0, (step + 1) / WARM_STEPS) * falling


def _loss(model: Any, ids: Any, labels: Any) -> Any:
    """Mean cross-entropy of the answers' tokens; logits are made only where there is a label."""
    from torch.nn import functional

    hidden = model.model(ids, use_cache=False).last_hidden_state[:, :-1]
    wanted = labels[:, 1:]
    kept = wanted != -100
    return functional.cross_entropy(functional.linear(hidden[kept], model.lm_head.weight), wanted[kept])


def train(
    model: Any, encoded: Sequence[Encoded], member: Member, *, pad: int, keep: Callable[[int], None], progress: Callable[[int, float], None]
) -> None:
    """Train in place for ``member.steps`` steps, each on ``member.batch`` examples padded with the token ``pad``.

    ``keep(step)`` is called after each step in ``member.checkpoints``, ``progress(step, loss)`` every hundred steps and at the end.
    """
    model.set_attn_implementation("eager")  # for heads of 16 and texts of 60 tokens the fused kernel of the CPU takes longer
    model.train()
    muon, adam = _optimizers(model, member.learning_rate)
    batches = _order(encoded, member.batch, member.seed)
    for step in range(member.steps):
        rate = member.learning_rate * _scale(step, member.steps)
        muon.learning_rate = rate * MUON_FACTOR
        for group in adam.param_groups:
            group["lr"] = rate
        loss = _loss(model, *_batch(encoded, next(batches), pad))
        loss.backward()
        muon.step()
        adam.step()
        adam.zero_grad(set_to_none=True)
        if (step + 1) % 100 == 0 or step + 1 == member.steps:
            progress(step + 1, float(loss.item()))
        if step + 1 in member.checkpoints:
            keep(step + 1)
    model.eval()
