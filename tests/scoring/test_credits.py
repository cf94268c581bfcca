"""The laws of chronological credits, their decay, and the worked numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.credits import DECAY_ONE, chronological_credits, decay, epoch_credits
from affine_dagster.scoring.hypervolume import hypervolume
from affine_dagster.scoring.weights import weight_vector
from affine_dagster.settings import ScoringSettings

GRID = 100
Coordinates = list[tuple[int, ...]]
POINTS = st.integers(1, 4).flatmap(lambda d: st.lists(st.tuples(*[st.integers(0, GRID)] * d), min_size=1, max_size=8))


def earned(points: Coordinates) -> list[int]:
    """The credits when every assay is complete: u = v."""
    return chronological_credits(points, points)


@given(POINTS, st.data())
def test_a_later_copy_earns_nothing_and_changes_nobody(points: Coordinates, data: st.DataObject) -> None:
    original = data.draw(st.integers(0, len(points) - 1))
    place = data.draw(st.integers(original + 1, len(points)))
    with_copy = earned([*points[:place], points[original], *points[place:]])
    assert with_copy[place] == 0
    assert with_copy[:place] + with_copy[place + 1 :] == earned(points)


@given(POINTS, st.data())
def test_a_worse_model_behind_earns_nothing_and_changes_nobody(points: Coordinates, data: st.DataObject) -> None:
    original = data.draw(st.sampled_from(points))
    worse = tuple(data.draw(st.integers(0, value)) for value in original)
    assert earned([*points, worse]) == [*earned(points), 0]


@given(POINTS, st.data())
def test_splitting_an_improvement_changes_no_total(points: Coordinates, data: st.DataObject) -> None:
    """Whether one hotkey or several, in one step or in several: the credits of the steps sum to that of the whole."""
    *before, last = points
    steps = [tuple(data.draw(st.integers(0, value)) for value in last) for _ in range(data.draw(st.integers(0, 3)))]
    split = earned([*before, *steps, last])
    assert sum(split[len(before) :]) == earned(points)[-1]


@given(POINTS)
def test_credits_telescope_to_the_hypervolume(points: Coordinates) -> None:
    assert sum(earned(points)) == hypervolume(points)


@given(POINTS, POINTS)
def test_no_later_submission_changes_an_earlier_credit(points: Coordinates, later: Coordinates) -> None:
    after = [tuple(value for value, _ in zip((*point, *[0] * 4), points[0], strict=False)) for point in later]
    assert earned([*points, *after])[: len(points)] == earned(points)


@given(POINTS, st.data())
def test_a_credit_rises_with_the_model_s_coordinates(points: Coordinates, data: st.DataObject) -> None:
    *before, last = points
    better = tuple(data.draw(st.integers(value, GRID)) for value in last)
    assert earned([*before, better])[-1] >= earned(points)[-1]


@given(POINTS, st.data())
def test_a_credit_never_falls_while_bounds_tighten(points: Coordinates, data: st.DataObject) -> None:
    """Whichever v rise and u fall: every credit can only rise."""
    upper = [tuple(data.draw(st.integers(value, GRID)) for value in point) for point in points]
    lower = [tuple(data.draw(st.integers(0, value)) for value in point) for point in points]
    closer_upper = [tuple(data.draw(st.integers(v, u)) for v, u in zip(p, q, strict=True)) for p, q in zip(points, upper, strict=True)]
    closer_lower = [tuple(data.draw(st.integers(low, v)) for low, v in zip(p, q, strict=True)) for p, q in zip(lower, points, strict=True)]
    early, late = chronological_credits(lower, upper), chronological_credits(closer_lower, closer_upper)
    assert all(after >= before for before, after in zip(early, late, strict=True))


def test_equal_vectors_belong_to_the_earliest_commit() -> None:
    """Case S2: equal vectors are not all winners: the earliest earns, the others are tied and later."""
    assert earned([(50, 50)] * 4) == [2500, 0, 0, 0]


def test_ties_in_a_coordinate_are_no_improvement() -> None:
    assert earned([(50, 50), (50, 40), (40, 50)]) == [2500, 0, 0]


def test_one_environment_pays_the_gain_over_the_record() -> None:
    assert earned([(40,), (35,), (60,)]) == [40, 0, 20]


# --- decay --------------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**7), st.integers(1, 10**6))
def test_decay_is_the_power_of_two_rounded_down(age: int, half_life: int) -> None:
    """Against floating point, whose own error is below one unit of 2**-32."""
    assert abs(decay(age, half_life) - DECAY_ONE * 2.0 ** (-age / half_life)) <= 1 + 1e-6


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_decay_never_rises_with_age(age: int, half_life: int) -> None:
    assert decay(age + 1, half_life) <= decay(age, half_life)


@pytest.mark.parametrize(("halves", "factor"), [(0, DECAY_ONE), (1, DECAY_ONE // 2), (10, DECAY_ONE >> 10), (33, 0), (1000, 0)])
def test_whole_half_lives_are_exact(halves: int, factor: int) -> None:
    assert decay(100_800 * halves, 100_800) == factor


def test_a_credit_from_the_future_is_refused() -> None:
    with pytest.raises(AffineError, match="bad_table"):
        decay(-1, 10)


# --- the table ----------------------------------------------------------------------------------------------------------------


def test_the_worked_numbers(make: Any) -> None:
    """rules.md: A (.6, .6) then B (.4, .8): credits .36 and .08, weights 9/11 and 2/11; a later copy of A gets 0."""
    rows = [
        make.member_row(make.Model("A", 1, ()), (60, 60), (60, 60)),
        make.member_row(make.Model("B", 2, ()), (40, 80), (40, 80)),
    ]
    copy = make.member_row(make.Model("copy", 3, ()), (60, 60), (60, 60))
    for members in (rows, [*rows, copy]):
        hotkeys = {"hot-A", "hot-B", "hot-copy", "burn"}
        credit = epoch_credits(make.frontier_frame(*members), hotkeys, epoch=1, boundary_block=0, scoring=ScoringSettings())
        weights = weight_vector(credit, hotkeys, "burn", epoch=1, width=2, scoring=ScoringSettings())
        assert credit["credit"].to_list() == [0.36, 0.08, 0.0][: len(members)]
        assert credit["credit_units"].to_list() == ["3600", "800", "0"][: len(members)]
        paid = dict(weights.select("hotkey", "weight").iter_rows())
        assert (paid["hot-A"], paid["hot-B"]) == (53620, 11915)  # 65,535 · 9/11 = 53,619.55 and 65,535 · 2/11 = 11,915.45
        assert sum(paid.values()) == 65535


def test_genesis_takes_room_but_earns_nothing(make: Any) -> None:
    base = make.member_row(make.BASE, (50, 50), (50, 50))
    new = make.member_row(make.Model("new", 5, ()), (60, 60), (60, 60))
    credit = epoch_credits(make.frontier_frame(new, base), {"hot-new"}, epoch=1, boundary_block=0, scoring=ScoringSettings())
    assert credit.select("hotkey", "credit_units", "reason").rows() == [("hot-new", str(3600 - 2500), "credited")]


def test_an_unmeasured_reference_leaves_no_room_above_it(make: Any) -> None:
    base = make.member_row(make.BASE, (0, 0), (100, 100), complete=False)
    new = make.member_row(make.Model("new", 5, ()), (60, 60), (60, 60))
    credit = epoch_credits(make.frontier_frame(base, new), {"hot-new"}, epoch=1, boundary_block=0, scoring=ScoringSettings())
    assert credit.select("credit_units", "frozen").rows() == [("0", False)]


def test_two_models_of_one_block_are_ordered_by_extrinsic(make: Any) -> None:
    first = make.member_row(make.Model("zz", 5, ()), (60, 60), (60, 60))
    second = make.member_row(make.Model("aa", 5, ()), (60, 60), (60, 60)) | {"extrinsic_index": 1}
    credit = epoch_credits(make.frontier_frame(second, first), set(), epoch=1, boundary_block=0, scoring=ScoringSettings())
    assert credit.select("hotkey", "credit_units").rows() == [("hot-zz", "3600"), ("hot-aa", "0")]


def test_a_credit_halves_in_a_half_life_and_an_absent_hotkey_is_named(make: Any) -> None:
    scoring = ScoringSettings(half_life_blocks=1000)
    rows = make.frontier_frame(make.member_row(make.Model("A", 1, ()), (60, 60), (60, 60), accepted_block=500))
    credit = epoch_credits(rows, set(), epoch=1, boundary_block=1500, scoring=scoring)
    assert credit.select("decayed_units", "decayed", "registered", "reason").rows() == [(str(3600 * 2**31), 0.18, False, "not_registered")]
