"""The verdict on a pair: one function for the evaluation worker's stop rule and for the evidence table.

What must not go in: frames and reading rewards (``pairs.py``), and who may enter the frontier (``frontier.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.bets import fixed_sample_size
from affine_dagster.scoring.evidence import LogEvidence, Stakes, log_evidence, log_mean
from affine_dagster.scoring.histogram import Histogram
from affine_dagster.settings import EvaluationSettings, ScoringSettings

__all__ = ["ContestRule", "ContestState", "ContestVerdict", "judge", "stops"]


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

    @property
    def stakes(self) -> Stakes:
        """What the bets are laid on."""
        return Stakes(self.margin, self.tolerance, self.gain, self.discordance)

    @property
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
    evidence: tuple[tuple[str, LogEvidence], ...]


def judge(evidence: Mapping[str, Histogram], rule: ContestRule, tasks: int, epochs: int) -> ContestVerdict:
    """The verdict on a pair from its merged histograms, one an environment of the subnet (an empty one where nothing ran).

    ``tasks``: tasks used by the pair in the environment that has used fewest (case E20); ``epochs``: epochs it has run,
    the present one only when it is over (a worker in mid-epoch passes ``epochs_before``).
    won: ½·mean_e E_e + ½·Π_e (1 + E_e)/2 ≥ 1/alpha, and min_e E_e(−tau) ≥ 1/alpha_not_worse. strict: min_e E_e ≥ 1/alpha.
    regressed: max_e G_e ≥ 1/alpha_not_worse. futile: min_e F_e ≥ futile_at. Under the coverage floor in any environment
    there is no verdict. Raises ``bad_settings`` without environments. Source: DESIGN section 4.
    """
    if not evidence:
        raise AffineError("bad_settings", "a contest needs at least one environment")
    logs = tuple((name, log_evidence(evidence[name], rule.stakes)) for name in sorted(evidence))
    log_win = _partial([entry.win for _, entry in logs])
    log_strict = min(entry.win for _, entry in logs)
    log_not_worse = min(entry.not_worse for _, entry in logs)
    log_futile = min(entry.futile for _, entry in logs)
    worst, most = max(logs, key=lambda pair: pair[1].regressed)
    not_worse = log_not_worse >= -math.log(rule.alpha_not_worse)
    state, environment = ContestState.UNDECIDED, None
    uncovered = _uncovered(evidence, rule.coverage_floor)
    if uncovered is not None:
        environment = uncovered
    elif log_win >= -math.log(rule.alpha) and not_worse:
        state, environment = ContestState.WON, max(logs, key=lambda pair: pair[1].win)[0]
    elif most.regressed >= -math.log(rule.alpha_not_worse):
        state, environment = ContestState.REGRESSED, worst
    elif log_futile >= math.log(rule.futile_at):
        state = ContestState.FUTILE
    elif tasks >= rule.task_limit or epochs >= rule.max_epochs:
        state = ContestState.EXPIRED
    return ContestVerdict(
        state=state,
        reason=_REASONS[state] if uncovered is None else "low_coverage",
        strict=state is ContestState.WON and log_strict >= -math.log(rule.alpha),
        environment=environment, log_win=log_win, log_strict=log_strict, log_not_worse=log_not_worse,
        log_futile=log_futile, log_regressed=most.regressed, evidence=logs,
    )


def stops(verdicts: Iterable[ContestVerdict]) -> bool:
    """Whether a challenger's run is over: it has won against all opponents, or cannot win against one.

    The stop rule of the evaluation worker, over one verdict an opponent. Without opponents it never stops early.
    """
    states = {verdict.state for verdict in verdicts}
    return bool(states) and (states == {ContestState.WON} or not states <= {ContestState.WON, ContestState.UNDECIDED})


def _partial(logs: list[float]) -> float:
    """log(½·mean_e E_e + ½·Π_e (1 + E_e)/2): strong where one environment gains much, and where all gain a little."""
    product = math.fsum(_log_one_plus(value) - math.log(2) for value in logs)
    return log_mean([log_mean(logs), product])


def _log_one_plus(value: float) -> float:
    """log(1 + exp(value)) without overflow."""
    return value + math.log1p(math.exp(-value)) if value > 0 else math.log1p(math.exp(value))


def _uncovered(evidence: Mapping[str, Histogram], floor: float) -> str | None:
    """The environment with the lowest share of results if that share is under the floor."""
    shares = [(entry.observed / entry.tasks, name) for name, entry in sorted(evidence.items()) if entry.tasks]
    if not shares or min(shares)[0] >= floor:
        return None
    return min(shares)[1]
