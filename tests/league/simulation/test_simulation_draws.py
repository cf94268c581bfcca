"""The laws of drawing by place: known words, and counts that are distributed as they should be."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from scipy import stats

from affine_dagster.league.simulation.draws import Coins, binomial_probabilities, choose, threefry

KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]
"""Key, counter, words: Random123's kat_vectors, threefry2x32 with 20 rounds."""

DRAWS = 200_000


@pytest.mark.parametrize("engine", ["numpy", "jax.numpy"])
@pytest.mark.parametrize(("key", "counter", "words"), KNOWN)
def test_words_are_those_of_the_published_vectors(
    engine: str, key: tuple[int, int], counter: tuple[int, int], words: tuple[int, int]
) -> None:
    given = [tuple(np.array([word], dtype=np.uint32) for word in pair) for pair in (key, counter)]
    assert tuple(int(word[0]) for word in threefry(import_module(engine), *given)) == words  # type: ignore[arg-type]


def test_words_are_those_that_jax_makes_of_its_keys() -> None:
    import jax

    counters = np.arange(8, dtype=np.uint32)
    ours = threefry(np, (np.uint32(5), np.uint32(9)), (np.zeros_like(counters), counters))
    theirs = jax.random.bits(jax.random.wrap_key_data(np.array([5, 9], dtype=np.uint32)), (8,), "uint32")
    assert np.array_equal(ours[0] ^ ours[1], np.asarray(theirs))


@pytest.mark.parametrize(("tasks", "chance"), [(100, 0.3), (127, 0.5), (40, 0.01), (1, 1.0), (0, 0.4)])
def test_probabilities_are_the_binomials(tasks: int, chance: float) -> None:
    assert np.allclose(binomial_probabilities([tasks], [chance])[0], stats.binom.pmf(np.arange(tasks + 1), tasks, chance), atol=1e-13)


@pytest.mark.parametrize(("tasks", "chance"), [(100, 0.3), (127, 0.5), (40, 0.01)])
def test_counts_are_drawn_as_often_as_is_probable(tasks: int, chance: float) -> None:
    expected = binomial_probabilities([tasks], [chance])[0]
    words, _ = threefry(np, (np.uint32(1), np.uint32(2)), (np.uint32(0), np.arange(DRAWS, dtype=np.uint32)))
    drawn = choose(np, Coins.of(expected[None]).cells, np.zeros(DRAWS, dtype=np.int32), words)
    likely = expected * DRAWS >= 10
    counts = np.bincount(drawn, minlength=expected.size)[: expected.size]
    found = [*counts[likely], counts[~likely].sum()]
    wanted = np.array([*expected[likely], expected[~likely].sum()]) * DRAWS
    assert stats.chisquare(found, wanted * sum(found) / wanted.sum()).pvalue > 1e-4


def test_what_cannot_happen_is_not_drawn() -> None:
    words, _ = threefry(np, (np.uint32(3), np.uint32(4)), (np.uint32(0), np.arange(DRAWS, dtype=np.uint32)))
    drawn = choose(np, Coins.of(binomial_probabilities([5], [0.5])).cells, np.zeros(DRAWS, dtype=np.int32), words)
    assert set(drawn.tolist()) == set(range(6))
