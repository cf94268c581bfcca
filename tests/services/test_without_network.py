"""The README's promise that the main job runs on a machine without a network: the same world, in a network namespace of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from comparing import differences
from tiny_worlds import TinyWorld

pytestmark = [pytest.mark.services, pytest.mark.models]

BIN = Path(sys.executable).parent
ALONE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
"""A namespace whose only interface, the loopback, is down."""


@pytest.fixture(scope="module")
def alone() -> list[str]:
    """The command that takes a command's network away; the test is skipped where the machine does not allow it."""
    tried = subprocess.run([*ALONE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no network namespace can be made here: {tried.stderr.strip()}")
    return ALONE


def test_there_really_is_no_network(alone: list[str]) -> None:
    connect = "import socket; socket.create_connection(('127.0.0.1', 9), timeout=2)"
    done = subprocess.run([*alone, sys.executable, "-c", connect], capture_output=True, text=True, check=False)
    assert "Network is unreachable" in done.stderr


def test_an_epoch_runs_without_a_network_and_gives_the_same(tiny_world: TinyWorld, alone: list[str], tmp_path: Path) -> None:
    world = tiny_world.copy(tmp_path / "world")
    done = subprocess.run(
        [*alone, str(BIN / "affine"), "run-epochs", "--home", str(world.home)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = differences(tiny_world.world, world)
    assert not found, "\n".join(found)


def test_the_board_is_printed_without_a_network(tiny_world: TinyWorld, alone: list[str]) -> None:
    command = [*alone, str(BIN / "affine"), "show", "--home", str(tiny_world.world.home)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ada/strong" in done.stdout, done.stderr


def test_a_league_is_trained_without_a_network(alone: list[str], tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from affine_dagster.league.make import make_league"
    program += "; from affine_dagster.league.recipes import TINY; print(sorted(make_league(Path(sys.argv[1]), TINY).models))"
    done = subprocess.run([*alone, sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "'base'" in done.stdout, done.stderr
