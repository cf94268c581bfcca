"""The rule of April 2026: a challenge at every further window of common tasks, lives, and a crown from the tenth checkpoint on.

Source: the subnet's champion challenge of April 2026. Known defects, kept: losing is decided by means at few tasks, lives are spent by
noise, and of two equal models the later is terminated for life.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from affine_dagster.scoring.rules.arithmetic import geometric_mean
from affine_dagster.scoring.rules.dominance import Criteria, compare
from affine_dagster.scoring.rules.matrix import Entrant, TaskMatrix
from affine_dagster.scoring.rules.protocol import Placing, Round, Ruling, placing

__all__ = ["Challenge", "Checkpoints", "Reign", "margin_at"]

_WARM_UP, _DECISIVE = 2, 10
_FIRST_MARGIN, _LAST_MARGIN = 0.02, 0.03


def margin_at(checkpoint: int) -> float:
    """The margin at a checkpoint: .02 at the third, in a line to .03 at the tenth and later."""
    first = _WARM_UP + 1
    along = min(max((checkpoint - first) / (_DECISIVE - first), 0.0), 1.0)
    return _FIRST_MARGIN + along * (_LAST_MARGIN - _FIRST_MARGIN)


@dataclass(frozen=True)
class Challenge:
    """How a hotkey's weights stand against the present champion. ``won``: the last comparison was a win."""

    weights_digest: str
    checkpoint: int = 0
    won: bool = False
    losses: int = 0
    losses_in_a_row: int = 0
    terminated: str = ""

    def after(self, checkpoint: int, *, won: bool, why: str, lives: int, in_a_row: int) -> Challenge:
        """With one more comparison. A loss at the decisive checkpoint or later is the last."""
        if won:
            return replace(self, checkpoint=checkpoint, won=True, losses_in_a_row=0)
        made = replace(self, checkpoint=checkpoint, won=False, losses=self.losses + 1, losses_in_a_row=self.losses_in_a_row + 1)
        spent = checkpoint >= _DECISIVE or made.losses >= lives or made.losses_in_a_row >= in_a_row
        return replace(made, terminated=why) if spent else made


@dataclass(frozen=True)
class Reign:
    """``champion``: hotkey and weights. ``challenges`` by hotkey."""

    champion: tuple[str, str] | None = None
    challenges: Mapping[str, Challenge] = field(default_factory=dict)

    def of(self, entrant: Entrant) -> Challenge:
        """An entrant's challenge; new weights begin anew."""
        known = self.challenges.get(entrant.hotkey)
        return known if known is not None and known.weights_digest == entrant.weights_digest else Challenge(entrant.weights_digest)


