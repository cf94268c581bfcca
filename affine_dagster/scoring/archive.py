"""The frontier as a set of points that grows by one point at a time, asked each time what a new point would add.

What must not go in: how a volume is computed (``hypervolume.py``), and whose the points are (``credits.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from affine_dagster.scoring.hypervolume import exclusive, front_of

__all__ = ["Archive"]


@dataclass(frozen=True)
class Archive:
    """Points that no other point dominates, of 0 or more in each of at most 16 coordinates; larger is better."""

    points: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, points: Sequence[Sequence[int]]) -> Archive:
        """The archive of any points. Raises ``bad_table`` where they have not the same number of coordinates."""
        return cls(tuple(front_of(points)))

    def adds(self, point: Sequence[int]) -> int:
        """The volume, in grid cells, that the point would add."""
        return exclusive(point, self.points)

    def grown(self, point: Sequence[int]) -> Archive:
        """The archive with the point: points that it dominates are dropped, and itself where it is dominated."""
        own = tuple(point)
        if any(_covers(other, own) for other in self.points):
            return self
        return Archive((*(other for other in self.points if not _covers(own, other)), own))


def _covers(one: Sequence[int], other: Sequence[int]) -> bool:
    return all(mine >= theirs for mine, theirs in zip(one, other, strict=True))
