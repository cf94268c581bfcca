"""What a rule is in a replay: a function from its own state and a round's results to shares, each with its reason.

What must not go in: reading the ledger, and any rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from affine_dagster.scoring.rule import EpochInputs
from affine_dagster.scoring.rules.matrix import Entrant, TaskMatrix

__all__ = ["NOT_DECIDABLE", "Placing", "ReplayedRule", "Round", "Ruling", "paid_alone", "placing", "placings"]

NOT_DECIDABLE = "not_decidable"
"""The reason where the ledger lacks results that a rule asks for, as where evidence stopped early."""

State = TypeVar("State")


@dataclass(frozen=True)
class Round:
    """What a rule sees of one epoch.

    ``inputs``: the epoch's own frames. ``entrants``: each registered hotkey with a model, once, in commit order. ``sink``: the hotkey of
    uid 0, which got what a rule gave to nobody. ``sampling_count``: tasks an environment that an entrant is to run in a window.
    ``results``: makes ``matrix``, which is laid out only for a rule that reads it.
    """

    inputs: EpochInputs
    entrants: tuple[Entrant, ...]
    sink: str
    sampling_count: int
    results: Callable[[], TaskMatrix]

    @cached_property
    def matrix(self) -> TaskMatrix:
        """The entrants' results that count now."""
        return self.results()

    @classmethod
    def of_matrix(cls, inputs: EpochInputs, matrix: TaskMatrix, sink: str, sampling_count: int) -> Round:
        """A round whose results are laid out already."""
        return cls(inputs, matrix.entrants, sink, sampling_count, lambda: matrix)

    @property
    def registered(self) -> Collection[str]:
        """Hotkeys at the boundary block."""
        return self.inputs.registered


@dataclass(frozen=True)
class Placing:
    """What a rule says of one hotkey. ``share`` in [0, 1]. ``reason``: the rule's own word; ``detail``: its figures.

    ``coverage``: the part of the results that the rule asks of this entrant which are there, in [0, 1]; under 1 exactly with
    :data:`NOT_DECIDABLE`.
    """

    hotkey: str
    weights_digest: str
    share: float
    reason: str
    detail: str = ""
    coverage: float = 1.0


@dataclass(frozen=True)
class Ruling(Generic[State]):
    """A rule's word on a round: its state afterwards, and one placing a hotkey. ``crowned``, ``terminated``: hotkeys, in this round."""

    state: State
    placings: tuple[Placing, ...]
    crowned: tuple[str, ...] = ()
    terminated: tuple[str, ...] = ()

    @property
    def coverage(self) -> float:
        """That of the least covered entrant: under 1 another vector might have come of the results that are missing."""
        return min((one.coverage for one in self.placings), default=1.0)


class ReplayedRule(Protocol[State]):
    """A rule that history can be replayed under. Pure: the same state and round give the same bytes."""

    @property
    def name(self) -> str:
        """The name that its rows are kept under."""

    @property
    def version(self) -> int:
        """Counts changes of results under the same name."""

    @property
    def window_blocks(self) -> int | None:
        """How far back results count, in blocks before the boundary: 0 is the epoch alone, None all there are."""

    def begin(self) -> State:
        """The state before the first round."""

    def advance(self, state: State, given: Round) -> Ruling[State]:
        """One round. Shares sum to 1, or to 0 where the rule pays nobody."""


def placings(
    entrants: Iterable[Entrant], shares: Mapping[str, float], reasons: Mapping[str, tuple[str, str]], coverage: Mapping[str, float]
) -> tuple[Placing, ...]:
    """Placings in the entrants' order, from shares, (reason, detail) and coverage by hotkey; whoever has no share gets 0."""
    made = []
    for one in entrants:
        reason, detail = reasons.get(one.hotkey, ("outscored", ""))
        made.append(placing(one, shares.get(one.hotkey, 0.0), reason, detail, coverage[one.hotkey]))
    return tuple(made)


def placing(entrant: Entrant, share: float, reason: str, detail: str = "", coverage: float = 1.0) -> Placing:
    """One placing. Where results are missing that is the reason, whatever the rule made of it."""
    said = (reason, detail) if coverage >= 1 else (NOT_DECIDABLE, f"{reason}: {detail}" if detail else reason)
    return Placing(entrant.hotkey, entrant.weights_digest, share, *said, min(coverage, 1.0))


def paid_alone(winner: Entrant | None) -> dict[str, float]:
    """All to one hotkey, or to nobody."""
    return {} if winner is None else {winner.hotkey: 1.0}
