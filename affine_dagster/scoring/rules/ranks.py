"""The rules of July 2025: dense ranks of moving averages, and the one whom fewest dominate, or who beats most, takes all.

Source: the subnet's validator of 2025-07-24 (moving average: nine tenths of what was, one tenth of what is new, from 0).
Known defects, kept: a rank tells nothing of by how much, ties are ties of floating point, and whoever wins takes all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from affine_dagster.scoring.rules.matrix import Entrant, TaskMatrix
from affine_dagster.scoring.rules.protocol import Round, Ruling, paid_alone, placings

__all__ = ["Averages", "DenseRank", "Supermajority", "dense_ranks"]

KEPT = 0.9
"""The part of a moving average that an epoch leaves as it was."""

Ranks = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Averages:
    """Moving averages an environment, by hotkey, with the weights that they are of: new weights begin at 0."""

    by_hotkey: Mapping[str, tuple[str, tuple[float, ...]]] = field(default_factory=dict)

    def after(self, matrix: TaskMatrix) -> Averages:
        """With one more round; an environment without results stays as it was."""
        counts, means = matrix.counts.tolist(), matrix.means.tolist()
        moved = dict(self.by_hotkey)
        for entrant, ran, mean in zip(matrix.entrants, counts, means, strict=True):
            digest, before = moved.get(entrant.hotkey, ("", ()))
            held = before if digest == entrant.weights_digest else (0.0,) * len(mean)
            new = tuple(old * KEPT + score * (1 - KEPT) if count else old for old, score, count in zip(held, mean, ran, strict=True))
            moved[entrant.hotkey] = (entrant.weights_digest, new)
        return Averages(moved)


def dense_ranks(scores: Mapping[str, Sequence[float]]) -> dict[str, tuple[int, ...]]:
    """Ranks from 1 (the best) in each environment, equal scores alike, no rank left out."""
    if not scores:
        return {}
    columns = zip(*scores.values(), strict=True)
    places = [{score: rank for rank, score in enumerate(sorted(set(column), reverse=True), 1)} for column in columns]
    return {name: tuple(place[score] for place, score in zip(places, own, strict=True)) for name, own in scores.items()}


def _beats(first: Sequence[int], second: Sequence[int], strictly: int) -> bool:
    pairs = list(zip(first, second, strict=True))
    return all(one <= other for one, other in pairs) and sum(one < other for one, other in pairs) >= strictly


def _ranked(state: Averages, given: Round) -> tuple[Averages, Ranks]:
    moved = state.after(given.matrix)
    return moved, dense_ranks({one.hotkey: moved.by_hotkey[one.hotkey][1] for one in given.matrix.entrants})


def _all_to(winner: Entrant | None, state: Averages, given: Round, told: Mapping[str, str], word: str) -> Ruling[Averages]:
    reasons = {name: ("outscored", detail) for name, detail in told.items()}
    if winner is not None:
        reasons[winner.hotkey] = (word, told[winner.hotkey])
    coverage = given.matrix.covered([1.0] * len(given.matrix.environments))
    made = placings(given.matrix.entrants, paid_alone(winner), reasons, coverage)
    return Ruling(state, made)


@dataclass(frozen=True)
class DenseRank:
    """The entrant whom the fewest others dominate takes all; of several the earliest.

    i dominates j ⇔ its rank is no worse in all environments and better in one.
    """

    name: str = "dense_rank"
    version: int = 1
    window_blocks: int | None = 0

    def begin(self) -> Averages:
        """No averages."""
        return Averages()

    def advance(self, state: Averages, given: Round) -> Ruling[Averages]:
        """One epoch."""
        moved, ranks = _ranked(state, given)
        over = {name: sum(_beats(other, own, 1) for other in ranks.values()) for name, own in ranks.items()}
        winner = min(given.matrix.entrants, key=lambda one: (over[one.hotkey], one.position), default=None)
        told = {name: f"{count} of {len(ranks) - 1} others dominate it" for name, count in over.items()}
        return _all_to(winner, moved, given, told, "fewest_dominators")


@dataclass(frozen=True)
class Supermajority:
    """Whoever beats most others takes all; of several the oldest block.

    a beats b ⇔ its rank is no worse in all environments and better in ``strictly`` of them.
    """

    strictly: int = 2
    name: str = "supermajority"
    version: int = 1
    window_blocks: int | None = 0

    def begin(self) -> Averages:
        """No averages."""
        return Averages()

    def advance(self, state: Averages, given: Round) -> Ruling[Averages]:
        """One epoch."""
        moved, ranks = _ranked(state, given)
        wins = {name: sum(_beats(own, other, self.strictly) for other in ranks.values()) for name, own in ranks.items()}
        winner = min(given.matrix.entrants, key=lambda one: (-wins[one.hotkey], one.position), default=None)
        told = {name: f"beats {count} of {len(ranks) - 1} others" for name, count in wins.items()}
        return _all_to(winner, moved, given, told, "most_wins")
