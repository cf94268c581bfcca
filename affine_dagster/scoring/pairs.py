"""The evidence and the verdicts of an epoch: every planned challenger against whom it must beat.

What must not go in: the verdict itself (``contest.py``) and who enters (``frontier.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from affine_dagster.scoring.contest import ContestRule, ContestState, ContestVerdict, judge_all
from affine_dagster.scoring.counts import Counts
from affine_dagster.scoring.evidence import log_evidence_units
from affine_dagster.scoring.exact_logs import UNIT, Units
from affine_dagster.scoring.histogram import MISSING, Histogram
from affine_dagster.scoring.intervals import difference_intervals
from affine_dagster.scoring.models import by_position
from affine_dagster.scoring.rewards import Runs, checked_rewards, runs_of
from affine_dagster.settings import Settings
from affine_dagster.tables import CONTESTS, EVIDENCE

__all__ = ["Contest", "Earlier", "EpochEvidence", "EpochPairs", "Pair", "epoch_evidence", "judge_epoch"]

Row = Mapping[str, Any]
Pair = tuple[str, str]
"""The weights digests of a challenger and of whom it must beat."""

_LASTING = (ContestState.WON, ContestState.REGRESSED, ContestState.EXPIRED)
"""Verdicts that later tasks of the same pair do not undo: a bound that was crossed once holds (Ville), spent tasks stay spent."""


@dataclass(frozen=True)
class EpochEvidence:
    """The EVIDENCE and CONTESTS rows of one epoch, sorted by key: one pair for each planned challenger and opponent."""

    evidence: pl.DataFrame
    contests: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Contest:
    """Where a pair stands after an epoch: a CONTESTS row."""

    state: str
    reason: str
    environment: str | None
    strict: bool
    tasks: int
    epochs: int
    alpha: float
    discordance: float


@dataclass(frozen=True)
class EpochPairs:
    """The judged pairs of an epoch, in the order of ``contests``.

    ``counts``: their merged histograms, a row a pair and environment. ``logs``: their log e-values in units of 2**-32, of shape
    (pairs, environments, 4).
    """

    environments: tuple[str, ...]
    contests: Mapping[Pair, Contest]
    counts: Counts
    logs: Units


class Earlier(Protocol):
    """What earlier epochs know of the pairs."""

    def contest(self, pair: Pair) -> Contest | None:
        """Where a pair stood; None for a new one."""

    def counts(self, pair: Pair) -> Counts:
        """Its merged histograms, a row an environment, in the order of their names; asked only of a pair that has a contest."""


def epoch_evidence(
    plan: pl.DataFrame, rewards: pl.DataFrame, prior_evidence: pl.DataFrame, prior_contests: pl.DataFrame, settings: Settings, epoch: int
) -> EpochEvidence:
    """Evidence and verdicts of ``epoch`` from its PLAN and REWARDS rows and the EVIDENCE and CONTESTS rows of earlier epochs.

    Prior rows of this epoch or later are ignored: a re-run gives the same. The newest prior row of a pair counts. See
    :func:`judge_epoch`.
    """
    planned = plan.filter((pl.col("epoch") == epoch) & (pl.col("role") == "challenger"))["weights_digest"].unique().to_list()
    names = tuple(sorted(settings.evaluation.environments))
    earlier = _EarlierFrames(prior_evidence, prior_contests, planned, names, epoch)
    return _frames(judge_epoch(plan, rewards, earlier, settings, epoch), settings, epoch)


def judge_epoch(plan: pl.DataFrame, rewards: pl.DataFrame, earlier: Earlier, settings: Settings, epoch: int) -> EpochPairs:
    """The pairs of ``epoch`` from its PLAN and REWARDS rows and from where they stood before.

    Rows of other epochs in ``plan`` and ``rewards`` are ignored. A pair keeps its first alpha and discordance, since bets are fixed
    when a pair starts. A challenger meets its planned opponents, on the tasks as far as it ran, and those challengers of earlier
    position that have won a pair of theirs, on the tasks that both ran (nobody else can be accepted before it in this epoch).
    Raises ``bad_table`` on impossible rewards.
    """
    rows = plan.filter((pl.col("epoch") == epoch) & (pl.col("purpose") == "contest") & pl.col("planned") & (pl.col("role") == "challenger"))
    ran = rewards.filter((pl.col("epoch") == epoch) & (pl.col("purpose") == "contest") & (pl.col("task_epoch") == epoch))
    names = tuple(sorted(settings.evaluation.environments))
    bench = _Bench(runs_of(checked_rewards(ran, names), names), names, settings, earlier)
    challengers = sorted(rows.to_dicts(), key=by_position)
    meetings = [
        _Meeting(row, opponent, None)
        for row in challengers for opponent in sorted(set(row["opponents"]) - {row["weights_digest"]})
    ]
    judged = [bench.judged(meetings)]
    winners = {pair[0] for pair, contest in judged[0].contests.items() if contest.state == ContestState.WON}
    for at, row in enumerate(challengers):
        if row["weights_digest"] in winners:
            after = [later for later in challengers[at + 1 :] if row["weights_digest"] not in later["opponents"]]
            judged.append(bench.judged([_Meeting(later, row["weights_digest"], row) for later in after]))
            winners |= {pair[0] for pair, contest in judged[-1].contests.items() if contest.state == ContestState.WON}
    contests = {pair: contest for one in judged for pair, contest in one.contests.items()}
    return EpochPairs(names, contests, Counts.stacked([one.counts for one in judged]), np.concatenate([one.logs for one in judged]))


@dataclass(frozen=True)
class _Meeting:
    """A challenger's PLAN row and an incumbent, or a ``rival``: another challenger's row, which may have stopped before it."""

    row: Row
    incumbent: str
    rival: Row | None

    @property
    def pair(self) -> Pair:
        return self.row["weights_digest"], self.incumbent


@dataclass(frozen=True)
class _Bench:
    """The epoch's quantised rewards with what is known of earlier epochs."""

    runs: Runs
    environments: tuple[str, ...]
    settings: Settings
    earlier: Earlier

    def judged(self, meetings: Sequence[_Meeting]) -> EpochPairs:
        """These pairs, all at once."""
        width = len(self.environments)
        before = [self.earlier.contest(one.pair) for one in meetings]
        nothing = Counts.empty(width)
        known = [nothing if contest is None else self.earlier.counts(one.pair) for one, contest in zip(meetings, before, strict=True)]
        fresh = self._fresh(meetings)
        merged = fresh + Counts.stacked(known)
        rules = [self._rule(one, contest) for one, contest in zip(meetings, before, strict=True)]
        shape = (len(meetings), width)
        ran = (fresh.tasks.reshape(shape).sum(axis=1) > 0).tolist()
        epochs = [(0 if contest is None else contest.epochs) + now for contest, now in zip(before, ran, strict=True)]
        tasks = merged.tasks.reshape(shape).min(axis=1).tolist()
        logs = log_evidence_units(merged, [stakes for rule in rules for stakes in [rule.stakes] * width])
        verdicts = judge_all(self.environments, merged, logs, rules, tasks, epochs)
        contests = {one.pair: _after(verdicts[at], before[at], rules[at], tasks[at], epochs[at]) for at, one in enumerate(meetings)}
        return EpochPairs(self.environments, contests, merged, logs.reshape(*shape, 4))

    def _rule(self, meeting: _Meeting, before: Contest | None) -> ContestRule:
        alpha, discordance = (meeting.row["alpha"], meeting.row["discordance"]) if before is None else (before.alpha, before.discordance)
        if (alpha, discordance) not in self._rules:
            made = ContestRule.of(self.settings.scoring, self.settings.evaluation, alpha, discordance)
            self._rules[alpha, discordance] = made
        return self._rules[alpha, discordance]

    @cached_property
    def _rules(self) -> dict[tuple[float, float], ContestRule]:
        """By alpha and discordance: most pairs of an epoch share theirs."""
        return {}

    def _fresh(self, meetings: Sequence[_Meeting]) -> Counts:
        """A row a pair and environment, this epoch's differences: from the challenger's first task to its last, or to the rival's."""
        width, runs = len(self.environments), self.runs
        mine = np.array([runs.place(one.row["weights_digest"]) for one in meetings], dtype=np.int64)
        theirs = np.array([runs.place(one.incumbent) for one in meetings], dtype=np.int64)
        rival = np.array([one.rival is not None for one in meetings], dtype=bool)
        starts = np.array([_first_task(one) for one in meetings], dtype=np.int64)
        stops = np.where(rival[:, None], np.minimum(runs.sizes[mine], runs.sizes[theirs]), runs.sizes[mine])
        stops = np.where(runs.sizes[mine] > 0, stops, 0)
        task = np.arange(runs.steps.shape[2])
        counted = (task >= starts[:, None, None]) & (task < stops[:, :, None])
        pair, environment, at = np.nonzero(counted)
        ours, others = runs.steps[mine[pair], environment, at], runs.steps[theirs[pair], environment, at]
        values = np.where((ours == MISSING) | (others == MISSING), MISSING, ours - others).astype(np.int64)
        return Counts.of_values(pair * width + environment, values, len(meetings) * width)


