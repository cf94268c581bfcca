"""The rule of March 2026: Elo ratings from rounds, and shares that halve with each place on the ladder.

Source: the subnet's scorer of March 2026. Known defects, kept: a rating remembers luck, a new model starts in the middle, and a copy of
the best climbs beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from affine_dagster.scoring.rules.arithmetic import geometric_mean, power
from affine_dagster.scoring.rules.matrix import Entrant
from affine_dagster.scoring.rules.protocol import Round, Ruling, placings

__all__ = ["EloLadder", "Ladder", "Rated", "after_absence", "factor", "gain"]

BASE = 1200.0
_SPREAD = 400.0
_FIRST, _LAST, _ROUNDS = 96.0, 32.0, 48
_FORGETTING, _EXPONENT = 0.95, 1.4


def factor(rounds: int) -> float:
    """K after so many rounds: from 96 in a line to 32 over 48 rounds."""
    return _FIRST + (_LAST - _FIRST) * min(rounds, _ROUNDS) / _ROUNDS


def expected(own: float, other: float) -> float:
    """The chance that a rating gives itself against another."""
    return 1 / (1 + power(10.0, min(max((other - own) / _SPREAD, -300.0), 300.0)))


def gain(own: float, rounds: int, others: Sequence[tuple[float, float]]) -> float:
    """What a round changes a rating by: the mean over opponents of K (S − E). ``others``: (rating, S), S 1, .5 or 0."""
    if not others:
        return 0.0
    return factor(rounds) * math.fsum(score - expected(own, rating) for rating, score in others) / len(others)


def after_absence(rating: float, missed: int) -> float:
    """Base + excess · .95^(missed^1.4); under the base nothing fades."""
    if missed <= 0 or rating <= BASE:
        return rating
    return BASE + (rating - BASE) * power(_FORGETTING, power(float(missed), _EXPONENT))


@dataclass(frozen=True)
class Rated:
    """A hotkey's rating of its present weights. ``rating``: as of its last round; ``missed``: rounds since."""

    weights_digest: str
    rating: float = BASE
    rounds: int = 0
    missed: int = 0

    @property
    def present(self) -> float:
        """The rating with what absence took."""
        return after_absence(self.rating, self.missed)


@dataclass(frozen=True)
class Ladder:
    """All ratings, by hotkey."""

    rated: Mapping[str, Rated] = field(default_factory=dict)


@dataclass(frozen=True)
class EloLadder:
    """A round ranks by geometric mean over all environments; whoever lacks one is absent. Shares are 2^−place by rating."""

    name: str = "elo_ladder"
    version: int = 1
    window_blocks: int | None = 0

    def begin(self) -> Ladder:
        """Nobody is rated."""
        return Ladder()

    def advance(self, state: Ladder, given: Round) -> Ruling[Ladder]:
        """One epoch is one round."""
        before = {one.hotkey: _known(state, one) for one in given.matrix.entrants}
        counts, means = given.matrix.counts.tolist(), given.matrix.means.tolist()
        score = {
            one.hotkey: geometric_mean(mean, 0.01)
            for one, ran, mean in zip(given.matrix.entrants, counts, means, strict=True) if ran and all(ran)
        }
        after = dict(state.rated)
        for name, rated in before.items():
            after[name] = _played(name, before, score) if name in score else _missed(rated)
        ladder = sorted(given.matrix.entrants, key=lambda one: (-after[one.hotkey].present, one.position))
        whole = math.fsum(0.5**place for place in range(len(ladder)))
        shares = {one.hotkey: 0.5**place / whole for place, one in enumerate(ladder)}
        reasons = {
            one.hotkey: ("on_the_ladder", f"place {place} of {len(ladder)}, rating {after[one.hotkey].present:.3f}")
            for place, one in enumerate(ladder, 1)
        }
        coverage = given.matrix.covered([1.0] * len(given.matrix.environments))
        return Ruling(Ladder(after), placings(given.matrix.entrants, shares, reasons, coverage))


def _known(state: Ladder, entrant: Entrant) -> Rated:
    """New weights begin anew."""
    rated = state.rated.get(entrant.hotkey)
    return rated if rated is not None and rated.weights_digest == entrant.weights_digest else Rated(entrant.weights_digest)


def _missed(rated: Rated) -> Rated:
    return Rated(rated.weights_digest, rated.rating, rated.rounds, rated.missed + 1 if rated.rounds else 0)


def _played(name: str, before: Mapping[str, Rated], score: Mapping[str, float]) -> Rated:
    own, mine = before[name], score[name]
    others = [(before[other].present, (mine > theirs) + 0.5 * (mine == theirs)) for other, theirs in score.items() if other != name]
    return Rated(own.weights_digest, max(0.0, own.present + gain(own.present, own.rounds, others)), own.rounds + 1)
