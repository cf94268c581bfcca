"""Keeping score: one function a scoring asset, which reads its tables, calls the pure rooms and writes its tables.

A run over one epoch, a re-scoring of history and a test call the same functions; none needs Dagster. What must not go in:
arithmetic (``scoring/``), and how things are shown (``assets/``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from affine_dagster.evaluation.inputs import prior_epoch
from affine_dagster.history import History
from affine_dagster.integrity.coverage import breaker_open, coverage_findings, fresh_gap_findings
from affine_dagster.integrity.owners import owner_findings
from affine_dagster.leaderboard.comparison import side_by_side
from affine_dagster.leaderboard.names import known_names
from affine_dagster.leaderboard.snapshot import LeaderboardSnapshot, build
from affine_dagster.leaderboard.standings import StandingInputs, standings
from affine_dagster.ledger import Ledger
from affine_dagster.reasons import AffineError
from affine_dagster.scoring.credits import epoch_credits
from affine_dagster.scoring.rule import PriorState, counted_evidence, counted_frontier
from affine_dagster.scoring.scores import epoch_scores
from affine_dagster.scoring.weights import weight_vector
from affine_dagster.settings import Settings, scorer_version
from affine_dagster.store import Tables
from affine_dagster.tables import (
    ADMISSIONS,
    CONTESTS,
    CREDITS,
    EPOCHS,
    EVIDENCE,
    FINGERPRINT_FAILURES,
    FINGERPRINTS,
    FRONTIER,
    INTEGRITY,
    KINSHIP,
    NEURONS,
    PLAN,
    SCORES,
    STANDINGS,
    SUBMISSIONS,
    SWAPS,
    WEIGHTS,
)

__all__ = ["FRESH_GAP_EPOCHS", "ScoreKeeper"]

FRESH_GAP_EPOCHS = 5
"""Earlier epochs whose rewards are compared with fresh ones: enough to see a memorised task set, and bounded."""


@dataclass(frozen=True)
class ScoreKeeper:
    """The books of one scorer version."""

    tables: Tables
    ledger: Ledger
    settings: Settings

    @cached_property
    def history(self) -> History:
        """What a rule reads."""
        return History(self.tables, self.ledger, self.settings)

    @cached_property
    def scorer(self) -> str:
        """The version under which rows are kept."""
        return scorer_version(self.settings)

    def keep_integrity(self, epoch: int) -> pl.DataFrame:
        """Write and return the INTEGRITY rows of an epoch."""
        rewards = self.ledger.rewards(epoch)
        earlier = [known for known in self.tables.epochs(PLAN) if known < epoch][-FRESH_GAP_EPOCHS:]
        evaluation = self.settings.evaluation
        findings = [
            owner_findings(epoch, self.tables.until(SUBMISSIONS, epoch), self.tables.until(SWAPS, epoch)),
            coverage_findings(epoch, rewards, evaluation),
            self.history.faults(self.tables.need(PLAN, epoch), rewards, epoch),
            fresh_gap_findings(epoch, rewards, pl.concat([rewards.clear(), *(self.ledger.rewards(known) for known in earlier)])),
        ]
        frame = pl.concat(findings)
        self.tables.write(INTEGRITY, epoch, frame)
        return frame

    def keep_evidence(self, epoch: int) -> pl.DataFrame:
        """Close the epoch's ledger and seal what is old enough; write EVIDENCE, CONTESTS and SCORES of the epoch; return the CONTESTS rows.

        Raises ``scorer_without_history`` where this scorer has not scored the epoch before: its evidence would begin in the middle.
        """
        self._check_history(epoch)
        self.ledger.close_epoch(epoch)
        self.ledger.seal_before(epoch)
        inputs = self.history.inputs(epoch)
        prior = PriorState(
            self.tables.until(EVIDENCE, epoch, self.scorer, inclusive=False),
            self.tables.until(CONTESTS, epoch, self.scorer, inclusive=False),
            None,
        )
        made = counted_evidence(prior, inputs, self.settings)
        self.tables.write(EVIDENCE, epoch, made.evidence, self.scorer)
        self.tables.write(SCORES, epoch, epoch_scores(inputs.rewards, self.settings, epoch), self.scorer)
        self.tables.write(CONTESTS, epoch, made.contests, self.scorer)
        return made.contests

    def keep_frontier(self, epoch: int) -> pl.DataFrame:
        """Write and return the FRONTIER of an epoch."""
        before = prior_epoch(self.tables, epoch, self.scorer)
        prior = None if before is None else self.tables.need(FRONTIER, before, self.scorer)
        contests = self.tables.need(CONTESTS, epoch, self.scorer)
        frame = counted_frontier(prior, contests, self.history.inputs(epoch), self.settings)
        self.tables.write(FRONTIER, epoch, frame, self.scorer)
        return frame

    def keep_credits(self, epoch: int) -> pl.DataFrame:
        """Write and return the CREDITS of an epoch."""
        frame = epoch_credits(
            self.tables.need(FRONTIER, epoch, self.scorer),
            self._registered(epoch),
            epoch=epoch,
            boundary_block=self._boundary(epoch),
            scoring=self.settings.scoring,
        )
        self.tables.write(CREDITS, epoch, frame, self.scorer)
        return frame

    def keep_weights(self, epoch: int) -> pl.DataFrame:
        """Write and return the WEIGHTS of an epoch."""
        chain = self.tables.need(EPOCHS, epoch).row(0, named=True)
        frame = weight_vector(
            self.tables.need(CREDITS, epoch, self.scorer),
            self._registered(epoch),
            self.settings.weights.burn_hotkey or str(chain["owner_hotkey"]),
            epoch=epoch,
            width=len(self.settings.evaluation.environments),
            scoring=self.settings.scoring,
            rule=self.settings.scoring.rule,
        )
        self.tables.write(WEIGHTS, epoch, frame, self.scorer)
        return frame

    def keep_standings(self, epoch: int) -> LeaderboardSnapshot:
        """Write the STANDINGS of an epoch and return its snapshot."""
        before = self.tables.newest_before(STANDINGS, epoch, self.scorer)
        inputs = StandingInputs(
            epoch=epoch,
            submissions=self.tables.until(SUBMISSIONS, epoch),
            admissions=self.tables.until(ADMISSIONS, epoch),
            fingerprints=self.tables.until(FINGERPRINTS, epoch),
            failures=self.tables.until(FINGERPRINT_FAILURES, epoch),
            kinship=self.tables.until(KINSHIP, epoch),
            plan=self.tables.need(PLAN, epoch),
            contests=self.tables.need(CONTESTS, epoch, self.scorer),
            frontier=self.tables.need(FRONTIER, epoch, self.scorer),
            credits=self.tables.need(CREDITS, epoch, self.scorer),
            weights=self.tables.need(WEIGHTS, epoch, self.scorer),
            prior=STANDINGS.empty() if before is None else self.tables.need(STANDINGS, before, self.scorer),
            withheld=breaker_open(self.tables.need(INTEGRITY, epoch)),
        )
        made = standings(inputs)
        self.tables.write(STANDINGS, epoch, made, self.scorer)
        return build(
            epoch=epoch,
            boundary_block=self._boundary(epoch),
            scorer=self.scorer,
            rule=self.settings.scoring.rule,
            environments=self.settings.evaluation.environments,
            standings=made,
            scores=self.tables.until(SCORES, epoch, self.scorer),
            weights=inputs.weights,
        )

    def rescore(self, epoch: int) -> None:
        """Everything from evidence to standings of an epoch, whose predecessor has been scored."""
        self.keep_evidence(epoch)
        self.keep_frontier(epoch)
        self.keep_credits(epoch)
        self.keep_weights(epoch)
        self.keep_standings(epoch)

    def standings(self, epoch: int) -> pl.DataFrame:
        """The STANDINGS of an epoch."""
        return self.tables.need(STANDINGS, epoch, self.scorer)

    def other_scorings(self, epoch: int) -> pl.DataFrame:
        """Standings of an epoch under this scorer beside those of every other scorer that has some: see :func:`side_by_side`."""
        others = [scorer for scorer in self.tables.scorers(STANDINGS) if scorer != self.scorer]
        found = {scorer: self.tables.read(STANDINGS, epoch, scorer) for scorer in [*others, self.scorer]}
        return side_by_side({scorer: frame for scorer, frame in found.items() if frame is not None})

    def paid_models(self, epoch: int) -> Mapping[str, str]:
        """The names of each hotkey's accepted models at an epoch, in commit order."""
        names = known_names(self.tables, epoch)
        found: dict[str, list[str]] = {}
        for row in self.tables.need(CREDITS, epoch, self.scorer).sort("block", "extrinsic_index").iter_rows(named=True):
            found.setdefault(row["hotkey"], []).append(names.get(row["submission_id"], row["submission_id"]))
        return {hotkey: ", ".join(models) for hotkey, models in found.items()}

    def payouts(self, epochs: Sequence[int]) -> pl.DataFrame:
        """Who was paid over these epochs: columns ``hotkey``, ``epochs`` with weight, ``mean_share``; the largest first."""
        rows = pl.concat([self.tables.need(WEIGHTS, epoch, self.scorer) for epoch in epochs]).filter(pl.col("weight") > 0)
        return (
            rows.group_by("hotkey")
            .agg(epochs=pl.col("epoch").n_unique(), mean_share=pl.col("weight").sum() / (65_535 * len(epochs)))
            .sort(["mean_share", "hotkey"], descending=[True, False])
        )

    def _check_history(self, epoch: int) -> None:
        before = self.tables.newest_before(PLAN, epoch)
        if before is not None and self.tables.read(CONTESTS, before, self.scorer) is None:
            raise AffineError("scorer_without_history", f"scorer {self.scorer} has no evidence of epoch {before}")

    def _registered(self, epoch: int) -> frozenset[str]:
        return frozenset(self.tables.need(NEURONS, epoch)["hotkey"])

    def _boundary(self, epoch: int) -> int:
        return int(self.tables.need(EPOCHS, epoch).row(0, named=True)["boundary_block"])
