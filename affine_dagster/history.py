"""What a rule reads of each epoch, from the tables and the ledger: one reader, for keeping score and for replaying history.

What must not go in: any rule (``scoring/``), and writing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import polars as pl

from affine_dagster.integrity.coverage import breaker_open, fault_findings
from affine_dagster.ledger import Ledger
from affine_dagster.reasons import AffineError
from affine_dagster.scoring.models import ORIGIN_COLUMNS, VERDICT_COLUMNS, Origin, OriginIndex, origin_models, origins_of
from affine_dagster.scoring.rule import EpochInputs
from affine_dagster.scoring.rules.replay import EntrantIndex, PastEpoch, replay, rules_named
from affine_dagster.sealed import EPOCHS_A_FILE
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


_READ: Sequence[tuple[Table, Sequence[str] | None]] = (
    (FINGERPRINTS, ORIGIN_COLUMNS), (KINSHIP, VERDICT_COLUMNS), (PLAN, None), (NEURONS, ("epoch", "uid", "hotkey")),
    (EPOCHS, ("epoch", "boundary_block", "owner_hotkey")),
)
"""What a replay reads of each table: a year of tensors' digests would not fit into memory."""

_NO_PRINTS, _NO_VERDICTS = FINGERPRINTS.empty().select(ORIGIN_COLUMNS), KINSHIP.empty().select(VERDICT_COLUMNS)


def _chunks(epochs: Sequence[int]) -> Iterator[list[int]]:
    """The epochs in the groups that are sealed together."""
    for _, group in itertools.groupby(epochs, key=lambda epoch: epoch // EPOCHS_A_FILE):
        yield list(group)


Item = TypeVar("Item")


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The items in order, each one made in a thread of its own while the one before it is used."""
    waiting = iter(items)
    with ThreadPoolExecutor(max_workers=1) as pool:
        coming = pool.submit(next, waiting, _END)
        while (item := coming.result()) is not _END:
            coming = pool.submit(next, waiting, _END)
            yield item  # type: ignore[misc]


_END = object()


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
        read = {table.name: self.tables.need(table, epoch) for table in (PLAN, EPOCHS, NEURONS)}
        return self._inputs(epoch, read, self.models(epoch) if models is None else models)

    def _inputs(self, epoch: int, read: Mapping[str, pl.DataFrame], models: Mapping[str, Origin]) -> EpochInputs:
        plan, rewards, chain = read[PLAN.name], self.ledger.rewards(epoch), read[EPOCHS.name].row(0, named=True)
        return EpochInputs(
            epoch=epoch,
            boundary_block=int(chain["boundary_block"]),
            plan=plan,
            rewards=rewards,
            assays=self._assays(plan, rewards, epoch),
            models=models,
            registered=frozenset(read[NEURONS.name]["hotkey"]),
            burn_hotkey=self.settings.weights.burn_hotkey or str(chain["owner_hotkey"]),
            withheld=breaker_open(self.faults(plan, rewards, epoch)),
        )

    def past(self, epochs: Sequence[int]) -> Iterator[PastEpoch]:
        """These epochs, in order, each with what was known in it. Raises ``missing_input`` where a table is absent."""
        origins, entrants, chosen = OriginIndex(), EntrantIndex(), frozenset(epochs)
        last = max(epochs, default=-1)
        known = sorted({*self.tables.epochs(FINGERPRINTS), *self.tables.epochs(KINSHIP), *epochs})
        for read in ahead(self._chunk(part) for part in _chunks([epoch for epoch in known if epoch <= last])):
            for epoch, frames in read.items():
                if FINGERPRINTS.name in frames or KINSHIP.name in frames:
                    fingerprints = frames.get(FINGERPRINTS.name, _NO_PRINTS)
                    origins.add(epoch, fingerprints, frames.get(KINSHIP.name, _NO_VERDICTS))
                    entrants.add(fingerprints)
                if epoch in chosen:
                    yield self._past(epoch, frames, origins.at(epoch), entrants)

    def _past(self, epoch: int, frames: Mapping[str, pl.DataFrame], models: Mapping[str, Origin], entrants: EntrantIndex) -> PastEpoch:
        absent = [table.name for table in (PLAN, EPOCHS, NEURONS) if table.name not in frames]
        if absent:
            raise AffineError("missing_input", f"{absent[0]} of epoch {epoch}")
        neurons = frames[NEURONS.name]
        inputs = self._inputs(epoch, frames, models)
        first = neurons.filter(pl.col("uid") == 0)["hotkey"].to_list()
        return PastEpoch(inputs, entrants.present(models, neurons), first[0] if first else inputs.burn_hotkey)

    def _chunk(self, epochs: Sequence[int]) -> dict[int, dict[str, pl.DataFrame]]:
        """What a replay reads of some epochs beside their rewards, by epoch and table."""
        made: dict[int, dict[str, pl.DataFrame]] = {epoch: {} for epoch in epochs}
        for table, columns in _READ:
            for epoch, frame in self.tables.many(table, epochs, columns).items():
                made[epoch][table.name] = frame
        self.ledger.sealed.rewards(epochs[-1])  # read while the epochs before are counted
        return made

    def models(self, epoch: int) -> Mapping[str, Origin]:
        """The origin of each weights digest known at an epoch."""
        prints, verdicts = (self.tables.until(table, epoch, columns=columns) for table, columns in _READ[:2])
        return origins_of(origin_models(prints, verdicts))

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
