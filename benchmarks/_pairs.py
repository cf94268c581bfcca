"""Simulated pairs for contests: differences of a challenger and an incumbent on the same tasks, and rules that judge them.

A difference is -1, 0 or 1 with discordance q and mean g: P(1) = (q + g) / 2, P(-1) = (q - g) / 2. ``contest_of`` puts it through
the product's own ``judge`` at each look; ``incumbent_crowns`` is the rule that the subnet used. What must not go in: figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from affine_dagster.scoring.contest import ContestRule, ContestState, judge
from affine_dagster.scoring.histogram import STEPS, Histogram

__all__ = ["Decision", "Setting", "contests", "incumbent_crowns"]

Verdict = Callable[[tuple[tuple[int, int, int], ...], int], ContestState]


@dataclass(frozen=True)
class Setting:
    """How a contest is run: its rule, tasks between two looks, and the true discordance."""

    rule: ContestRule
    look: int
    discordance: float

    @property
    def limit(self) -> int:
        """Tasks an environment after which the pair ends undecided."""
        return self.rule.task_limit


@dataclass(frozen=True)
class Decision:
    """How one pair ended, after how many tasks an environment."""

    state: ContestState
    tasks: int


def contests(setting: Setting, gains: Sequence[float], repeats: int, seed: int) -> list[Decision]:
    """Independent pairs of these true gains, one an environment, each looked at until the rule ends it."""
    rng = np.random.default_rng(seed)
    verdict = _remembering(setting)
    return [_contest(setting, np.array(gains), rng, verdict) for _ in range(repeats)]


def _contest(setting: Setting, gains: npt.NDArray[np.float64], rng: np.random.Generator, verdict: Verdict) -> Decision:
    draws = rng.random((setting.limit, gains.size))
    up, down = (setting.discordance + gains) / 2, (setting.discordance - gains) / 2
    wins = np.cumsum(draws < up, axis=0)
    losses = np.cumsum(draws >= 1 - down, axis=0)
    for tasks in [*range(setting.look, setting.limit, setting.look), setting.limit]:
        seen = tuple((int(lost), int(tasks - won - lost), int(won)) for lost, won in zip(losses[tasks - 1], wins[tasks - 1], strict=True))
        state = verdict(seen, tasks)
        if state is not ContestState.UNDECIDED:
            return Decision(state, tasks)
    raise RuntimeError("a contest reached its limit without an end")


def _remembering(setting: Setting) -> Verdict:
    """``judge`` on counts of (-1, 0, 1) an environment; it is a function of them alone, so equal counts are judged once."""
    known: dict[tuple[tuple[int, int, int], ...], ContestState] = {}

    def verdict(counts: tuple[tuple[int, int, int], ...], tasks: int) -> ContestState:
        counts = tuple(sorted(counts))  # no environment's name weighs more than another's
        if counts not in known:
            evidence = {f"e{number}": _histogram(one) for number, one in enumerate(counts)}
            known[counts] = judge(evidence, setting.rule, tasks, 0).state
        return known[counts]

    return verdict


def _histogram(counts: tuple[int, int, int]) -> Histogram:
    return Histogram(tuple((at, count) for at, count in zip((-STEPS, 0, STEPS), counts, strict=True) if count))


MARGIN, TOLERANCE, SAMPLES, RULE_ENVIRONMENTS = 0.03, 0.02, 200, 3
"""champion_challenger (2026-05 to 2026-07), as deployed: the margin that dominates, the relative loss that is not worse, its tasks."""


def incumbent_crowns(gain: float, champion: float, discordance: float, repeats: int, seed: int) -> int:
    """How many challengers of this true gain the subnet's rule champion_challenger crowns, of ``repeats``.

    Means over the same 200 tasks in each of 3 environments. Dominant: B > A + .03; not worse: B >= A (1 - .02). Crowned: dominant
    in at least one environment, and elsewhere not worse. It has no test of significance. ``champion``: its true mean reward.
    """
    rng = np.random.default_rng(seed)
    shape = (repeats, RULE_ENVIRONMENTS, SAMPLES)
    theirs: npt.NDArray[np.bool_] = rng.random(shape) < champion
    flips = rng.random(shape)
    # where the champion fails the challenger solves the task so often, and the reverse, that q and g come out
    gained = ~theirs & (flips < (discordance + gain) / 2 / (1 - champion))
    lost = theirs & (flips < (discordance - gain) / 2 / champion)
    before, after = theirs.mean(axis=2), ((theirs | gained) & ~lost).mean(axis=2)
    dominant = after > before + MARGIN + 1e-9
    not_worse = after >= before * (1 - TOLERANCE) - 1e-9
    return int((dominant.any(axis=1) & (dominant | not_worse).all(axis=1)).sum())
