"""The demo: three epochs of the main job on the league's models, through real Dagster runs, on the embedded default.

Nothing is called directly: the miners act on the chain, sensors ask for runs, runs make assets. What must not go in: any step
of the job itself.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import click
from dagster import DagsterInstance

from affine_dagster.cli.board import print_board
from affine_dagster.cli.runs import Ticker
from affine_dagster.cli.serve import dagster_environment, prepare_home
from affine_dagster.leaderboard.snapshot import read_latest
from affine_dagster.league.make import make_league
from affine_dagster.league.recipes import LeagueRecipe
from affine_dagster.league.world import DEMO_SCENARIO, Scenario, World, make_world, play_epoch
from affine_dagster.reasons import AffineError
from affine_dagster.store import Store

__all__ = ["EPOCHS", "run_demo", "run_epochs"]

EPOCHS = 3


def run_demo(home: Path, cache: Path, recipe: LeagueRecipe, scenario: Scenario = DEMO_SCENARIO) -> None:
    """Make the world anew in ``home``, run its epochs, print the board and the command that opens the UI on it.

    Raises ``bad_settings`` where ``home`` holds something that no demo made.
    """
    _clear(home)
    started = time.monotonic()
    league = make_league(cache / "league", recipe, progress=lambda text: click.echo(f"[{time.monotonic() - started:5.1f} s] {text}"))
    click.echo(f"league ready after {time.monotonic() - started:.1f} s in {cache / 'league'}")
    began = time.monotonic()
    world = make_world(home, league.models, scenario)
    run_epochs(world, EPOCHS, said=lambda text: click.echo(f"[{time.monotonic() - began:5.1f} s] {text}"))
    click.echo(f"job: {time.monotonic() - began:.1f} s\n")
    _report(world)


def run_epochs(world: World, epochs: int, said: object = None) -> None:
    """Let so many epochs pass on the world's chain and run what the sensors ask for."""
    say = said if callable(said) else (lambda _: None)
    prepare_home(world)
    os.environ.update(dagster_environment(world))
    from affine_dagster.definitions import EPOCH_JOB, SEND_JOB, build_defs

    with DagsterInstance.get() as instance:
        ticker = Ticker(build_defs(str(world.settings_path)), instance, said=say)
        for epoch in range(epochs):
            play_epoch(world, epoch)
            say(f"epoch {epoch} has closed")
            ticker.tick("epochs", EPOCH_JOB)
            ticker.tick("weights_due", SEND_JOB)


def _clear(home: Path) -> None:
    if home.exists() and any(home.iterdir()) and not (home / "miners.json").exists():
        raise AffineError("bad_settings", f"--home {home} is not empty and was not made by a demo: choose another folder")
    shutil.rmtree(home, ignore_errors=True)


def _report(world: World) -> None:
    store = Store(world.settings().store.url)
    snapshot = read_latest(store)
    if snapshot is None:
        raise AffineError("missing_input", "the run published no snapshot")
    print_board(snapshot)
    for model in snapshot.models:
        if model.state in ("rejected", "copy", "review"):
            click.echo(f"  {model.repo or model.submission_id}: {model.reason} (fault: {model.fault}). Next: {model.next_step}")
    click.echo(f"ledger:      {Path(store.url) / 'ledger'}")
    click.echo(f"leaderboard: {Path(store.url) / 'published' / 'latest.json'}")
    click.echo(f"Dagster UI:  {Path(sys.executable).parent / 'affine'} ui --home {world.home}")
