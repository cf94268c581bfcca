"""The exact hypervolume, against counting cells and against two other programs."""

from __future__ import annotations

import itertools

import moocore
import numpy as np
import pygmo
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.hypervolume import exclusive, hypervolume

Points = list[tuple[int, ...]]


def points(width: st.SearchStrategy[int], top: int, size: int) -> st.SearchStrategy[Points]:
    return width.flatmap(lambda d: st.lists(st.tuples(*[st.integers(0, top)] * d), min_size=1, max_size=size))


def cells(front: Points, top: int) -> int:
    """The cells under the points, counted one by one."""
    every = itertools.product(range(top), repeat=len(front[0]))
    return sum(any(all(at < value for at, value in zip(cell, point, strict=True)) for point in front) for cell in every)


@given(points(st.integers(1, 4), 5, 7))
def test_it_counts_cells(front: Points) -> None:
    """Also equal first coordinates, which a sort on the first objective only gets wrong (case S7)."""
    assert hypervolume(front) == cells(front, 5)


@given(points(st.integers(5, 6), 3, 6))
def test_it_counts_cells_in_more_dimensions(front: Points) -> None:
    assert hypervolume(front) == cells(front, 3)


@given(points(st.integers(2, 6), 100, 30))
def test_it_agrees_with_moocore(front: Points) -> None:
    """It minimises: the points are mirrored. Values below 2**53 are exact there too, up to its sums."""
    theirs = moocore.hypervolume(-np.array(front, dtype=float), ref=np.zeros(len(front[0])))
    assert hypervolume(front) == pytest.approx(theirs, rel=1e-12)


@given(points(st.integers(2, 5), 100, 20))
def test_it_agrees_with_pygmo(front: Points) -> None:
    mirrored = -np.array(front, dtype=float)
    inside = mirrored[(mirrored < 0).all(axis=1)]  # pygmo refuses points on the reference planes
    theirs = pygmo.hypervolume(inside).compute([0.0] * len(front[0])) if len(inside) else 0.0
    assert hypervolume(front) == pytest.approx(theirs, rel=1e-12)


@given(points(st.integers(1, 5), 20, 10), st.data())
def test_what_a_point_adds_is_the_difference(front: Points, data: st.DataObject) -> None:
    point = data.draw(st.tuples(*[st.integers(0, 20)] * len(front[0])))
    assert exclusive(point, front) == hypervolume([*front, point]) - hypervolume(front)


@given(points(st.integers(1, 5), 20, 10), st.data())
def test_order_and_repetition_do_not_matter(front: Points, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(front))
    assert hypervolume([*shuffled, data.draw(st.sampled_from(front))]) == hypervolume(front)


def test_large_grids_stay_exact() -> None:
    """16 environments on a grid of 1,000 leave 64 bits far behind."""
    assert hypervolume([(1000,) * 16, (999,) * 16]) == 1000**16
    assert exclusive((1000,) * 16, [(999,) * 16]) == 1000**16 - 999**16


def test_many_points_take_the_same_way_as_few() -> None:
    """200 points on a sphere in four dimensions: the numpy check of dominance and the sum of what each adds agree."""
    drawn = np.abs(np.random.default_rng(3).normal(size=(200, 4)))
    front: Points = [tuple(row) for row in np.ceil(100 * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(int).tolist()]
    assert sum(exclusive(point, front[:at]) for at, point in enumerate(front)) == hypervolume(front)


def test_nothing_has_no_volume() -> None:
    assert hypervolume([]) == 0
    assert hypervolume([(0, 5)]) == 0
    assert exclusive((2, 3), []) == 6


@pytest.mark.parametrize("front", [[(1, 2), (1,)], [(-1, 2)], [(1,) * 17]])
def test_what_is_no_set_of_points_is_refused(front: Points) -> None:
    with pytest.raises(AffineError, match="bad_table"):
        hypervolume(front)
