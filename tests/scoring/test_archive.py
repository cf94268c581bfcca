"""The growing frontier gives what the whole set of points gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.archive import Archive
from affine_dagster.scoring.credits import chronological_credits
from affine_dagster.scoring.hypervolume import exclusive, hypervolume

Points = list[tuple[int, ...]]


def points(size: int) -> st.SearchStrategy[Points]:
    return st.integers(1, 6).flatmap(lambda d: st.lists(st.tuples(*[st.integers(0, 6)] * d), min_size=1, max_size=size))


@given(points(12))
def test_what_each_point_adds_sums_to_the_volume_of_all(front: Points) -> None:
    archive, total = Archive(), 0
    for point in front:
        total += archive.adds(point)
        archive = archive.grown(point)
    assert total == hypervolume(front)


@given(points(12))
def test_growing_point_by_point_is_the_archive_of_all(front: Points) -> None:
    """Apart from the order, and from points without a volume, which add nothing."""
    archive = Archive()
    for point in front:
        archive = archive.grown(point)
    assert {point for point in archive.points if 0 not in point} == set(Archive.of(front).points)


@given(points(12), st.data())
def test_a_point_that_is_covered_adds_nothing_and_changes_nothing(front: Points, data: st.DataObject) -> None:
    archive = Archive.of(front)
    inside = tuple(data.draw(st.integers(0, value)) for value in data.draw(st.sampled_from(front)))
    assert archive.adds(inside) == 0
    assert hypervolume(archive.grown(inside).points) == hypervolume(front)


@given(points(10), st.data())
def test_credits_that_stand_are_not_computed_again(front: Points, data: st.DataObject) -> None:
    lower = [tuple(data.draw(st.integers(0, value)) for value in point) for point in front]
    whole = chronological_credits(lower, front)
    assert whole == [exclusive(point, front[:at]) for at, point in enumerate(lower)]
    assert chronological_credits(lower, front, whole[: data.draw(st.integers(0, len(front)))]) == whole


def test_points_of_other_widths_are_refused() -> None:
    with pytest.raises(AffineError, match="bad_table"):
        Archive.of([(1, 2)]).adds((1, 2, 3))
