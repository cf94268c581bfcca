"""The look at a challenger's evidence between two batches: whether its run is over.

It joins what the contest knew before (the job), the opponents' rows of this epoch (the ledger; they ran first) and the
challenger's own. The verdict itself is scoring's (``scoring/contest.py``), the same that the evidence table gets. What must not
go in: running anything, and any threshold.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from affine_dagster.evaluation.job import Contest, Opponent
from affine_dagster.evaluation.tasksets import CONTEST
from affine_dagster.scoring.contest import ContestState, ContestVerdict, judge, stops
from affine_dagster.scoring.histogram import Histogram

__all__ = ["ContestLook"]


class ContestLook:
    """The evidence of one challenger in one epoch, as its batches come in.

    ``rewards``: the epoch's REWARDS of the opponents and of what the challenger has already done.
    """

    def __init__(self, contest: Contest, challenger: str, epoch: int, rewards: pl.DataFrame) -> None:
        self._contest = contest
        self._challenger = challenger
        mine = rewards.filter((pl.col("purpose") == CONTEST) & (pl.col("task_epoch") == epoch))
        self._opponents = {opponent.weights_digest: _by_environment(mine, opponent.weights_digest) for opponent in contest.opponents}
        self._own: dict[str, dict[int, float | None]] = {
            environment: dict(results) for environment, results in _by_environment(mine, challenger).items()
        }

    def add(self, rewards: pl.DataFrame) -> None:
        """Take in results of the challenger (REWARDS of a batch, all its attempts so far)."""
        for environment, results in _by_environment(rewards, self._challenger).items():
            self._own.setdefault(environment, {}).update(results)

    def verdicts(self, stop: int) -> list[ContestVerdict]:
        """The verdict on each pair from the tasks of index below ``stop``, which a resumed run sees at the same place."""
        return [self._verdict(opponent, stop) for opponent in self._contest.opponents]

    def is_over(self, stop: int) -> bool:
        """Whether the evidence decides: won against all opponents (now or in an earlier epoch), or an end against one."""
        return stops(self.verdicts(stop))

    def _verdict(self, opponent: Opponent, stop: int) -> ContestVerdict:
        before = dict(opponent.histograms)
        theirs = self._opponents[opponent.weights_digest]
        evidence: dict[str, Histogram] = {}
        for environment in self._contest.environments:
            own = self._own.get(environment, {})
            other = theirs.get(environment, {})
            indices = sorted(index for index in own if index < stop)
            fresh = Histogram.of_differences([own[index] for index in indices], [other.get(index) for index in indices])
            evidence[environment] = before.get(environment, Histogram()) + fresh
        tasks = min(histogram.tasks for histogram in evidence.values())
        verdict = judge(evidence, opponent.rule, tasks, opponent.epochs)
        return replace(verdict, state=ContestState.WON) if opponent.won else verdict


def _by_environment(rewards: pl.DataFrame, weights_digest: str) -> dict[str, dict[int, float | None]]:
    found: dict[str, dict[int, float | None]] = {}
    chosen = rewards.filter(pl.col("weights_digest") == weights_digest)
    for environment, index, reward in chosen.select("environment", "index", "reward").iter_rows():
        found.setdefault(environment, {})[index] = reward
    return found
