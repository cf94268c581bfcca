"""Draws that belong to their seed, and the distribution that they follow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.serving.port import Sampling
from affine_dagster.serving.sampling import choose, draws


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5), st.integers(1, 30))
def test_a_seed_s_draws_depend_on_it_alone(seeds: list[int], steps: int) -> None:
    together = draws(seeds, steps)
    assert together.shape == (len(seeds), steps)
    assert ((together >= 0) & (together < 1)).all()
    for row, seed in zip(together, seeds, strict=True):
        assert np.array_equal(row, draws([seed], steps + 3)[0, :steps]), "nor on how many are asked for"


def test_draws_are_pinned() -> None:
    assert draws([0, 2**64 - 1], 2).tolist() == [[0.3849865085151435, 0.6302308382902104], [0.11828812030511293, 0.14736854090216922]]


def test_draws_are_uniform() -> None:
    values = draws(range(500), 40).ravel()
    assert values.mean() == pytest.approx(0.5, abs=4 * (1 / 12 / values.size) ** 0.5)
    assert np.histogram(values, 10, (0, 1))[0].min() > 0.09 * values.size


def test_greedy_takes_the_first_of_the_largest() -> None:
    import torch

    assert choose(torch.tensor([[1.0, 3.0, 3.0], [5.0, 0.0, 1.0]]), Sampling(), None).tolist() == [1, 0]


@pytest.mark.parametrize(("top_p", "kept"), [(1.0, [0.1, 0.2, 0.7]), (0.85, [0.0, 2 / 9, 7 / 9]), (0.5, [0.0, 0.0, 1.0])])
def test_samples_follow_the_cut_distribution(top_p: float, kept: list[float]) -> None:
    import torch

    n = 20_000
    logits = torch.log(torch.tensor([0.1, 0.2, 0.7])).expand(n, 3)
    uniform = torch.from_numpy(draws(range(n), 1)[:, 0])
    counts = torch.bincount(choose(logits, Sampling(temperature=1.0, top_p=top_p), uniform), minlength=3) / n
    for share, wanted in zip(counts.tolist(), kept, strict=True):
        assert share == pytest.approx(wanted, abs=4 * (wanted * (1 - wanted) / n) ** 0.5)


def test_temperature_sharpens() -> None:
    import torch

    n = 5_000
    uniform = torch.from_numpy(draws(range(n), 1)[:, 0])
    logits = torch.tensor([0.0, 1.0]).expand(n, 2)
    cold, hot = (choose(logits, Sampling(temperature=t), uniform).double().mean().item() for t in (0.25, 4.0))
    assert cold == pytest.approx(1 / (1 + np.exp(-4)), abs=0.02)
    assert hot == pytest.approx(1 / (1 + np.exp(-0.25)), abs=0.03)


@given(st.floats(0, 1, exclude_max=True), st.floats(1e-9, 1.0))
def test_a_token_of_probability_zero_is_never_chosen(draw: float, top_p: float) -> None:
    import torch

    logits = torch.tensor([[-1e30, 0.0, -1e30, 0.0]])
    assert choose(logits, Sampling(temperature=1.0, top_p=top_p), torch.tensor([draw], dtype=torch.float64)).item() in {1, 3}
