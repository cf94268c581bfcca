"""The verdict on a pair: one function for the evaluation worker's stop rule and for the evidence table.

What must not go in: frames and reading rewards (``pairs.py``), and who may enter the frontier (``frontier.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.bets import fixed_sample_size
from affine_dagster.scoring.counts import Counts
from affine_dagster.scoring.evidence import FUTILE, NOT_WORSE, REGRESSED, WIN, Stakes, log_evidence_units
from affine_dagster.scoring.exact_logs import UNIT, Units, log_half_one_plus_units, log_mean_units
from affine_dagster.scoring.histogram import Histogram
from affine_dagster.settings import EvaluationSettings, ScoringSettings

__all__ = ["ContestRule", "ContestState", "ContestVerdict", "judge", "judge_all", "stops"]


class ContestState(StrEnum):
    """What the evidence of a pair says."""

    WON = "won"
    FUTILE = "futile"
    REGRESSED = "regressed"
    UNDECIDED = "undecided"
    EXPIRED = "expired"


_REASONS: Mapping[ContestState, str] = {
    ContestState.WON: "won",
    ContestState.FUTILE: "futile",
    ContestState.REGRESSED: "regressed",
    ContestState.UNDECIDED: "undecided",
    ContestState.EXPIRED: "expired_undecided",
}


@dataclass(frozen=True)
class ContestRule:
    """All numbers that a pair is judged by, fixed when the pair is planned. Gains in reward, ``max_tasks`` an environment."""

    margin: float
    tolerance: float
    gain: float
    alpha: float
    alpha_not_worse: float
    futile_at: float
    discordance: float
    max_tasks: int
    max_epochs: int
    coverage_floor: float

    @classmethod
    def of(cls, scoring: ScoringSettings, evaluation: EvaluationSettings, alpha: float, discordance: float) -> ContestRule:
        """The rule of one pair: the settings, its alpha and its planned discordance (``plan.alpha``, ``plan.discordance``)."""
        return cls(
            margin=scoring.margin, tolerance=scoring.tolerance, gain=scoring.gain, alpha=alpha,
            alpha_not_worse=scoring.alpha_not_worse, futile_at=scoring.futile_at, discordance=discordance,
            max_tasks=evaluation.max_tasks, max_epochs=evaluation.max_epochs, coverage_floor=evaluation.coverage_floor,
        )

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1 or not 0 < self.discordance <= 1 or not 0 <= self.margin < self.gain:
            raise AffineError("bad_settings", f"a contest needs alpha in (0, 1), discordance in (0, 1] and margin < gain: {self}")

    @cached_property
    def stakes(self) -> Stakes:
        """What the bets are laid on."""
        return Stakes(self.margin, self.tolerance, self.gain, self.discordance)

    @cached_property
    def task_limit(self) -> int:
        """Tasks an environment after which an undecided pair expires: min(max_tasks, 2·N at power .9)."""
        return min(self.max_tasks, 2 * fixed_sample_size(self.margin, self.gain, self.discordance, self.alpha))


@dataclass(frozen=True)
class ContestVerdict:
    """The verdict with what it rests on.

    ``environment``: where it was won best, where it regressed most, or where coverage is lowest; else None.
    ``log_win`` is the log of the pooled e-value of a partial win, ``log_strict`` of the smallest e-value of an environment.
    """

    state: ContestState
    reason: str
    strict: bool
    environment: str | None
    log_win: float
    log_strict: float
    log_not_worse: float
    log_futile: float
    log_regressed: float


def judge(evidence: Mapping[str, Histogram], rule: ContestRule, tasks: int, epochs: int) -> ContestVerdict:
    """The verdict on one pair from its merged histograms by environment; see :func:`judge_all`."""
    names = tuple(sorted(evidence))
    counts = Counts.of_histograms([evidence[name] for name in names])
    return judge_all(names, counts, log_evidence_units(counts, [rule.stakes] * len(names)), [rule], [tasks], [epochs])[0]


def judge_all(
    environments: Sequence[str], counts: Counts, logs: Units, rules: Sequence[ContestRule], tasks: Sequence[int], epochs: Sequence[int]
) -> list[ContestVerdict]:
    """The verdicts on pairs from their merged histograms, one an environment of the subnet (an empty one where nothing ran).

    ``counts``, ``logs``: rows pair by pair, within a pair in the order of ``environments``, which are sorted; ``logs`` are
    :func:`log_evidence_units` at each rule's stakes. ``tasks``: tasks used by the pair in the environment that has used fewest
    (case E20); ``epochs``: epochs it has run, the present one only when it is over (a worker in mid-epoch passes ``epochs_before``).
    won: ½·mean_e E_e + ½·Π_e (1 + E_e)/2 ≥ 1/alpha, and min_e E_e(−tau) ≥ 1/alpha_not_worse. strict: min_e E_e ≥ 1/alpha.
    regressed: max_e G_e ≥ 1/alpha_not_worse. futile: min_e F_e ≥ futile_at. Under the coverage floor in any environment
    there is no verdict. Raises ``bad_settings`` without environments. Source: DESIGN section 4.
    """
    if not environments:
        raise AffineError("bad_settings", "a contest needs at least one environment")
    wide = logs.reshape(len(rules), len(environments), 4)
    win, regressed = wide[:, :, WIN], wide[:, :, REGRESSED]
    columns = (
        _uncovered(counts, environments, rules), win.argmax(axis=1).tolist(), regressed.argmax(axis=1).tolist(),
        *((one / UNIT).tolist() for one in (
            _partial(win), win.min(axis=1), wide[:, :, NOT_WORSE].min(axis=1), wide[:, :, FUTILE].min(axis=1), regressed.max(axis=1)
        )),
    )
    seen = [_Seen(*one) for one in zip(*columns, strict=True)]
    return [_verdict(environments, *one) for one in zip(rules, tasks, epochs, seen, strict=True)]


class _Seen(NamedTuple):
    """What a verdict rests on. ``best``, ``worst``: places of environments."""

    uncovered: str | None
    best: int
    worst: int
    log_win: float
    log_strict: float
    log_not_worse: float
    log_futile: float
    log_regressed: float


def _verdict(environments: Sequence[str], rule: ContestRule, tasks: int, epochs: int, seen: _Seen) -> ContestVerdict:
    state, environment = ContestState.UNDECIDED, None
    if seen.uncovered is not None:
        environment = seen.uncovered
    elif seen.log_win >= -math.log(rule.alpha) and seen.log_not_worse >= -math.log(rule.alpha_not_worse):
        state, environment = ContestState.WON, environments[seen.best]
    elif seen.log_regressed >= -math.log(rule.alpha_not_worse):
        state, environment = ContestState.REGRESSED, environments[seen.worst]
    elif seen.log_futile >= math.log(rule.futile_at):
        state = ContestState.FUTILE
    elif tasks >= rule.task_limit or epochs >= rule.max_epochs:
        state = ContestState.EXPIRED
    return ContestVerdict(
        state=state,
        reason=_REASONS[state] if seen.uncovered is None else "low_coverage",
        strict=state is ContestState.WON and seen.log_strict >= -math.log(rule.alpha),
        environment=environment, log_win=seen.log_win, log_strict=seen.log_strict, log_not_worse=seen.log_not_worse,
        log_futile=seen.log_futile, log_regressed=seen.log_regressed,
    )


def stops(verdicts: Iterable[ContestVerdict]) -> bool:
    """Whether a challenger's run is over: it has won against all opponents, or cannot win against one.

    The stop rule of the evaluation worker, over one verdict an opponent. Without opponents it never stops early.
    """
    states = {verdict.state for verdict in verdicts}
    return bool(states) and (states == {ContestState.WON} or not states <= {ContestState.WON, ContestState.UNDECIDED})


def _partial(logs: Units) -> Units:
    """log(½·mean_e E_e + ½·Π_e (1 + E_e)/2) by row of (pairs, environments): strong where one gains much, and where all gain a little."""
    product = log_half_one_plus_units(logs).sum(axis=1)
    return log_mean_units(np.stack([log_mean_units(logs), product], axis=1))


def _uncovered(counts: Counts, environments: Sequence[str], rules: Sequence[ContestRule]) -> list[str | None]:
    """By pair the environment with the lowest share of results if that share is under the floor."""
    shape = (len(rules), len(environments))
    observed, tasks = counts.observed.reshape(shape), counts.tasks.reshape(shape)
    shares = np.where(tasks > 0, observed / np.maximum(tasks, 1), 1.0)
    lowest = shares.argmin(axis=1)
    found = zip(lowest.tolist(), shares.min(axis=1).tolist(), rules, strict=True)
    return [environments[at] if share < rule.coverage_floor else None for at, share, rule in found]