def _first_task(meeting: _Meeting) -> int:
    first = int(meeting.row["first_task"])
    return first if meeting.rival is None else max(first, int(meeting.rival["first_task"]))


def _after(verdict: ContestVerdict, before: Contest | None, rule: ContestRule, tasks: int, epochs: int) -> Contest:
    """Where the pair stands: an earlier lasting verdict stays; that of a won pair may still become strict."""
    state, reason, environment, strict = str(verdict.state), verdict.reason, verdict.environment, verdict.strict
    if before is not None and before.state in _LASTING:
        strict = before.strict or (before.state == ContestState.WON and verdict.strict)
        state, reason, environment = before.state, before.reason, before.environment
    return Contest(state, reason, environment, strict, tasks, epochs, rule.alpha, rule.discordance)


_STANDING = tuple(Contest.__dataclass_fields__)


# --- frames -------------------------------------------------------------------------------------------------------------------


class _EarlierFrames:
    """What the newest EVIDENCE and CONTESTS rows before an epoch say of the pairs of some challengers."""

    def __init__(
        self, evidence: pl.DataFrame, contests: pl.DataFrame, challengers: Collection[str], names: Sequence[str], epoch: int
    ) -> None:
        self._histograms: dict[Pair, dict[str, Histogram]] = {}
        self._names = names
        for row in _newest(evidence, challengers, epoch, "challenger", "incumbent", "environment"):
            pair = (row["challenger"], row["incumbent"])
            self._histograms.setdefault(pair, {})[row["environment"]] = Histogram.from_rows(row["histogram"], row["missing"])
        self._contests = {
            (row["challenger"], row["incumbent"]): Contest(**{name: row[name] for name in _STANDING})
            for row in _newest(contests, challengers, epoch, "challenger", "incumbent")
        }

    def contest(self, pair: Pair) -> Contest | None:
        """Where a pair stood."""
        return self._contests.get(pair)

    def counts(self, pair: Pair) -> Counts:
        """Its merged histograms."""
        known = self._histograms.get(pair, {})
        return Counts.of_histograms([known.get(name, Histogram()) for name in self._names])


