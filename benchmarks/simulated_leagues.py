"""Seconds for 10,000 leagues of 100 epochs and 50 miners under JAX, beside the same code under NumPy; and what the leagues say.

``AFFINE_LEAGUES`` makes it fewer. What must not go in: another simulation (``league/simulation/``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from affine_dagster.league.simulation.results import Mean, Outcome, outcome_of
from affine_dagster.league.simulation.run import BATCH, Engine, simulated
from affine_dagster.league.simulation.state import League
from affine_dagster.league.simulation.tables import DAY, simulation_settings
from benchmarks._figures import Figure, median_of, share_of

__all__ = ["run"]

LEAGUES, EPOCHS, SEED = 10_000, 100, 20261
PART = 4
"""Both engines are timed side by side on so many batches, twice a round, as often as there are rounds."""

ROUNDS = 5
_PROMISED = simulation_settings().scoring.alpha_daily * EPOCHS / DAY


def run() -> list[Figure]:
    """The whole under JAX; the ratio of the engines on a part of it, whether they agree, and the figures of the whole."""
    leagues = int(os.environ.get("AFFINE_LEAGUES", LEAGUES))
    began = time.perf_counter()
    outcome = outcome_of(_shown(leagues), EPOCHS)
    whole = time.perf_counter() - began
    note = f"{leagues:,} leagues, {EPOCHS} epochs, 50 miners; compiling included"
    figures = [Figure("all leagues under JAX", whole, "s", comparison=300.0, against="bound on 2 cores", note=note)]
    return [*figures, *_engines(), *_figures(outcome)]


def _shown(leagues: int) -> list[League]:
    made = []
    for batch in simulated(leagues, EPOCHS, SEED, "jax"):
        made.append(batch)
        if len(made) % 20 == 0:
            print(f"  played {min(len(made) * BATCH, leagues):,} of {leagues:,} leagues", flush=True)
    return made


def _engines() -> list[Figure]:
    """Seconds a batch, in turn, so that both meet the same machine; the first of each is not counted (it compiles)."""
    taken: dict[tuple[Engine, int], list[float]] = {}
    last: dict[Engine, list[League]] = {}
    for turn in range(ROUNDS + 1):
        for engine in ("jax", "numpy"):
            for workers in (1, 2):
                seconds, last[engine] = _timed(lambda e=engine, w=workers: list(simulated(PART * BATCH, EPOCHS, SEED, e, workers=w)))  # type: ignore[misc]
                if turn:
                    taken.setdefault((engine, workers), []).append(seconds)
    figures = []
    for workers in (1, 2):
        ours, other = taken["jax", workers], taken["numpy", workers]
        words = f"{PART * BATCH} leagues on {workers} thread{'s' if workers > 1 else ''}"
        figures.append(median_of(f"{words} under JAX", ours, "s", other=other, against="the same batches under NumPy"))
        ratios = [slow / fast for fast, slow in zip(ours, other, strict=True)]
        figures.append(median_of(f"{words}: NumPy's time over JAX's", ratios, "times", note="aim: 3; JAX uses both cores on one thread"))
    different, places = 0, 0
    for mine, theirs in zip(last["jax"], last["numpy"], strict=True):
        for one, other_one in zip(mine, theirs, strict=True):
            different += int((~np.isclose(one, other_one, rtol=1e-12, atol=0)).sum())
            places += one.size
    return [*figures, share_of("numbers of the last states on which the engines differ", different, places)]


def _timed(work: Callable[[], list[League]]) -> tuple[float, list[League]]:
    began = time.perf_counter()
    made = work()
    return time.perf_counter() - began, made


def _figures(outcome: Outcome) -> list[Figure]:
    other = "the subnet's rule of May 2026 on the same submissions"
    figures = [
        _mean("false crowns a league", outcome.false, "models", outcome.false_crowned.value, other),
        share_of("leagues with a false crown", outcome.falsely, outcome.leagues, comparison=_PROMISED, against="alpha of five days"),
        _mean("shares: total variation from the same models without error", outcome.distance, "", 0.05, "bound"),
        _mean("shares: total variation from an oracle that knows skill", outcome.oracle_distance, "", outcome.old_distance.value, other),
        _mean("rollouts of challengers, a decision", outcome.tasks, "an environment"),
    ]
    for one in outcome.strategies:
        figures.append(_mean(f"{one.strategy}: share of all weights", one.share, "", one.old.value, other))
        told = f"accepted a league: {one.accepted.value:.3f}, by an oracle {one.deserving.value:.3f}"
        figures.append(_mean("  were skill known", one.oracle, "", one.exact.value, "its models without error", told))
    return figures


def _mean(name: str, mean: Mean, unit: str, comparison: float | None = None, against: str = "", note: str = "") -> Figure:
    return Figure(name, mean.value, unit, mean.low, mean.high, comparison, against, note)
