"""The laws of the weight vector and its checks."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.weights import TOTAL, apportion, weight_vector
from affine_dagster.settings import ScoringSettings

SHARES = st.dictionaries(st.text("abcdef", min_size=1, max_size=4), st.integers(0, 10**30), min_size=1, max_size=30)


def vector(credit: pl.DataFrame, registered: set[str], target: float = 0.0, **more: Any) -> pl.DataFrame:
    return weight_vector(credit, registered, "burn", epoch=1, width=2, scoring=ScoringSettings(target_credit=target), **more)


def weights(frame: pl.DataFrame) -> dict[str, int]:
    return dict(frame.select("hotkey", "weight").iter_rows())


@given(SHARES)
def test_apportioned_weights_sum_to_the_total_and_miss_their_share_by_less_than_one(shares: dict[str, int]) -> None:
    if not any(shares.values()):
        return
    made, whole = apportion(shares), sum(shares.values())
    assert sum(made.values()) == TOTAL
    assert all(abs(made[name] - Fraction(TOTAL * share, whole)) < 1 for name, share in shares.items())


@given(SHARES, st.data())
def test_the_order_of_rows_changes_nothing(make: Any, shares: dict[str, int], data: st.DataObject) -> None:
    credit = make.credit_frame(**shares)
    order = data.draw(st.permutations(range(credit.height)))
    registered = {*shares, "burn"}
    assert vector(credit[list(order)], registered).equals(vector(credit, registered))


@given(SHARES, st.sets(st.text("abcdef", min_size=1, max_size=4)), st.floats(0, 1))
def test_weights_sum_to_the_total_or_burn(make: Any, shares: dict[str, int], registered: set[str], target: float) -> None:
    made = vector(make.credit_frame(**shares), registered | {"burn"}, target)
    paid = {name for name, share in shares.items() if share and name in registered}
    assert made["weight"].sum() == TOTAL
    assert made["sendable"].all()
    assert {name for name, weight in weights(made).items() if weight} <= paid | {"burn"}
    assert paid or weights(made)["burn"] == TOTAL


def test_ties_go_by_hotkey() -> None:
    assert apportion({"b": 1, "a": 1}) == {"a": 32768, "b": 32767}


def test_three_to_two(make: Any) -> None:
    """Case W7."""
    assert weights(vector(make.credit_frame(a=3, b=2), {"a", "b", "burn"})) == {"a": 39321, "b": 26214, "burn": 0}


def test_one_miner_gets_all(make: Any) -> None:
    """Case W7."""
    assert weights(vector(make.credit_frame(a=1), {"a", "burn"})) == {"a": TOTAL, "burn": 0}


@pytest.mark.parametrize("shares", [{}, {"a": 0}, {"a": 0, "b": 0}])
def test_nothing_owed_burns_all(make: Any, shares: dict[str, int]) -> None:
    """Case W7: all zero is not divided by, it burns."""
    made = vector(make.credit_frame(**shares), {"a", "b", "burn"})
    assert weights(made) == {"burn": TOTAL}
    assert set(made["reason"]) == {"burned"}
    assert made["sendable"].all()


def test_a_share_below_half_a_unit_becomes_zero_and_the_sum_holds(make: Any) -> None:
    """Case W7: 1e-6 of the whole is no weight in 16 bits."""
    assert weights(vector(make.credit_frame(a=999_999, tiny=1), {"a", "tiny", "burn"})) == {"a": TOTAL, "burn": 0, "tiny": 0}


@pytest.mark.parametrize("units", ["nan", "inf", "-1", "1.5", "", "١"])
def test_what_is_no_count_is_refused(make: Any, units: str) -> None:
    """Case W7: one NaN never reaches the chain."""
    with pytest.raises(AffineError, match="bad_table"):
        vector(make.credit_frame(a=units), {"a", "burn"})


def test_the_burn_hotkey_is_never_a_contestant(make: Any) -> None:
    """Case W8: a credit under the burn hotkey's name wins nothing."""
    made = vector(make.credit_frame(burn=10**9, a=1), {"a", "burn"})
    assert weights(made) == {"a": TOTAL, "burn": 0}
    assert made.filter("burn")["hotkey"].to_list() == ["burn"]


def test_hotkeys_that_left_get_nothing(make: Any) -> None:
    """Case W10: eligibility is applied after averaging; the count of paid hotkeys is the count of registered ones."""
    shares = {f"h{at}": 1 + at for at in range(250)}
    registered = {f"h{at}" for at in range(182)} | {"burn"}
    made = vector(make.credit_frame(**shares), registered)
    assert {name for name, weight in weights(made).items() if weight} == registered - {"burn"}
    assert made["sendable"].all()


def test_the_target_burns_what_is_not_earned(make: Any) -> None:
    """DESIGN section 4: 1 − min(1, Σ decayed / target); .36 of .72 earned burns half."""
    credit = make.credit_frame(a=3600 * 2**32)
    assert weights(vector(credit, {"a", "burn"}, 0.72)) == {"a": 32768, "burn": 32767}
    assert weights(vector(credit, {"a", "burn"}, 0.3)) == {"a": TOTAL, "burn": 0}


def test_burning_to_a_stranger_is_not_sendable(make: Any) -> None:
    made = vector(make.credit_frame(), {"a"})
    assert made.select("sendable", "reason").rows() == [(False, "not_sendable")]


@pytest.mark.parametrize("shares", [{"a": 0}, {"a": 2, "b": -1}])
def test_impossible_shares_are_refused(shares: dict[str, int]) -> None:
    with pytest.raises(AffineError, match="bad_table"):
        apportion(shares)
