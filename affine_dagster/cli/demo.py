"""The demo: three epochs of the main job on the league's models, through real Dagster runs, on the embedded default.

Nothing is called directly: the miners act on the chain, sensors ask for runs, runs make assets. What must not go in: any step
of the job itself.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import click

from affine_dagster.cli.board import print_board
from affine_dagster.cli.validator import validator
from affine_dagster.leaderboard.snapshot import read_latest
from affine_dagster.league.make import make_league
from affine_dagster.league.recipes import LeagueRecipe
from affine_dagster.league.world import DEMO_SCENARIO, Scenario, World, make_world, play_epoch
from affine_dagster.reasons import AffineError
from affine_dagster.store import Store

__all__ = ["EPOCHS", "clear", "play", "report", "run_demo"]

EPOCHS = 3


def run_demo(home: Path, cache: Path, recipe: LeagueRecipe, scenario: Scenario = DEMO_SCENARIO) -> None:
    """Make the world anew in ``home``, run its epochs, print the board and the command that opens the UI on it.

    Raises ``bad_settings`` where ``home`` holds something that no demo made.
    """
    clear(home)
    started = time.monotonic()
    league = make_league(cache / "league", recipe, progress=lambda text: click.echo(f"[{time.monotonic() - started:5.1f} s] {text}"))
    click.echo(f"league ready after {time.monotonic() - started:.1f} s in {cache / 'league'}")
    report(play(home, league.models, scenario, EPOCHS))


def play(home: Path, models: Mapping[str, Path], scenario: Scenario, epochs: int) -> World:
    """Make the scenario's world in the empty folder ``home`` and run its first epochs, telling what is done and how long it took."""
    began = time.monotonic()

    def told(text: str) -> None:
        click.echo(f"[{time.monotonic() - began:5.1f} s] {text}")

    world = make_world(home, models, scenario)
    with validator(world, said=told) as catch_up:
        for epoch in range(epochs):
            play_epoch(world, epoch)
            told(f"epoch {epoch} has closed")
            catch_up()
    click.echo(f"job: {time.monotonic() - began:.1f} s\n")
    return world


def clear(home: Path) -> None:
    """Remove what an earlier demo made in ``home``. Raises ``bad_settings`` where ``home`` holds something that no demo made."""
    if home.exists() and any(home.iterdir()) and not (home / "miners.json").exists():
        raise AffineError("bad_settings", f"--home {home} is not empty and was not made by a demo: choose another folder")
    shutil.rmtree(home, ignore_errors=True)


def report(world: World) -> None:
    """Print the board, the reasons of those that were not taken, and where things lie. Raises ``missing_input`` without a snapshot."""
    store = Store(world.settings().store.url)
    snapshot = read_latest(store)
    if snapshot is None:
        raise AffineError("missing_input", "the run published no snapshot")
    print_board(snapshot)
    for model in snapshot.models:
        if model.state in ("rejected", "copy", "review", "futile", "regressed"):
            whose = f" (fault: {model.fault})" if model.fault else ""
            click.echo(f"  {model.repo or model.submission_id}: {model.reason}{whose}. Next: {model.next_step}")
    click.echo(f"ledger:      {Path(store.url) / 'ledger'}")
    click.echo(f"leaderboard: {Path(store.url) / 'published' / 'latest.json'}")
    click.echo(f"Dagster UI:  {Path(sys.executable).parent / 'affine'} ui --home {world.home}")
