"""What children are taught is what the graders take, in an order that leaves nothing out, at the gradient of whole prompts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.environments.registry import environment
from affine_dagster.league.lessons import tasks
from affine_dagster.league.real.recipe import ENVIRONMENTS
from affine_dagster.league.real.tuning import _loss, answer_text, batches, shared_beginning

_TOKENS = st.lists(st.integers(0, 5), min_size=1, max_size=8)


@pytest.mark.parametrize("family", ENVIRONMENTS)
def test_what_is_taught_earns_the_reward(family: str) -> None:
    made = environment(family)
    drawn = tasks("training", made, 0, 50)
    assert {made.grade(task, answer_text(task)).reward for task in drawn} == {1.0}


@given(st.integers(1, 30), st.integers(1, 16), st.integers(0, 9))
def test_a_pass_shows_every_example_once(count: int, size: int, seed: int) -> None:
    shown = [index for batch in islice(batches(count, size, seed), 1 + 3 * count // size) for index in batch]
    for start in range(0, len(shown) - count + 1, count):
        assert sorted(shown[start : start + count]) == list(range(count))


@given(st.lists(_TOKENS, min_size=1, max_size=6))
def test_the_shared_beginning_is_shared_as_long_as_can_be_and_leaves_each_something(prompts: list[list[int]]) -> None:
    common = shared_beginning([(tuple(prompt), (1,)) for prompt in prompts])
    assert 0 <= common < min(map(len, prompts))
    assert len({tuple(prompt[:common]) for prompt in prompts}) == 1
    longer = {tuple(prompt[: common + 1]) for prompt in prompts}
    assert len(longer) > 1 or common + 1 == min(map(len, prompts))


@pytest.mark.models
def test_sharing_the_beginning_changes_neither_loss_nor_gradient(tmp_path: Path, write_checkpoint: Callable[..., Path]) -> None:
    import torch
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(write_checkpoint(tmp_path / "model"), dtype=torch.float32)
    model.config.eos_token_id = 0
    begin = (5, 6, 7, 8)
    rows = [((*begin, 9, 10), (11, 2)), ((*begin, 12), (13, 14, 2)), ((*begin, 15, 16, 17), (3,))]
    found = []
    for common in (1, shared_beginning(rows)):
        loss = _loss(model, rows, common)
        loss.backward()
        found.append((loss.item(), [value.grad.clone() for value in model.parameters() if value.grad is not None]))
        model.zero_grad(set_to_none=True)
    (one, gradients), (other, shared) = found
    assert one == pytest.approx(other, rel=1e-5)
    assert gradients and len(gradients) == len(shared)
    for first, second in zip(gradients, shared, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-6)
