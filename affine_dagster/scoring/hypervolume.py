"""Exact hypervolume of grid points, in Python integers, reference point 0, larger is better.

What must not go in: floating point (the same points must give the same bytes everywhere; moocore and pygmo only cross-check
it in tests) and what the points mean (``credits.py``).
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Sequence
from operator import ge, itemgetter

import numpy as np

from affine_dagster.reasons import AffineError

__all__ = ["exclusive", "front_of", "hypervolume"]

Point = Sequence[int]
Points = list[tuple[int, ...]]

_MANY = 24
"""From this many points on the dominance check of all pairs in numpy is the faster one."""


def hypervolume(points: Sequence[Point]) -> int:
    """The volume that the points dominate, in grid cells: |∪ [0, p]|. At most 16 coordinates of 0 or more, all of one length.

    WFG with slicing (While, Bradstreet, Barone 2012): exact, since every product and sum is a Python integer.
    """
    return _volume(_front(_checked(points))) if len(points) else 0


def exclusive(point: Point, others: Sequence[Point]) -> int:
    """What ``point`` adds: hypervolume(others ∪ {point}) − hypervolume(others), without computing either."""
    (own, *rest) = _checked([point, *others])
    return math.prod(own) - _volume(_front([tuple(map(min, own, other)) for other in rest]))


def front_of(points: Sequence[Point]) -> Points:
    """The points with a volume that no other point dominates, once each, in descending order. Raises ``bad_table`` as above."""
    return _front(_checked(points)) if len(points) else []


def _checked(points: Sequence[Point]) -> Points:
    made = [tuple(int(value) for value in point) for point in points]
    width = len(made[0])
    if not 1 <= width <= 16 or any(len(point) != width or min(point) < 0 for point in made):
        raise AffineError("bad_table", "points need 1..16 coordinates of 0 or more, the same number each")
    return made


def _front(points: Points) -> Points:
    """The points that no other point dominates, once each, without those that have no volume, in descending order."""
    unique = sorted({point for point in points if 0 not in point}, reverse=True)
    return _front_of_many(unique) if len(unique) > _MANY else _front_of_few(unique)


def _front_of_few(points: Points) -> Points:
    kept: Points = []
    for point in points:  # whoever dominates a point stands before it
        if not any(all(map(ge, other, point)) for other in kept):
            kept.append(point)
    return kept


def _front_of_many(points: Points) -> Points:
    table = np.array(points, dtype=np.int64)
    covered = np.ones((len(points), len(points)), dtype=np.bool_)
    for column in table.T:
        covered &= column[:, None] >= column[None, :]
    return [point for point, count in zip(points, covered.sum(axis=0).tolist(), strict=True) if count == 1]


def _volume(front: Points) -> int:
    """The volume of non-dominated points in descending order."""
    if len(front) < 3:
        return _volume_of_two(front)
    width = len(front[0])
    if width > 3:
        common, front = _reshaped(front)
        return common * _sliced(front)
    if width == 3:
        return _solid(front)
    return _area(front) if width == 2 else front[0][0]


def _reshaped(front: Points) -> tuple[int, Points]:
    """The points without the coordinates that all of them share, whose product comes first, and with the least varied one in front.

    Points that were limited to one box share many coordinates. The fewer values a sliced coordinate has, the fewer slabs are alike.
    """
    varied = [(len(set(column)), column) for column in zip(*front, strict=True)]
    common = math.prod(column[0] for values, column in varied if values == 1)
    kept = [column for values, column in sorted(varied, key=itemgetter(0)) if values > 1]
    return common, sorted(zip(*kept, strict=True), reverse=True)


def _sliced(front: Points) -> int:
    """The volume by slabs of the first coordinate, of at least two points that differ in each."""
    if len(front[0]) < 4:
        return _volume(front)
    if len(front[0]) == 4:
        return _fourfold(front)
    total = 0
    # every point before this one reaches at least as far in the first coordinate: what is left is a slab of it
    for at, (first, *rest) in enumerate(front):
        limits = _front([tuple(map(min, other[1:], rest)) for other in front[:at]])
        total += first * (math.prod(rest) - _volume(limits))
    return total


def _volume_of_two(front: Points) -> int:
    alone = sum(math.prod(point) for point in front)
    return alone - math.prod(map(min, *front)) if len(front) == 2 else alone


def _area(front: Points) -> int:
    """Two coordinates, descending in the first: a sweep of slabs."""
    area, height = 0, 0
    for right, top in front:
        if top > height:
            area += right * (top - height)
            height = top
    return area


def _fourfold(front: Points) -> int:
    """Four coordinates, descending in the first: slabs over a growing set of points in the other three."""
    total, solid, below = 0, 0, [point[0] for point in front[1:]] + [0]
    reaching: Points = []
    for point, end in zip(front, below, strict=True):
        insort(reaching, point[1:])
        if end < point[0]:
            solid = _solid(reaching[::-1])
            total += solid * (point[0] - end)
    return total


def _solid(front: Points) -> int:
    """Three coordinates, descending in the first: slabs over a growing staircase of the other two."""
    total, area = 0, 0
    stairs: list[tuple[int, int]] = []  # ascending in the second coordinate, descending in the third
    for at, (first, second, third) in enumerate(front):
        if at:
            total += area * (front[at - 1][0] - first)
        start = bisect_right(stairs, (second, -1))
        right_of = stairs[start][1] if start < len(stairs) else 0
        if right_of >= third:
            continue
        begin = start
        while begin and stairs[begin - 1][1] <= third:
            begin -= 1
        left_edge = stairs[begin - 1][0] if begin else 0
        covered, edge = 0, left_edge
        for right, top in stairs[begin:start]:
            covered += (right - edge) * top
            edge = right
        covered += (second - edge) * right_of
        area += (second - left_edge) * third - covered
        stairs[begin:start + (1 if start < len(stairs) and stairs[start][0] == second else 0)] = [(second, third)]
    return total + area * front[-1][0] if front else 0
