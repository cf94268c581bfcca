"""Laws of the command: an error is one line that says what to do, and no command makes or removes what it was not asked to."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affine_dagster.cli.main import default_cache, main
from affine_dagster.leaderboard.snapshot import EnvironmentScore, LeaderboardModel, LeaderboardSnapshot, WeightShare, publish
from affine_dagster.league.world import Scenario, World, make_world
from affine_dagster.store import Store

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    return lambda *arguments: CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world in which nothing has happened."""
    from checkpoints import write_checkpoint

    return make_world(tmp_path / "world", {"base": write_checkpoint(tmp_path / "base")}, Scenario("base", (), ""))


def _snapshot() -> LeaderboardSnapshot:
    model = LeaderboardModel(
        submission_id="s1", hotkey="h", repo="acme/model", revision="0" * 40, block=1, extrinsic_index=0, weights_digest="d", genesis=False,
        state="accepted", reason="accepted", fault=None, detail=None, next_step="nothing", peer=None, credit=0.25, weight=65_535,
        first_epoch=0, since_epoch=0, mean=None, scores=(EnvironmentScore("chain_sum", 0, None, None, None, None),),
    )
    share = WeightShare("h", 65_535, burn=False, reason="sendable")
    return LeaderboardSnapshot(1, 7, 150, "s0", "frontier_credits", ("chain_sum",), (model,), (share,))


def test_help_lists_every_command(run: Run) -> None:
    done = run("--help")
    assert done.exit_code == 0
    assert all(name in done.output for name in main.commands)


@pytest.mark.parametrize("command", ["show", "ui", "run-epochs"])
def test_a_world_that_is_not_there_is_one_error_and_is_not_made(run: Run, tmp_path: Path, command: str) -> None:
    done = run(command, "--home", tmp_path / "nowhere")
    assert done.exit_code == 1
    assert "no world was made there" in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "nowhere").exists()


def test_a_world_without_a_snapshot_says_so(run: Run, world: World) -> None:
    done = run("show", "--home", world.home)
    assert done.exit_code == 1
    assert "no snapshot is published" in done.output


def test_show_prints_the_latest_snapshot(run: Run, world: World) -> None:
    publish(Store(world.settings().store.url), _snapshot())
    done = run("show", "--home", world.home)
    assert done.exit_code == 0
    assert "Epoch 7" in done.output
    assert "acme/model" in done.output


def test_show_reads_the_store_that_the_settings_name(run: Run, world: World) -> None:
    text = world.settings_path.read_text().replace('url = "store"', 'url = "elsewhere"')
    world.settings_path.write_text(text)
    publish(Store(str(world.home / "elsewhere")), _snapshot())
    assert "Epoch 7" in run("show", "--home", world.home).output


def test_the_demo_removes_nothing_that_it_did_not_make(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine" / "thesis.tex"
    mine.parent.mkdir()
    mine.write_text("years of work")
    done = run("demo", "--home", mine.parent)
    assert done.exit_code == 1
    assert "choose another folder" in done.output
    assert mine.read_text() == "years of work"


def test_sound_settings_are_printed_as_they_are_in_force(run: Run, world: World) -> None:
    done = run("settings", world.settings_path)
    assert done.exit_code == 0
    assert json.loads(done.output)["chain"]["netuid"] == 120


@pytest.mark.parametrize(
    ("text", "field"),
    [("[scoring]\nmargin = 2", "scoring.margin"), ("[evaluation]\nenvironments = ['nonsense']", "evaluation.environments")],
)
def test_a_bad_setting_is_one_line_that_names_the_field(run: Run, tmp_path: Path, text: str, field: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    done = run("settings", path)
    assert done.exit_code == 1
    assert field in done.output
    assert done.output.strip().count("\n") == 0


def test_the_cache_lies_where_it_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AFFINE_CACHE", str(tmp_path))
    assert default_cache().is_relative_to(tmp_path)
