"""Tuning a child: the base's upper layers on (prompt, answer) pairs, on one thread, the same bytes for the same recipe.

Prompts are those that the engine makes of a message, answers are in the form that the base itself uses. What must not go in:
which tasks are taught (``recipe.py``).

All prompts of the template begin alike (the system's turn); that beginning is computed once a step and shared by the batch's
rows through the cache. Its gradient is the same. Measured on one core, batches of 16, seconds a step: float32 7.3, with the
beginning shared 4.9; products in bfloat16 3.9, with the beginning shared 3.0.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from affine_dagster.environments.port import Task
from affine_dagster.league.real.precision import Precision
from affine_dagster.league.real.recipe import Child
from affine_dagster.serving.prompts import Prompts

__all__ = ["Example", "answer_text", "batches", "examples", "shared_beginning", "tune"]

Example = tuple[tuple[int, ...], tuple[int, ...]]
"""Token ids of a prompt and of its answer with the end of its turn."""

_WARM_STEPS = 5
_NO_LABEL = -100
_END = "<|im_end|>"


def answer_text(task: Task) -> str:
    """What a child is taught to say: the expression restated with its value, or the answer alone where there is none."""
    expression = task.facts.get("expression")
    return task.answer if expression is None else f"{expression} = {task.answer}"


def examples(folder: Path, tasks: Sequence[Task]) -> list[Example]:
    """Token ids of every task's prompt, as the engine would make them, and of its answer. ``folder``: the base."""
    from affine_dagster.checkpoint.tokenizer import load_tokenizer

    prompts, tokenizer = Prompts(folder), load_tokenizer(folder)
    return [
        (tuple(prompts.encode(task.prompt)), tuple(tokenizer.encode(answer_text(task) + _END, add_special_tokens=False).ids))
        for task in tasks
    ]


def batches(count: int, size: int, seed: int) -> Iterator[list[int]]:
    """Batches of indices under ``count`` for ever, each pass over all of them in a new order."""
    shuffle = random.Random(seed)  # noqa: S311 - the order of examples is no secret
    waiting: list[int] = []
    while True:
        while len(waiting) < size:
            order = list(range(count))
            shuffle.shuffle(order)
            waiting += order
        yield waiting[:size]
        waiting = waiting[size:]


def shared_beginning(taught: Sequence[Example]) -> int:
    """How many tokens all prompts have in common at their start; each keeps at least one of its own."""
    first, *others = [prompt for prompt, _ in taught]
    length = min(len(prompt) for prompt, _ in taught) - 1
    for other in others:
        while first[:length] != other[:length]:
            length -= 1
    return length


def tune(
    folder: Path, taught: Sequence[Example], child: Child, layers: int, precision: Precision, said: Callable[[int, float], None]
) -> Any:
    """The model in ``folder`` with its upper ``layers`` layers tuned as ``child`` says, in bfloat16.

    AdamW in float32, products in ``precision``; the rate warms up over five steps and falls in half a cosine. ``said(step, loss)`` is
    called after every tenth step and the last.
    """
    import torch
    from transformers import LlamaForCausalLM

    torch.manual_seed(child.seed)
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).train()
    model.requires_grad_(False)
    for layer in model.model.layers[-layers:]:
        layer.requires_grad_(True)
    tuned = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(tuned, lr=child.learning_rate, weight_decay=0.0, fused=True)
    order, common = batches(len(taught), child.batch, child.seed), shared_beginning(taught)
    for step in range(child.steps):
        rate = child.learning_rate * min(1.0, (step + 1) / _WARM_STEPS) * (0.5 + 0.5 * math.cos(math.pi * step / child.steps))
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = _loss(model, [taught[index] for index in next(order)], common)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % 10 == 0 or step + 1 == child.steps:
            said(step + 1, float(loss.item()))
    return model.eval().to(torch.bfloat16)


def _loss(model: Any, rows: Sequence[Example], common: int) -> Any:
    """Mean cross-entropy of the answers' tokens, the common beginning of the prompts computed once.

    Rows are padded on the right with the stop token, which no label and, attention being causal, no other position sees.
    """
    import torch
    from torch.nn import functional
    from transformers import DynamicCache

    width = max(len(prompt) + len(answer) for prompt, answer in rows) - common
    ids = torch.full((len(rows), width), model.config.eos_token_id)
    labels = torch.full((len(rows), width), _NO_LABEL)
    for row, (prompt, answer) in enumerate(rows):
        own = prompt[common:]
        ids[row, : len(own) + len(answer)] = torch.tensor(own + answer)
        labels[row, len(own) : len(own) + len(answer)] = torch.tensor(answer)
    cache = DynamicCache(config=model.config)
    model.model(torch.tensor([rows[0][0][:common]]), past_key_values=cache, use_cache=True)
    cache.batch_repeat_interleave(len(rows))
    hidden = model.model(ids, past_key_values=cache, use_cache=True).last_hidden_state[:, :-1]
    kept = labels[:, 1:] != _NO_LABEL
    return functional.cross_entropy(model.lm_head(hidden[kept]).float(), labels[:, 1:][kept])