def _newest(frame: pl.DataFrame, challengers: Collection[str], epoch: int, *key: str) -> Iterable[Row]:
    chosen = frame.filter((pl.col("epoch") < epoch) & pl.col("challenger").is_in(list(challengers)))
    return chosen.sort("epoch").unique(list(key), keep="last", maintain_order=True).iter_rows(named=True)


def _frames(pairs: EpochPairs, settings: Settings, epoch: int) -> EpochEvidence:
    keys = [{"epoch": epoch, "challenger": challenger, "incumbent": incumbent} for challenger, incumbent in pairs.contests]
    contests = [
        key | {name: getattr(contest, name) for name in _STANDING} for key, contest in zip(keys, pairs.contests.values(), strict=True)
    ]
    intervals = difference_intervals(pairs.counts, settings.scoring.assay_alpha)
    logs = pairs.logs.reshape(-1, 4) / UNIT
    width = len(pairs.environments)
    evidence = [
        keys[at // width] | _evidence_row(pairs.environments[at % width], one, logs[at])
        | {"lower": float(intervals.lower[at]), "upper": float(intervals.upper[at])}
        for at, one in enumerate(pairs.counts.histograms())
    ]
    return EpochEvidence(EVIDENCE.frame(evidence).sort(EVIDENCE.key), CONTESTS.frame(contests).sort(CONTESTS.key))


def _evidence_row(environment: str, merged: Histogram, logs: npt.NDArray[np.float64]) -> dict[str, Any]:
    names = ("log_e_win", "log_e_not_worse", "log_e_futile", "log_e_regressed")
    return {
        "environment": environment, "tasks": merged.tasks, "missing": merged.missing, "histogram": merged.to_rows(),
        "mean_difference": merged.mean, **dict(zip(names, logs.tolist(), strict=True)),
    }
