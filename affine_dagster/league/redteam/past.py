"""The same market under the subnet's earlier rules: every entrant's whole results, as those rules had them.

The miners play as they did against ours; the rule alone is another. Genesis takes no part: those rules knew miners only. What must not
go in: any rule (``scoring/rules/``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from affine_dagster.league.redteam.answers import Answers, Latent
from affine_dagster.league.redteam.market import BURN, ENVIRONMENTS, Played, digest_of
from affine_dagster.scoring.histogram import MISSING, STEPS
from affine_dagster.scoring.rules.matrix import Entrant, TaskMatrix
from affine_dagster.scoring.rules.protocol import ReplayedRule, Round, Ruling

__all__ = ["SAMPLES", "rulings"]

SAMPLES = 100
"""Tasks an environment that every entrant runs in an epoch, and that a rule asks for in a window."""

Steps = npt.NDArray[np.int32]


@dataclass
class _Sampled:
    """Who is in, and everybody's results so far. ``rounds``: the boundary block of each epoch, and its results by weights digest."""

    answers: Answers
    models: Mapping[str, Latent]
    entrants: dict[str, Entrant] = field(default_factory=dict)
    rounds: list[tuple[int, dict[str, Steps]]] = field(default_factory=list)

    def add(self, played: Played) -> None:
        """One more epoch: the newest model of each hotkey runs, a copy has the results of whom it copied."""
        block = played.inputs.boundary_block
        for at, offer in enumerate(played.offers):
            held = self.entrants.get(offer.hotkey)
            uid = 1 + len(self.entrants) if held is None else held.uid
            digest = digest_of(offer.model.name)
            if held is None or held.weights_digest != digest:
                self.entrants[offer.hotkey] = Entrant(offer.hotkey, digest, block - len(played.offers) + at - 1, uid)
        running = {one.weights_digest for one in self.entrants.values()}
        self.rounds.append((block, {digest: self._steps(digest, played.epoch) for digest in sorted(running)}))

    def _steps(self, digest: str, epoch: int) -> Steps:
        drawn = self.answers.rewards(self.models[digest], "contest", epoch)[:, :SAMPLES]
        steps: Steps = np.where(np.isnan(drawn), MISSING, STEPS * np.nan_to_num(drawn)).astype(np.int32)
        return steps

    def matrix(self, window_blocks: int | None) -> TaskMatrix:
        """Results of the window, an entrant a row, in commit order."""
        now = self.rounds[-1][0]
        counted = [one for block, one in self.rounds if window_blocks is None or now - block < max(window_blocks, 1)]
        ordered = tuple(sorted(self.entrants.values(), key=lambda one: (*one.position, one.hotkey)))
        nothing = np.full((len(ENVIRONMENTS), SAMPLES), MISSING, dtype=np.int32)
        rows = [np.concatenate([one.get(entrant.weights_digest, nothing) for one in counted], axis=1) for entrant in ordered]
        return TaskMatrix(ENVIRONMENTS, ordered, np.stack(rows) if rows else nothing[None][:0])


def rulings(
    rules: Sequence[ReplayedRule[Any]], played: Iterable[Played], answers: Answers, models: Mapping[str, Latent]
) -> Iterator[tuple[int, str, Ruling[Any]]]:
    """Each rule's ruling on each epoch: (epoch, rule, ruling). ``models``: by weights digest, all that are offered."""
    sampled, states = _Sampled(answers, models), {rule.name: rule.begin() for rule in rules}
    for one in played:
        sampled.add(one)
        entrants = tuple(sampled.entrants.values())
        for rule in rules:
            given = Round(one.inputs, entrants, BURN, SAMPLES, partial(sampled.matrix, rule.window_blocks))
            ruling = rule.advance(states[rule.name], given)
            states[rule.name] = ruling.state
            yield one.epoch, rule.name, ruling
