"""The betting confidence sequences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.histogram import Histogram
from affine_dagster.scoring.intervals import difference_interval, log_capital, reward_interval, surely_positive

DIFFERENCES = st.builds(
    lambda bins, missing: Histogram(tuple(sorted(bins.items())), missing),
    st.dictionaries(st.integers(-1000, 1000), st.integers(1, 300), max_size=5), st.integers(0, 20),
)
REWARDS = st.builds(
    lambda bins, missing: Histogram(tuple(sorted(bins.items())), missing),
    st.dictionaries(st.integers(0, 1000), st.integers(1, 300), max_size=5), st.integers(0, 20),
)


def test_the_e_value_of_the_rules_example() -> None:
    """rules.md, frontier_credits: 30 wins, 60 ties, 10 losses at m = 0 give E = 37.263."""
    assert math.exp(log_capital(Histogram(((-1000, 10), (0, 60), (1000, 30))), 0.0)) == pytest.approx(37.263, abs=5e-4)


@given(DIFFERENCES)
def test_a_difference_lies_in_its_interval(seen: Histogram) -> None:
    interval = difference_interval(seen, 0.05)
    assert -1 <= interval.lower <= interval.upper <= 1
    assert seen.mean is None or interval.lower <= seen.mean <= interval.upper


@given(REWARDS)
def test_a_reward_lies_in_its_interval(seen: Histogram) -> None:
    interval = reward_interval(seen, 0.05)
    assert 0 <= interval.lower <= interval.upper <= 1
    assert seen.mean is None or interval.lower <= seen.mean <= interval.upper


@given(DIFFERENCES, REWARDS)
def test_a_missing_task_never_narrows_an_interval(difference: Histogram, reward: Histogram) -> None:
    for before, after in (
        (difference_interval(difference, 0.05), difference_interval(difference + Histogram((), 1), 0.05)),
        (reward_interval(reward, 0.05), reward_interval(reward + Histogram((), 1), 0.05)),
    ):
        assert after.lower <= before.lower
        assert after.upper >= before.upper


@given(DIFFERENCES)
def test_swapping_the_sides_mirrors_the_interval(seen: Histogram) -> None:
    interval, mirrored = difference_interval(seen, 0.05), difference_interval(seen.negated(), 0.05)
    assert (mirrored.lower, mirrored.upper) == (-interval.upper, -interval.lower)


@given(DIFFERENCES, st.floats(-0.9, 0.9), st.floats(0, 0.1))
def test_evidence_falls_as_the_claimed_mean_rises(seen: Histogram, mean: float, step: float) -> None:
    assert log_capital(seen, mean + step) <= log_capital(seen, mean) + 1e-9


@given(DIFFERENCES)
def test_the_quick_sign_is_the_interval_s(seen: Histogram) -> None:
    assert surely_positive(seen, 0.05) == (difference_interval(seen, 0.05).lower > 0)


@pytest.mark.parametrize(("bins", "lower", "upper"), [((), 0.0, 1.0), (((1000, 400),), 0.96, 1.0), (((0, 400),), 0.0, 0.04)])
def test_zero_variance_and_no_data(bins: tuple[tuple[int, int], ...], lower: float, upper: float) -> None:
    """Case S4: all equal gives an interval, never NaN."""
    interval = reward_interval(Histogram(bins), 0.05)
    assert lower <= interval.lower <= interval.upper <= upper


def test_the_interval_covers_at_every_look_together() -> None:
    """Miscoverage at most alpha over all looks (Ville): 200 seeded runs of 2,000 tasks at mean .3, 20 looks each."""
    looks = np.random.default_rng(7).binomial(100, 0.3, size=(200, 20)).cumsum(axis=1)
    missed = 0
    for ones in looks:
        for at, count in enumerate(ones):
            interval = reward_interval(Histogram(((0, int(100 * (at + 1) - count)), (1000, int(count)))), 0.1)
            if not interval.lower <= 0.3 <= interval.upper:
                missed += 1
                break
    assert missed <= 0.1 * 200


def test_rewards_have_no_negative_bins() -> None:
    with pytest.raises(AffineError, match="bad_table"):
        reward_interval(Histogram(((-1, 1),)), 0.05)


@pytest.mark.parametrize("alpha", [0.0, 1.0, math.nan])
def test_an_interval_needs_a_level(alpha: float) -> None:
    with pytest.raises(AffineError, match="bad_settings"):
        reward_interval(Histogram(), alpha)


@given(st.one_of(DIFFERENCES, REWARDS), st.sampled_from([0.2, 0.05, 1e-4]))
def test_the_lower_end_is_the_last_rejected_mean(seen: Histogram, alpha: float) -> None:
    """Rejected at the end itself, not one lattice step above it: rounded down by less than 1e-6, wherever the search began."""
    lower, filled = difference_interval(seen, alpha).lower, seen.filled(-1000)
    assert (lower * 2**21).is_integer()
    assert lower == -1 or log_capital(filled, lower) >= -math.log(alpha / 2)
    assert not filled.bins or log_capital(filled, lower + 2**-21) < -math.log(alpha / 2)
