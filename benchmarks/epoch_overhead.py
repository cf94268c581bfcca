"""Seconds an epoch of 50 submissions takes outside the models themselves, beside an epoch of none, and a worker's start-up.

A real chain file with 50 registered miners, 50 distinct repositories that pass the real admission, and the real Dagster job run
by its sensor; only the evaluation's answers are drawn instead of generated (``_no_models.py``). What must not go in: the speed
of a model (``league_cost``).
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dagster import DagsterInstance

from affine_dagster.cli.runs import Ticker
from affine_dagster.cli.serve import dagster_environment, prepare_home
from affine_dagster.league.world import World, play_epoch
from affine_dagster.resources import SettingsResource
from affine_dagster.store import Store, Tables
from affine_dagster.tables import ADMISSIONS, CONTESTS
from benchmarks._crowd import crowd_world
from benchmarks._figures import Figure, Spent, cpu_seconds, median_of, spent, variables
from benchmarks._no_models import Drawn, DrawnResource
from benchmarks._start_up import start_up

__all__ = ["run"]

MINERS = 50
REPEATS = 3
SEED = 20261
EPOCH = 1
"""The epoch that is measured. The one before it has the genesis model's assay and every first-time cost."""

NOTE = (
    "default settings, four environments; rows drawn by a double of EvalJobs that runs no model, in this process through the real "
    "Ledger; its time is left out"
)


@dataclass
class _Epoch:
    """One measured run of the epoch's job."""

    whole: Spent
    drawn: Drawn
    admitted: int = 0
    pairs: int = 0
    steps: Mapping[str, float] = field(default_factory=dict)

    @property
    def wall(self) -> float:
        return self.whole.wall - self.drawn.wall

    @property
    def cpu(self) -> float:
        return self.whole.cpu - self.drawn.cpu


class _StepClock:
    """Processor seconds from one step's end to the next one's; the first has the run's start, ``end`` the run's end."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}
        self._last = 0.0

    def begin(self) -> None:
        """A run is about to be asked for."""
        self.steps = {}
        self._last = cpu_seconds()

    def heard(self, text: str) -> None:
        """Take a line of ``Ticker``: two spaces, the step's name, a colon and its seconds when a step has succeeded."""
        if text.startswith("  ") and not text.startswith("   ") and text.endswith(" s"):
            self._take(text.strip().partition(":")[0])

    def end(self) -> None:
        """The run is over."""
        self._take("after the last step")

    def _take(self, name: str) -> None:
        now = cpu_seconds()
        self.steps[name] = self.steps.get(name, 0.0) + now - self._last
        self._last = now


def run() -> list[Figure]:
    """Totals, a submission's share, the ledger's part, each asset's part, and a worker's start-up."""
    full, empty = [], []
    for repeat in range(REPEATS):
        full.append(_epoch(MINERS, SEED + 1000 * repeat))
        empty.append(_epoch(0, SEED + 1000 * repeat))
    if any(one.admitted != MINERS for one in full):
        raise RuntimeError(f"admitted {[one.admitted for one in full]} of {MINERS}: the figure would not be what it says")
    drawn = full[0].drawn
    figures = [
        _both(f"an epoch of {MINERS} submissions outside the models, wall", [one.wall for one in full], [one.wall for one in empty], NOTE),
        _both(f"an epoch of {MINERS} submissions outside the models, CPU", [one.cpu for one in full], [one.cpu for one in empty]),
        median_of("the same a submission, CPU", [(a.cpu - b.cpu) / MINERS for a, b in zip(full, empty, strict=True)], "s"),
        median_of(
            "left out: the double's own time (drawing, ledger writes, looks), CPU", [one.drawn.cpu for one in full], "s",
            note=f"{drawn.models} models, {drawn.batches} files, {drawn.rows:,} rows and {full[0].pairs} pairs in the first repeat",
        ),
    ]
    return figures + _by_asset(full, empty) + start_up()


def _both(name: str, full: Sequence[float], empty: Sequence[float], note: str = "") -> Figure:
    return median_of(name, full, "s", other=empty, against="an epoch of 0 submissions", note=note)


def _by_asset(full: Sequence[_Epoch], empty: Sequence[_Epoch]) -> list[Figure]:
    order = sorted(full[0].steps, key=lambda name: -statistics.median(one.steps[name] for one in full))
    return [
        _both(f"  of it {name}, CPU", [one.steps[name] for one in full], [one.steps.get(name, 0.0) for one in empty]) for name in order
    ]


def _epoch(miners: int, seed: int) -> _Epoch:
    with tempfile.TemporaryDirectory() as folder:
        world = crowd_world(Path(folder), miners, epoch=EPOCH, seed=seed)
        prepare_home(world)
        with variables(dagster_environment(world)):
            return _measured(world)


def _measured(world: World) -> _Epoch:
    from affine_dagster.definitions import EPOCH_JOB, build_defs

    path = str(world.settings_path)
    definitions = build_defs(path, evaluation=DrawnResource(settings=SettingsResource(path=path)))
    with DagsterInstance.get() as instance:
        clock = _StepClock()
        ticker = Ticker(definitions, instance, said=clock.heard)
        for epoch in range(EPOCH + 1):
            play_epoch(world, epoch)
            DrawnResource.drawn = Drawn()
            clock.begin()
            with spent() as whole:
                results = ticker.tick("epochs", EPOCH_JOB)
            if [result.success for result in results] != [True]:
                raise RuntimeError(f"the run of epoch {epoch} did not succeed once")
            clock.end()
    drawn = DrawnResource.drawn
    steps = {**clock.steps, "evaluations": clock.steps["evaluations"] - drawn.cpu}
    tables, scorer = Tables(Store(world.settings().store.url)), SettingsResource(path=path).scorer()
    admitted = int((tables.need(ADMISSIONS, EPOCH)["state"] == "admitted").sum())
    return _Epoch(whole, drawn, admitted, tables.need(CONTESTS, EPOCH, scorer).height, steps)
