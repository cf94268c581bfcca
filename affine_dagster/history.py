"""What a rule reads of each epoch, from the tables and the ledger: one reader, for keeping score and for replaying history.

What must not go in: any rule (``scoring/``), and writing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from affine_dagster.integrity.coverage import breaker_open, fault_findings
from affine_dagster.ledger import Ledger
from affine_dagster.reasons import AffineError
from affine_dagster.scoring.models import Origin, OriginIndex, origin_models, origins_of
from affine_dagster.scoring.rule import EpochInputs
from affine_dagster.scoring.rules.replay import EntrantIndex, PastEpoch, replay, rules_named
from affine_dagster.settings import Settings
from affine_dagster.store import Store, Tables
from affine_dagster.tables import EPOCHS, FINGERPRINTS, KINSHIP, NEURONS, PLAN, REPLAYED, Table

__all__ = ["History", "epoch_range", "replayed"]


def epoch_range(text: str, known: Sequence[int]) -> list[int]:
    """The epochs that ``A..B``, ``A..``, ``..B`` or ``all`` names, among those that are known, in order.

    Raises ``bad_settings`` for another form, and where it names none.
    """
    first, dots, last = ("", "..", "") if text == "all" else text.partition("..")
    if dots != ".." or not all(part == "" or (part.isascii() and part.isdigit()) for part in (first, last)):
        raise AffineError("bad_settings", f"epochs: {text!r} is not A..B, A.., ..B or all")
    chosen = [epoch for epoch in sorted(known) if (not first or epoch >= int(first)) and (not last or epoch <= int(last))]
    if not chosen:
        there = f"{min(known)}..{max(known)}" if known else "none"
        raise AffineError("bad_settings", f"epochs: {text} names none of those that have a plan: {there}")
    return chosen


@dataclass(frozen=True)
class History:
    """Reads one store, under one version of the settings."""

    tables: Tables
    ledger: Ledger
    settings: Settings

    @property
    def epochs(self) -> list[int]:
        """The epochs that have a plan, ascending."""
        return sorted(self.tables.epochs(PLAN))

    def inputs(self, epoch: int, models: Mapping[str, Origin] | None = None) -> EpochInputs:
        """What a rule reads of an epoch; ``models``: the origins as known in it, where the caller has them.

        Raises ``missing_input`` where a table is absent.
        """
        plan, rewards = self.tables.need(PLAN, epoch), self.ledger.rewards(epoch)
        chain = self.tables.need(EPOCHS, epoch).row(0, named=True)
        return EpochInputs(
            epoch=epoch,
            boundary_block=int(chain["boundary_block"]),
            plan=plan,
            rewards=rewards,
            assays=self._assays(plan, rewards, epoch),
            models=self.models(epoch) if models is None else models,
            registered=frozenset(self.tables.need(NEURONS, epoch)["hotkey"]),
            burn_hotkey=self.settings.weights.burn_hotkey or str(chain["owner_hotkey"]),
            withheld=breaker_open(self.faults(plan, rewards, epoch)),
        )

    def past(self, epochs: Sequence[int]) -> Iterator[PastEpoch]:
        """These epochs, in order, each with what was known in it. Raises ``missing_input`` where a table is absent."""
        origins, entrants = OriginIndex(), EntrantIndex()
        known = iter(sorted({*self.tables.epochs(FINGERPRINTS), *self.tables.epochs(KINSHIP)}))
        waiting = next(known, None)
        for epoch in epochs:
            while waiting is not None and waiting <= epoch:
                fingerprints = self._or_empty(FINGERPRINTS, waiting)
                origins.add(waiting, fingerprints, self._or_empty(KINSHIP, waiting))
                entrants.add(fingerprints)
                waiting = next(known, None)
            models, neurons = origins.at(epoch), self.tables.need(NEURONS, epoch)
            inputs = self.inputs(epoch, models)
            first = neurons.filter(pl.col("uid") == 0)["hotkey"].to_list()
            yield PastEpoch(inputs, entrants.present(models, neurons), first[0] if first else inputs.burn_hotkey)

    def models(self, epoch: int) -> Mapping[str, Origin]:
        """The origin of each weights digest known at an epoch."""
        return origins_of(origin_models(self.tables.until(FINGERPRINTS, epoch), self.tables.until(KINSHIP, epoch)))

    def _or_empty(self, table: Table, epoch: int) -> pl.DataFrame:
        found = self.tables.read(table, epoch)
        return table.empty() if found is None else found

    def faults(self, plan: pl.DataFrame, rewards: pl.DataFrame, epoch: int) -> pl.DataFrame:
        """The findings on faults alike, from the epoch's PLAN and REWARDS rows."""
        incumbents = plan.filter(pl.col("role") == "incumbent")
        return fault_findings(epoch, rewards, set(incumbents["weights_digest"]), self.settings.evaluation)

    def _assays(self, plan: pl.DataFrame, rewards: pl.DataFrame, epoch: int) -> pl.DataFrame:
        """Rewards of the assays that this epoch's plan measures, whichever epoch they started in."""
        starts = plan.filter(pl.col("purpose") == "assay")["task_epoch"].unique().to_list()
        earlier = [self.ledger.rewards(known) for known in range(min(starts, default=epoch), epoch)]
        return pl.concat([*earlier, rewards]).filter((pl.col("purpose") == "assay") & pl.col("task_epoch").is_in(starts))


def replayed(settings: Settings, rules: Sequence[str], epochs: str) -> pl.DataFrame:
    """REPLAYED rows of these rules over these epochs. Raises ``bad_settings`` for an unknown rule or epoch."""
    store = Store(settings.store.url)
    history = History(Tables(store), Ledger(store), settings)
    chosen, named = epoch_range(epochs, history.epochs), rules_named(rules, settings)
    environments, count = settings.evaluation.environments, settings.evaluation.tasks_per_epoch
    return pl.concat([REPLAYED.empty(), *replay(named, history.past(chosen), environments, count)])
