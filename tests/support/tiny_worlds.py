"""Worlds of the league ``tiny`` whose chain has been played to its end, so that only the validator is left to run.

What must not go in: the validator (``killing.py`` starts it).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from killing import Strike, Timeline, disturbed, undisturbed

from affine_dagster.cli.main import default_cache
from affine_dagster.league.make import make_league
from affine_dagster.league.recipes import TINY
from affine_dagster.league.world import TINY_SCENARIO, World, make_world, open_world, play_epoch

__all__ = ["TinyWorld", "finished", "played"]

_STRUCK_RUNS = 4


@dataclass(frozen=True)
class TinyWorld:
    """A world that the validator has run through undisturbed, and how it went. ``blank``: the same world before."""

    world: World
    blank: Path
    timeline: Timeline

    def copy(self, home: Path) -> World:
        """The blank world once more, in a folder of its own: the same chain, hub and settings."""
        shutil.copytree(self.blank, home)
        return open_world(home)

    def struck(self, folder: Path, strike: Strike) -> World:
        """A copy that was struck and then run through; one that was faster and over before the strike is done again, struck earlier."""
        for attempt in range(_STRUCK_RUNS):
            world = self.copy(folder / f"world{attempt}")
            if disturbed(world.home, self.timeline, strike) > 0:
                return world
            strike = strike.earlier()
        raise AssertionError(f"nothing was hit in {_STRUCK_RUNS} runs, the last time by: {strike}")


def played(home: Path, epochs: int) -> World:
    """A world in which so many epochs have passed and the validator has not begun."""
    league = make_league(default_cache() / "league", TINY)
    world = make_world(home, league.models, TINY_SCENARIO)
    for epoch in range(epochs):
        play_epoch(world, epoch)
    return world


def finished(folder: Path, epochs: int = 1) -> TinyWorld:
    """A world that was played and run through, in ``folder``."""
    blank = played(folder / "blank", epochs).home
    shutil.copytree(blank, folder / "undisturbed")
    return TinyWorld(open_world(folder / "undisturbed"), blank, undisturbed(folder / "undisturbed"))
