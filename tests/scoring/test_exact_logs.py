"""Logarithms as whole numbers: exactly the floor, whatever the processor's own functions say."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.scoring import exact_logs
from affine_dagster.scoring.exact_logs import UNIT, log1p_units, log_half_one_plus_units, log_mean_units

logs = st.integers(-(2**50), 2**50)
THOUSAND = settings(max_examples=1000)


def is_floor(units: int, exact: Decimal) -> bool:
    return units <= exact * UNIT < units + 1


@THOUSAND
@given(st.floats(-1 + 2**-20, 2.0**20, allow_subnormal=False))
def test_a_logarithm_is_rounded_down_exactly(value: float) -> None:
    with localcontext() as context:
        context.prec = 400
        assert is_floor(int(log1p_units(np.array(value))), (1 + Decimal(value)).ln())


@THOUSAND
@given(st.lists(logs, min_size=1, max_size=24))
def test_a_log_mean_is_rounded_down_exactly(values: list[int]) -> None:
    with localcontext() as context:
        context.prec, top = 80, max(values)
        mean = sum((Decimal(value - top) / UNIT).exp() for value in values) / len(values)
        assert is_floor(int(log_mean_units(np.array(values))) - top, mean.ln())


@THOUSAND
@given(st.integers(-(2**38), 2**38))
def test_the_log_of_half_of_one_plus_an_e_value_is_rounded_down_exactly(value: int) -> None:
    with localcontext() as context:
        context.prec = 80
        exact = ((1 + (Decimal(value) / UNIT).exp()) / 2).ln()
        assert int(log_half_one_plus_units(np.array(value))) in (int(np.floor(float(exact * UNIT))), -(-int(exact * UNIT) // 1))
        assert int(log_half_one_plus_units(np.array(value))) <= exact * UNIT + Decimal("1e-20")


def test_nothing_bet_is_exactly_nothing_won() -> None:
    zero = np.zeros((1, 5), dtype=np.int64)
    assert [int(one) for one in (*log1p_units(np.zeros(1)), *log_mean_units(zero), *log_half_one_plus_units(zero[0, :1]))] == [0, 0, 0]


@pytest.mark.parametrize("wrong", [1 + 2**-50, 1 - 2**-50])
def test_another_processor_s_last_bits_change_nothing(monkeypatch: pytest.MonkeyPatch, wrong: float) -> None:
    """A machine whose log1p is off by some units in the last place gives the same whole numbers."""
    values = np.random.default_rng(1).uniform(-0.99, 1.5, 200_000)
    right, log1p = log1p_units(values), np.log1p
    monkeypatch.setattr(exact_logs.np, "log1p", lambda value: log1p(value) * wrong)
    assert np.array_equal(log1p_units(values), right)
