"""The rule of December 2025 to March 2026: completeness, thresholds against copies, subsets of environments, and a floor.

Source: the subnet's scorer of that time. Known defects, kept: a later model that is a little better everywhere is put out as a copy,
and a share follows rank and not by how much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from affine_dagster.scoring.rules.arithmetic import geometric_mean
from affine_dagster.scoring.rules.protocol import Placing, Round, Ruling, placing

__all__ = ["FourStage", "threshold"]

_TINY = 1e-9


def threshold(mean: float, tasks: int, *, z: float = 1.5, least: float = 0.02, most: float = 0.10) -> float:
    """What a later model must exceed where an earlier one has ``mean`` on ``tasks`` tasks."""
    gap = most if tasks <= 0 else min(max(z * math.sqrt(mean * (1 - mean) / tasks), least), most)
    return min(mean + gap, 1.0)


@dataclass(frozen=True)
class FourStage:
    """Completeness, thresholds, subsets, floor.

    1. At least ``complete`` of an environment's tasks. 2. For an earlier A and a later B, B wins an environment if it exceeds A's
    threshold, else A does; who wins all of a subset puts the other out of it. 3. Layers are subset sizes, the ``layers`` largest; a
    layer weighs N·2^(layer − first), equally over its subsets; a subset's score is the geometric mean with ε .01, times .5^(rank − 1),
    shared in proportion. 4. What is under ``floor`` goes to uid 0.
    """

    complete: float = 0.9
    layers: int = 6
    floor: float = 0.01
    name: str = "four_stage"
    version: int = 1
    window_blocks: int | None = 7200

    def begin(self) -> None:
        """It has no state: the round's results are the window's."""

    def advance(self, state: None, given: Round) -> Ruling[None]:
        """One epoch."""
        counts, means, tasks = given.matrix.counts.tolist(), given.matrix.means.tolist(), given.matrix.tasks
        valid = [[bool(of) and ran >= self.complete * of for ran, of in zip(row, tasks, strict=True)] for row in counts]
        wins = _wins(means, counts)
        width, shares = len(tasks), [0.0] * len(means)
        first = max(1, width - self.layers + 1)
        for size in range(first, width + 1):
            subsets = list(combinations(range(width), size))
            for chosen in subsets:
                inside = [at for at, row in enumerate(valid) if all(row[place] for place in chosen)]
                kept = [at for at in inside if not any(_out(wins, other, at, chosen) for other in inside)]
                layer = width * 2 ** (size - first) / len(subsets)
                for at, part in _parts([(at, [means[at][place] for place in chosen]) for at in kept]):
                    shares[at] += layer * part
        return Ruling(None, self._placed(given, shares))

    def _placed(self, given: Round, shares: Sequence[float]) -> tuple[Placing, ...]:
        """Normalised; what lies under the floor goes to the sink."""
        whole = math.fsum(shares)
        made = [share / whole if whole else 0.0 for share in shares]
        kept = [share if share >= self.floor else 0.0 for share in made]
        rest = max(0.0, 1.0 - math.fsum(kept))
        coverage = given.matrix.covered([self.complete * of for of in given.matrix.tasks])
        found = []
        for entrant, share, before in zip(given.matrix.entrants, kept, made, strict=True):
            full = share + (rest if entrant.hotkey == given.sink else 0.0)
            reason = "ranked" if share else "under_floor" if before else "outscored"
            found.append(placing(entrant, full, reason, f"{before:.6f} before the floor", coverage[entrant.hotkey]))
        if rest and given.sink not in {one.hotkey for one in given.matrix.entrants}:
            found.append(Placing(given.sink, "", rest, "sink"))
        return tuple(found)


def _wins(means: Sequence[Sequence[float]], counts: Sequence[Sequence[int]]) -> dict[tuple[int, int], list[bool]]:
    """Of each pair of entrants, by place and so by commit order, in which environments the later one wins."""
    return {
        (a, b): [
            score > threshold(mean, ran) + _TINY
            for mean, ran, score in zip(means[a], counts[a], means[b], strict=True)
        ]
        for a, b in combinations(range(len(means)), 2)
    }


def _out(wins: dict[tuple[int, int], list[bool]], by: int, who: int, chosen: Sequence[int]) -> bool:
    """Whether one entrant wins all of a subset against another."""
    if by == who:
        return False
    if by < who:
        return not any(wins[by, who][at] for at in chosen)
    return all(wins[who, by][at] for at in chosen)


def _parts(inside: Sequence[tuple[int, Sequence[float]]]) -> list[tuple[int, float]]:
    """Each entrant's part of a subset. Equal scores are ranked in commit order."""
    scored = sorted(((geometric_mean(values, 0.01), at) for at, values in inside), key=lambda one: (-one[0], one[1]))
    halved = [(at, max(score, 0.0) * 0.5**rank) for rank, (score, at) in enumerate(scored)]
    whole = math.fsum(score for _, score in halved)
    return [(at, score / whole if whole else 1 / len(halved)) for at, score in halved]
