"""The demo on a real language model: the same job as ``affine demo``, and the evidence behind each verdict as a table.

What must not go in: any step of the job itself, and who stands in it (``league/real/``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import polars as pl
from rich.box import SIMPLE_HEAD
from rich.table import Table

from affine_dagster.cli.board import wide_console
from affine_dagster.cli.demo import clear, play, report
from affine_dagster.league.real.make import Part, RealLeague, make_real_league
from affine_dagster.league.real.overlap import overlaps
from affine_dagster.league.real.precision import Precision, measured_precision
from affine_dagster.league.real.recipe import REAL, RealRecipe
from affine_dagster.league.real.scenario import real_scenario
from affine_dagster.league.real.source import check_packages
from affine_dagster.league.world import Scenario, World
from affine_dagster.settings import scorer_version
from affine_dagster.store import Store, Tables
from affine_dagster.tables import CONTESTS, EVIDENCE, FINGERPRINTS, TASKS

__all__ = ["EPOCHS", "run_demo_real"]

EPOCHS = 2


def run_demo_real(
    home: Path, cache: Path, recipe: RealRecipe = REAL, scenario: Callable[[Precision], Scenario] = real_scenario, epochs: int = EPOCHS
) -> None:
    """Make the models once and the world anew in ``home``, run its epochs, print what was decided and what each part took.

    All products are in the type in which this machine is faster.
    Raises ``missing_package`` where the model's package is not installed, ``bad_settings`` where ``home`` holds something that no
    demo made.
    """
    started = time.monotonic()
    check_packages()
    precision = measured_precision()
    click.echo(f"products in {precision}, in which this machine is faster")
    league = make_real_league(
        cache / "league", replace(recipe, precision=precision),
        progress=lambda text: click.echo(f"[{time.monotonic() - started:5.1f} s] {text}"),
    )
    click.echo(f"models ready after {time.monotonic() - started:.1f} s in {league.folder}")
    clear(home)
    world = play(home, league.models, scenario(precision), epochs)
    console = wide_console()
    console.print(_verdicts(world))
    click.echo(_LEGEND)
    console.print(_held(league, world))
    console.print(_made(league))
    report(world)


_LEGEND = (
    "difference: mean of (challenger - incumbent) on the same tasks, its interval, n tasks; e-values: better by the margin,\n"
    "not worse than the tolerance, no gain worth finding, worse than the tolerance\n"
)


def _verdicts(world: World) -> Table:
    """The newest evidence of every pair that ran."""
    settings = world.settings()
    tables, scorer = Tables(Store(settings.store.url)), scorer_version(settings)
    last = tables.epochs(EVIDENCE, scorer)[-1]
    names = _names(world, tables, last)
    verdicts = {
        (row["challenger"], row["incumbent"]): row for row in tables.until(CONTESTS, last, scorer).sort("epoch").iter_rows(named=True)
    }
    table = Table(title="Evidence of each contest", box=SIMPLE_HEAD, pad_edge=False)
    columns = ("challenger", "against", "environment", "difference", "better", "not worse", "futile", "worse", "verdict")
    for name in columns:
        table.add_column(name, justify="right" if name in columns[3:8] else "left", no_wrap=True)
    evidence = tables.until(EVIDENCE, last, scorer).sort("epoch").unique(
        ["challenger", "incumbent", "environment"], keep="last", maintain_order=True
    )
    before = None
    for row in evidence.sort("challenger", "incumbent", maintain_order=True).iter_rows(named=True):
        pair = (row["challenger"], row["incumbent"])
        verdict = verdicts[pair]
        said = f"{verdict['state']}{' in ' + verdict['environment'] if verdict['environment'] else ''}, alpha {verdict['alpha']:.4f}"
        first = [names.get(pair[0], pair[0]), names.get(pair[1], pair[1])] if pair != before else ["", ""]
        table.add_row(*first, *_numbers(row), said if pair != before else "")
        before = pair
    return table


def _numbers(row: Mapping[str, Any]) -> Sequence[str]:
    powers = [f"e^{row[f'log_e_{name}']:.1f}" for name in ("win", "not_worse", "futile", "regressed")]
    mean = f"{row['mean_difference']:+.2f} ({row['lower']:+.2f} to {row['upper']:+.2f}) n {row['tasks']}" if row["tasks"] else "-"
    return [str(row["environment"]), mean, *powers]


def _names(world: World, tables: Tables, epoch: int) -> Mapping[str, str]:
    """The repository of each model's weights; of equal weights the first committed one."""
    rows = tables.until(FINGERPRINTS, epoch).sort("block", "extrinsic_index", nulls_last=True, descending=True)
    return dict(rows.select("weights_digest", "repo").iter_rows())


def _held(league: RealLeague, world: World) -> Table:
    """What of the contests' tasks each child's training held."""
    tables = Tables(Store(world.settings().store.url))
    tasks = pl.concat([tables.need(TASKS, epoch) for epoch in tables.epochs(TASKS)]).filter(pl.col("purpose") == "contest")
    table = Table(title="Contest tasks whose prompt a child's training held", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("child")
    for name in sorted(tasks["environment"].unique()):
        table.add_column(name, justify="right")
    for child, seen in league.seen.items():
        table.add_row(child, *(f"{one.held} of {one.tasks} ({one.held / one.tasks:.0%})" for one in overlaps(seen, tasks)))
    return table


def _made(league: RealLeague) -> Table:
    """What making each model took, once."""
    title = f"Making the models, once: {league.wall_seconds:.0f} s, {league.cpu_seconds:.0f} CPU-seconds"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    for name in ("model", "wall s", "CPU s", "right on its own training tasks"):
        table.add_column(name, justify="left" if name == "model" else "right")
    for part in league.parts:
        table.add_row(part.name, f"{part.wall_seconds:.0f}", f"{part.cpu_seconds:.0f}", _own(part))
    return table


def _own(part: Part) -> str:
    return "-" if part.own_tried is None else f"{part.own_right} of {part.own_tried}"
