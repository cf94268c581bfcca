"""The rule of May to July 2026: one champion, challengers one after another in commit order, and whoever loses once is out for good.

Source: the subnet's scheduler and comparator of that time. Known defects, kept: means without a test crown an equal model in about one
contest of six, and a model that is better by the margin is often terminated for life.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from affine_dagster.scoring.rules.dominance import Comparison, Criteria, Standing, compare, standing
from affine_dagster.scoring.rules.matrix import Common, Entrant
from affine_dagster.scoring.rules.protocol import Placing, Round, Ruling, placing

__all__ = ["ChampionChallenger", "Throne", "complete_at", "pool_size"]


def pool_size(sampling_count: int) -> int:
    """Tasks in a pool: a tenth more than are to be run, in floating point as it was (100 gives 111)."""
    return math.ceil(sampling_count * 1.1)


def complete_at(sampling_count: int) -> int:
    """Common results at which an environment is complete."""
    return math.ceil(0.95 * pool_size(sampling_count))


@dataclass(frozen=True)
class Throne:
    """Who reigns. ``champions``: all that ever did, as (hotkey, weights), the present one last. ``out``: weights that lost."""

    champions: tuple[tuple[str, str], ...] = ()
    out: frozenset[str] = frozenset()

    def crowned(self, entrant: Entrant) -> Throne:
        """With a new champion."""
        one = (entrant.hotkey, entrant.weights_digest)
        return replace(self, champions=(*(other for other in self.champions if other != one), one))


@dataclass(frozen=True)
class ChampionChallenger:
    """``shared_by``: 1, or N = 5 for the time when the last N distinct champions that are still registered shared alike."""

    criteria: Criteria = field(default_factory=Criteria)
    shared_by: int = 1
    name: str = "champion_challenger"
    version: int = 1
    window_blocks: int | None = 7200

    def begin(self) -> Throne:
        """Nobody reigns: a champion without data counts as 0, so the first with results is crowned."""
        return Throne()

    def advance(self, state: Throne, given: Round) -> Ruling[Throne]:
        """One epoch: every challenger whose results are complete meets the champion of the moment."""
        told: dict[str, Placing] = {}
        crowned: list[str] = []
        terminated: list[str] = []
        for place, entrant in enumerate(given.matrix.entrants):
            if (entrant.hotkey, entrant.weights_digest) in state.champions:
                continue  # whoever reigned once does not come again with the same weights
            if entrant.weights_digest in state.out:
                told[entrant.hotkey] = placing(entrant, 0.0, "terminated", "it lost before")
                continue
            common = self._common(state, given, place)
            coverage = min((min(on.tasks / complete_at(given.sampling_count), 1.0) for on in common), default=0.0)
            verdict = self._verdict(common, given)
            told[entrant.hotkey] = (
                placing(entrant, 0.0, "challenging", "", coverage) if verdict is None else placing(entrant, 0.0, verdict.reason)
            )
            if verdict is not None and verdict.wins:
                state = state.crowned(entrant)
                crowned.append(entrant.hotkey)
            elif verdict is not None:
                state = replace(state, out=state.out | {entrant.weights_digest})
                terminated.append(entrant.hotkey)
        return Ruling(state, self._paid(state, given, told), tuple(crowned), tuple(terminated))

    def _common(self, state: Throne, given: Round, place: int) -> tuple[Common, ...]:
        """A challenger beside the champion; beside 0 in an environment where the champion has no result."""
        matrix = given.matrix
        champion = next((at for at, one in enumerate(matrix.entrants) if (one.hotkey, one.weights_digest) in state.champions[-1:]), None)
        alone = [Common(int(count), 0.0, float(mean)) for count, mean in zip(matrix.counts[place], matrix.means[place], strict=True)]
        if champion is None:
            return tuple(alone)
        has = matrix.counts[champion].tolist()
        return tuple(both if ran else own for own, both, ran in zip(alone, matrix.common(champion, place), has, strict=True))

    def _verdict(self, common: tuple[Common, ...], given: Round) -> Comparison | None:
        """None while results are missing; a regression in an environment that is complete decides at once."""
        names, full = given.matrix.environments, complete_at(given.sampling_count)
        for name, on in zip(names, common, strict=True):
            if on.tasks >= full and standing(name, on, self.criteria) is Standing.WORSE:
                return Comparison(False, f"regressed_in_env:{name}:regressed_beyond_tolerance", ())
        return compare(names, common, self.criteria) if all(on.tasks >= full for on in common) else None

    def _paid(self, state: Throne, given: Round, told: dict[str, Placing]) -> tuple[Placing, ...]:
        """The last champions that are still registered with those weights, alike."""
        present = {(one.hotkey, one.weights_digest) for one in given.matrix.entrants}
        still = [one for one in reversed(state.champions) if one[0] in given.registered and one in present]
        hotkeys = list(dict.fromkeys(hotkey for hotkey, _ in still))[: self.shared_by]
        made = []
        for entrant in given.matrix.entrants:
            own = (entrant.hotkey, entrant.weights_digest)
            share = 1 / len(hotkeys) if entrant.hotkey in hotkeys and own in still else 0.0
            word = "champion" if own in state.champions[-1:] else "former_champion"
            made.append(replace(told.get(entrant.hotkey, placing(entrant, 0.0, word)), share=share))
        return tuple(made)
