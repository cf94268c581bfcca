"""The laws of the integer histogram."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.histogram import MISSING, Histogram, quantise

REWARDS = st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=40)
PAIRS = st.lists(st.tuples(st.one_of(st.none(), st.floats(0, 1)), st.one_of(st.none(), st.sampled_from([0.0, 1.0]))), max_size=60)


def of(pairs: list[tuple[float | None, float | None]]) -> Histogram:
    return Histogram.of_differences([left for left, _ in pairs], [right for _, right in pairs])


@given(PAIRS, st.data())
def test_shards_merge_to_the_same_bytes_in_any_grouping(pairs: list[tuple[float | None, float | None]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(pairs))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(pairs)), max_size=4)))
    merged = Histogram()
    for start, end in zip([0, *cuts], [*cuts, len(pairs)], strict=True):
        merged = of(shuffled[start:end]) + merged
    assert merged == of(pairs)


@given(PAIRS)
def test_a_histogram_survives_its_table_rows(pairs: list[tuple[float | None, float | None]]) -> None:
    made = of(pairs)
    assert Histogram.from_rows(made.to_rows(), made.missing) == made


@given(REWARDS)
def test_every_task_is_counted_once(rewards: list[float | None]) -> None:
    made = Histogram.of_rewards(rewards)
    assert (made.tasks, made.missing) == (len(rewards), rewards.count(None))


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, 1.0000001, -1e-12])
def test_what_is_no_reward_is_refused(reward: float) -> None:
    """Cases S1, S5 and E7: NaN, infinity and values outside [0, 1] never become evidence."""
    with pytest.raises(AffineError, match="bad_table"):
        quantise([0.5, reward])


def test_rewards_are_rounded_half_to_even_in_thousandths() -> None:
    assert quantise([0.0, 0.0625, 0.1875, 1.0, None]).tolist() == [0, 62, 188, 1000, MISSING]


def test_differences_are_of_quantised_rewards() -> None:
    assert of([(0.0006, 0.0), (1.0, 0.0), (0.0, 1.0), (None, 1.0), (1.0, None)]) == Histogram(((-1000, 1), (1, 1), (1000, 1)), 2)


@given(PAIRS)
def test_the_mean_is_exact(pairs: list[tuple[float | None, float | None]]) -> None:
    made = of(pairs)
    exact = Fraction(sum(key * count for key, count in made.bins), 1000 * made.observed) if made.observed else None
    assert made.mean == (None if exact is None else float(exact))


@pytest.mark.parametrize("bins", [((1, 1), (0, 1)), ((0, 1), (0, 1)), ((0, 0),), ((1001, 1),)])
def test_bins_out_of_order_or_range_are_refused(bins: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(AffineError, match="bad_table"):
        Histogram(bins)


def test_pairs_need_the_same_tasks() -> None:
    with pytest.raises(AffineError, match="bad_table"):
        Histogram.of_differences([1.0], [1.0, 0.0])


@given(PAIRS)
def test_negation_swaps_the_sides(pairs: list[tuple[float | None, float | None]]) -> None:
    assert of(pairs).negated() == of([(right, left) for left, right in pairs])