@dataclass(frozen=True)
class Checkpoints:
    """A checkpoint is the least whole number of windows that challenger and champion have in common, over environments.

    The first two are warm-up. A challenger wins that dominates in one environment and is not worse anywhere; it takes the crown at the
    tenth checkpoint or later, of several the best geometric mean (ε .1). ``lives`` losses, or ``in_a_row``, terminate. Two others with
    ``windows`` in common: whoever exceeds by ``pair_margin`` everywhere terminates the other, and so does the earlier of two that the
    later exceeds nowhere. A new reign forgets all challenges but terminations.
    """

    lives: int = 4
    in_a_row: int = 3
    windows: int = 5
    pair_margin: float = 0.04
    name: str = "checkpoints"
    version: int = 1
    window_blocks: int | None = None

    def begin(self) -> Reign:
        """Nobody reigns: the best geometric mean of the first round does then."""
        return Reign()

    def advance(self, state: Reign, given: Round) -> Ruling[Reign]:
        """One epoch."""
        matrix, crowned = given.matrix, []
        if state.champion is None and (first := self._best(matrix, range(len(matrix.entrants)))) is not None:
            state = self._new_reign(state, matrix.entrants[first])
            crowned.append(matrix.entrants[first].hotkey)
        before = {one.hotkey: state.of(one) for one in matrix.entrants}
        after = self._challenged(state, given, self._paired(state, given, before))
        state = replace(state, challenges={**state.challenges, **after})
        ready = [
            at for at, one in enumerate(matrix.entrants)
            if not self._reigns(state, one) and (own := after[one.hotkey]).won and not own.terminated and own.checkpoint >= _DECISIVE
        ]
        if (winner := self._best(matrix, ready)) is not None:
            state = self._new_reign(state, matrix.entrants[winner])
            crowned.append(matrix.entrants[winner].hotkey)
        out = tuple(name for name, one in after.items() if one.terminated and not before[name].terminated)
        return Ruling(state, tuple(self._placing(state, given, one, after[one.hotkey]) for one in matrix.entrants), tuple(crowned), out)

    @staticmethod
    def _reigns(state: Reign, entrant: Entrant) -> bool:
        return (entrant.hotkey, entrant.weights_digest) == state.champion

    @staticmethod
    def _best(matrix: TaskMatrix, places: range | list[int]) -> int | None:
        """The best geometric mean over all environments, of equal ones the earliest."""
        whole = [place for place in places if matrix.environments and matrix.counts[place].all()]
        return min(whole, key=lambda place: (-geometric_mean(matrix.means[place].tolist(), 0.1), place), default=None)

    @staticmethod
    def _new_reign(state: Reign, champion: Entrant) -> Reign:
        kept = {
            name: one if one.terminated else Challenge(one.weights_digest)
            for name, one in state.challenges.items() if name != champion.hotkey
        }
        return Reign((champion.hotkey, champion.weights_digest), kept)

    def _windows(self, given: Round, first: int, second: int) -> int:
        return min((on.tasks // given.sampling_count for on in given.matrix.common(first, second)), default=0)

    def _paired(self, state: Reign, given: Round, before: Mapping[str, Challenge]) -> dict[str, Challenge]:
        """The others held against each other, the earlier first."""
        after, entrants, names = dict(before), given.matrix.entrants, given.matrix.environments
        strict = Criteria(margin=self.pair_margin, min_dominant=0)
        for a, earlier in enumerate(entrants):
            for b in range(a + 1, len(entrants)):
                later = entrants[b]
                if self._reigns(state, earlier) or self._reigns(state, later):
                    continue
                if after[earlier.hotkey].terminated or after[later.hotkey].terminated or self._windows(given, a, b) < self.windows:
                    continue
                found = compare(names, given.matrix.common(a, b), strict)
                loser = earlier if found.wins else None if "dominant" in found.standings else later
                if loser is not None:
                    by = later if loser is earlier else earlier
                    after[loser.hotkey] = replace(after[loser.hotkey], terminated=f"dominated_by:{by.hotkey}")
        return after

    def _challenged(self, state: Reign, given: Round, before: dict[str, Challenge]) -> dict[str, Challenge]:
        """Everyone that reached a new checkpoint held against the champion."""
        matrix = given.matrix
        champion = next((at for at, one in enumerate(matrix.entrants) if self._reigns(state, one)), None)
        if champion is None:
            return before
        after = dict(before)
        for place, entrant in enumerate(matrix.entrants):
            own, reached = before[entrant.hotkey], self._windows(given, champion, place)
            if place == champion or own.terminated or reached <= own.checkpoint:
                continue
            found = compare(matrix.environments, matrix.common(champion, place), Criteria(margin=margin_at(reached)))
            after[entrant.hotkey] = (
                replace(own, checkpoint=reached) if reached <= _WARM_UP
                else own.after(reached, won=found.wins, why=f"lost:{found.reason}", lives=self.lives, in_a_row=self.in_a_row)
            )
        return after

    def _placing(self, state: Reign, given: Round, entrant: Entrant, own: Challenge) -> Placing:
        if self._reigns(state, entrant):
            return placing(entrant, 1.0 if entrant.hotkey in given.registered else 0.0, "champion")
        if own.terminated:
            return placing(entrant, 0.0, "terminated", own.terminated)
        detail = f"checkpoint {own.checkpoint}, {own.losses} losses"
        return placing(entrant, 0.0, "challenging", detail, own.checkpoint / _DECISIVE)
