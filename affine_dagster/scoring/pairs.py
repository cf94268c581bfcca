"""The evidence and the verdicts of an epoch: every planned challenger against whom it must beat.

What must not go in: the verdict itself (``contest.py``) and who enters (``frontier.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from affine_dagster.scoring.contest import ContestRule, ContestState, ContestVerdict, judge
from affine_dagster.scoring.histogram import Histogram, Steps
from affine_dagster.scoring.intervals import difference_interval
from affine_dagster.scoring.models import by_position
from affine_dagster.scoring.rewards import checked_rewards, part, task_steps
from affine_dagster.settings import Settings
from affine_dagster.tables import CONTESTS, EVIDENCE

__all__ = ["EpochEvidence", "epoch_evidence"]

Row = Mapping[str, Any]
_LASTING = (ContestState.WON, ContestState.REGRESSED, ContestState.EXPIRED)
"""Verdicts that later tasks of the same pair do not undo: a bound that was crossed once holds (Ville), spent tasks stay spent."""


@dataclass(frozen=True)
class EpochEvidence:
    """The EVIDENCE and CONTESTS rows of one epoch, sorted by key: one pair for each planned challenger and opponent."""

    evidence: pl.DataFrame
    contests: pl.DataFrame


@dataclass(frozen=True)
class _Before:
    """What earlier epochs know of the pairs: the newest rows."""

    evidence: Mapping[tuple[str, str, str], Row]
    contests: Mapping[tuple[str, str], Row]

    @classmethod
    def of(cls, evidence: pl.DataFrame, contests: pl.DataFrame, epoch: int) -> _Before:
        merged = _newest(evidence, epoch, "challenger", "incumbent", "environment")
        verdicts = _newest(contests, epoch, "challenger", "incumbent")
        return cls(
            {(row["challenger"], row["incumbent"], row["environment"]): row for row in merged.iter_rows(named=True)},
            {(row["challenger"], row["incumbent"]): row for row in verdicts.iter_rows(named=True)},
        )

    def histogram(self, challenger: str, incumbent: str, environment: str) -> Histogram:
        row = self.evidence.get((challenger, incumbent, environment))
        return Histogram() if row is None else Histogram.from_rows(row["histogram"], row["missing"])


@dataclass(frozen=True)
class _Pair:
    """A judged pair with the rows it gives."""

    contest: dict[str, Any]
    evidence: tuple[dict[str, Any], ...]

    @property
    def won(self) -> bool:
        return bool(self.contest["state"] == ContestState.WON)


def epoch_evidence(
    plan: pl.DataFrame, rewards: pl.DataFrame, prior_evidence: pl.DataFrame, prior_contests: pl.DataFrame, settings: Settings, epoch: int
) -> EpochEvidence:
    """Evidence and verdicts of ``epoch`` from its PLAN and REWARDS rows and the EVIDENCE and CONTESTS rows of earlier epochs.

    Rows of other epochs in ``plan`` and ``rewards`` are ignored, and so are prior rows of this epoch or later: a re-run gives
    the same. The newest prior row of a pair counts, with its alpha and discordance, since bets are fixed when a pair starts.
    A challenger meets its planned opponents, on the tasks as far as it ran, and those challengers of earlier position that
    have won a pair of theirs, on the tasks that both ran (nobody else can be accepted before it in this epoch).
    Raises ``bad_table`` on impossible rewards.
    """
    rows = plan.filter((pl.col("epoch") == epoch) & (pl.col("purpose") == "contest") & pl.col("planned"))
    ran = rewards.filter((pl.col("epoch") == epoch) & (pl.col("purpose") == "contest") & (pl.col("task_epoch") == epoch))
    judge_ = _Judge(
        task_steps(checked_rewards(ran, settings.evaluation.environments)), settings,
        _Before.of(prior_evidence, prior_contests, epoch), epoch,
    )
    challengers = sorted(rows.filter(pl.col("role") == "challenger").to_dicts(), key=by_position)
    pairs = list(_pairs(challengers, judge_))
    return EpochEvidence(
        EVIDENCE.frame(row for pair in pairs for row in pair.evidence).sort(EVIDENCE.key),
        CONTESTS.frame(pair.contest for pair in pairs).sort(CONTESTS.key),
    )


def _newest(frame: pl.DataFrame, epoch: int, *key: str) -> pl.DataFrame:
    return frame.filter(pl.col("epoch") < epoch).sort("epoch").unique(list(key), keep="last", maintain_order=True)


def _pairs(challengers: Sequence[Row], judge_: _Judge) -> Iterator[_Pair]:
    ahead: list[Row] = []
    for row in challengers:
        opponents = sorted(set(row["opponents"]) - {row["weights_digest"]})
        made = [judge_.pair(row, opponent, None) for opponent in opponents]
        made += [judge_.pair(row, other["weights_digest"], other) for other in ahead if other["weights_digest"] not in opponents]
        if any(pair.won for pair in made):
            ahead.append(row)
        yield from made


@dataclass(frozen=True)
class _Judge:
    """The epoch's quantised rewards with what is known of earlier epochs."""

    runs: Mapping[tuple[str, str], Steps]
    settings: Settings
    before: _Before
    epoch: int

    def pair(self, row: Row, incumbent: str, rival: Row | None) -> _Pair:
        """The pair of a challenger's PLAN row and an incumbent, or a ``rival``: another challenger, which may have stopped before."""
        challenger = row["weights_digest"]
        names = self.settings.evaluation.environments
        fresh = {name: self._fresh(row, incumbent, rival, name) for name in names}
        merged = {name: self.before.histogram(challenger, incumbent, name) + fresh[name] for name in names}
        prior = self.before.contests.get((challenger, incumbent))
        alpha, discordance = (row["alpha"], row["discordance"]) if prior is None else (prior["alpha"], prior["discordance"])
        rule = ContestRule.of(self.settings.scoring, self.settings.evaluation, alpha, discordance)
        epochs = (0 if prior is None else int(prior["epochs"])) + any(entry.tasks for entry in fresh.values())
        tasks = min(entry.tasks for entry in merged.values())
        verdict = judge(merged, rule, tasks, epochs)
        key = {"epoch": self.epoch, "challenger": challenger, "incumbent": incumbent}
        contest = key | _standing(verdict, prior) | {"tasks": tasks, "epochs": epochs, "alpha": alpha, "discordance": discordance}
        return _Pair(contest, tuple(key | self._evidence(name, merged[name], verdict) for name in sorted(names)))

    def _fresh(self, row: Row, incumbent: str, rival: Row | None, environment: str) -> Histogram:
        mine, theirs = (row["weights_digest"], environment), (incumbent, environment)
        if mine not in self.runs:
            return Histogram()
        start, stop = int(row["first_task"]), self.runs[mine].size
        if rival is not None:
            start = max(start, int(rival["first_task"]))
            stop = min(stop, self.runs[theirs].size if theirs in self.runs else 0)
        return Histogram.of_pairs(part(self.runs, mine, start, stop), part(self.runs, theirs, start, stop))

    def _evidence(self, environment: str, merged: Histogram, verdict: ContestVerdict) -> dict[str, Any]:
        logs = dict(verdict.evidence)[environment]
        interval = difference_interval(merged, self.settings.scoring.assay_alpha)
        return {
            "environment": environment, "tasks": merged.tasks, "missing": merged.missing, "histogram": merged.to_rows(),
            "mean_difference": merged.mean, "lower": interval.lower, "upper": interval.upper,
            "log_e_win": logs.win, "log_e_not_worse": logs.not_worse, "log_e_futile": logs.futile, "log_e_regressed": logs.regressed,
        }


def _standing(verdict: ContestVerdict, prior: Row | None) -> dict[str, Any]:
    """The verdict to record: an earlier lasting one stands; that of a won pair may still become strict."""
    if prior is not None and prior["state"] in _LASTING:
        kept = {name: prior[name] for name in ("state", "reason", "environment")}
        return kept | {"strict": prior["strict"] or (prior["state"] == ContestState.WON and verdict.strict)}
    return {"state": str(verdict.state), "reason": verdict.reason, "environment": verdict.environment, "strict": verdict.strict}
