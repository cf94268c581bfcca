"""Opening Dagster's webserver and daemon on a world, as it stands or while the blocks of its chain pass.

What must not go in: anything about the world's content (``league/world.py``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

import click

from affine_dagster.cli.instance import make_whole
from affine_dagster.league.make import make_league
from affine_dagster.league.recipes import DEMO
from affine_dagster.league.world import DEMO_SCENARIO, World, make_world, open_world, produce_blocks
from affine_dagster.reasons import AffineError

__all__ = ["dagster_environment", "prepare_home", "run_dev", "run_ui"]

PROJECT = Path(__file__).resolve().parents[2]


def prepare_home(world: World) -> Path:
    """The world's DAGSTER_HOME, made where it is not whole, with the project's dagster.yaml in it."""
    make_whole(world.dagster_home, _project_file("dagster.yaml"))
    return world.dagster_home


def dagster_environment(world: World) -> Mapping[str, str]:
    """The variables under which Dagster sees this world; both event settings are measured in DESIGN section 5."""
    return {
        "DAGSTER_HOME": str(world.dagster_home.resolve()),
        "AFFINE_SETTINGS": str(world.settings_path.resolve()),
        "DAGSTER_EVENT_BATCH_SIZE": "200",
        "DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS": "1",
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }


def run_ui(home: Path, *, port: int) -> None:
    """Run webserver and daemon on a world until they are interrupted, so that what is launched there runs; no block passes."""
    world = open_world(home)
    prepare_home(world)
    _run(world, port)


def run_dev(home: Path, cache: Path, *, port: int, block_seconds: float) -> None:
    """Run webserver and daemon on a development world (made where it does not exist) while its blocks pass."""
    if (home / "settings.toml").exists():
        world = open_world(home)
    else:
        click.echo(f"making a development world in {home}")
        league = make_league(cache / "league", DEMO, progress=click.echo)
        world = make_world(home, league.models, DEMO_SCENARIO)
    prepare_home(world)
    click.echo("switch the sensors on under Automation; the first epoch closes when its blocks have passed")
    with produce_blocks(world, block_seconds):
        _run(world, port)


def _run(world: World, port: int) -> None:
    """Run ``dagster dev`` until it ends; an interrupt or a termination of this process reaches it, and is waited for.

    The handlers stand before the child starts: a shell's background job ignores interrupts, a child inherits what is ignored, and
    Dagster takes a termination as it takes an interrupt; so it would take neither.
    """
    command = [str(Path(sys.executable).parent / "dagster"), "dev", "-w", str(_project_file("workspace.yaml")), "-p", str(port)]
    environment = {**os.environ, **dagster_environment(world)}
    children: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        for child in children:
            child.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with subprocess.Popen(command, env=environment, cwd=world.home) as child:  # noqa: S603 - our own venv
            children.append(child)
            child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _project_file(name: str) -> Path:
    path = PROJECT / name
    if not path.is_file():
        raise AffineError("missing_input", f"{path}: this command needs a checkout of the project, not only the installed package")
    return path
