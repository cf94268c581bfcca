"""The planned numbers of a contest: sample size, stakes, alpha."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.bets import LOSING_MULTIPLIERS, WINNING_MULTIPLIERS, bet, fixed_sample_size, planned_bets, try_alpha
from affine_dagster.settings import ScoringSettings


def test_fixed_sample_size_is_the_known_answer() -> None:
    """DESIGN section 4: 4,996 tasks at power .9 for m = .02, D1 = .06, q = .3, alpha = 5e-5."""
    assert fixed_sample_size(0.02, 0.06, 0.3, 5e-5) == 4996


def test_a_bet_is_the_gain_over_its_second_moment() -> None:
    assert bet(0.04, 0.3) == pytest.approx(0.04 / (0.3 + 0.0016), rel=1e-15)
    assert bet(5.0, 0.01) == pytest.approx(0.2, abs=0.01)
    assert bet(0.5, 0.01) == 0.9


@given(
    delta=st.floats(1e-4, 0.98), discordance=st.floats(1e-3, 1.0), worst=st.floats(0.0, 2.0),
    multipliers=st.sampled_from([WINNING_MULTIPLIERS, LOSING_MULTIPLIERS]),
)
def test_no_single_task_can_ruin_a_bet(delta: float, discordance: float, worst: float, multipliers: tuple[float, ...]) -> None:
    assert all(0 < stake <= 0.9 and stake * worst < 1 for stake in planned_bets(delta, discordance, multipliers, worst))


@pytest.mark.parametrize(("delta", "discordance"), [(0.0, 0.3), (-0.1, 0.3), (0.1, 0.0), (math.nan, 0.3), (0.1, math.nan)])
def test_a_bet_on_nothing_is_refused(delta: float, discordance: float) -> None:
    with pytest.raises(AffineError, match="bad_settings"):
        bet(delta, discordance)


def test_an_owner_spends_at_most_its_slots_alpha() -> None:
    scoring = ScoringSettings()
    spent = math.fsum(try_alpha(scoring, number) for number in range(1, 20_000))
    slot = scoring.alpha_daily / scoring.owner_slots
    assert slot * 0.9999 < spent < slot
    assert try_alpha(scoring, 1) == pytest.approx(slot * 6 / math.pi**2)


def test_tries_are_counted_from_one() -> None:
    with pytest.raises(AffineError, match="bad_settings"):
        try_alpha(ScoringSettings(), 0)
