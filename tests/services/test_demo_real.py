"""``affine demo-real`` in the small: SmolLM2 itself through the main job, one child and a noisy copy against it, ten tasks each."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version

import polars as pl
import pytest

from affine_dagster.cli.main import default_cache
from affine_dagster.leaderboard.snapshot import LeaderboardModel, read_latest
from affine_dagster.league.real.make import RealLeague, make_real_league
from affine_dagster.league.real.recipe import ENVIRONMENTS, REAL_SMALL
from affine_dagster.league.real.source import PACKAGES
from affine_dagster.league.world import World, open_world
from affine_dagster.settings import scorer_version
from affine_dagster.store import Store, Tables
from affine_dagster.tables import CONTESTS, EVIDENCE, FINGERPRINTS

pytestmark = [pytest.mark.services, pytest.mark.models]

PROGRAM = (
    "import sys; from pathlib import Path; from affine_dagster.cli.demo_real import run_demo_real; "
    "from affine_dagster.league.real.recipe import REAL_SMALL; from affine_dagster.league.real.scenario import real_small_scenario; "
    "run_demo_real(Path(sys.argv[1]), Path(sys.argv[2]), REAL_SMALL, real_small_scenario, epochs=1)"
)


@dataclass(frozen=True)
class Finished:
    printed: str
    world: World
    league: RealLeague

    def model(self, repo: str) -> LeaderboardModel:
        snapshot = read_latest(Store(self.world.settings().store.url))
        assert snapshot is not None
        return {model.repo: model for model in snapshot.models}[repo]

    def rows(self, table: object) -> pl.DataFrame:
        settings = self.world.settings()
        return Tables(Store(settings.store.url)).need(table, 0, scorer_version(settings))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    for name in PACKAGES:
        try:
            version(name)
        except PackageNotFoundError:
            pytest.skip(f"{name} is not installed: make demo-real installs it")
    home = tmp_path_factory.mktemp("real") / "home"
    cache = default_cache()
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(home), str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    world = open_world(home)
    recipe = replace(REAL_SMALL, precision=world.settings().serving.dtype)  # type: ignore[arg-type]
    return Finished(done.stdout, world, make_real_league(cache / "league", recipe))


def test_the_re_upload_of_genesis_is_a_copy_and_earns_nothing(finished: Finished) -> None:
    copy = finished.model("bob/my-own-model")
    assert (copy.state, copy.reason) == ("copy", "genesis_copy")
    assert not copy.weight and not copy.credit


def test_nobody_else_is_judged_without_evidence(finished: Finished) -> None:
    digests = dict(Tables(Store(finished.world.settings().store.url)).need(FINGERPRINTS, 0).select("repo", "weights_digest").iter_rows())
    contests, evidence = finished.rows(CONTESTS), finished.rows(EVIDENCE)
    for repo in ("ada/sums", "heidi/tuned"):
        pair = contests.filter(pl.col("challenger") == digests[repo])
        assert pair["incumbent"].to_list() == [digests["affine/base"]]
        tasks = evidence.filter(pl.col("challenger") == digests[repo])
        assert set(tasks["environment"]) == set(ENVIRONMENTS)
        assert tasks["missing"].sum() == 0
        assert tasks["tasks"].min() >= 5
        model = finished.model(repo)
        assert (model.state == "accepted") == (pair["state"].item() == "won")
        if pair["state"].item() == "undecided":
            assert model.state not in ("rejected", "copy", "futile", "regressed"), "what is undecided is not refused"


def test_what_was_decided_and_what_it_took_is_printed(finished: Finished) -> None:
    assert "Evidence of each contest" in finished.printed
    assert "Contest tasks whose prompt a child's training held" in finished.printed
    assert f"Making the models, once: {finished.league.wall_seconds:.0f} s" in finished.printed
    assert f"ui --home {finished.world.home}" in finished.printed
    assert {part.name for part in finished.league.parts} == {"base", "sums", "noisy"}


def test_the_child_and_the_copy_are_the_base_changed(finished: Finished) -> None:
    """Tuning changes the upper layers alone; noise changes every tensor a little."""
    from safetensors.torch import load_file

    base, child, noisy = (load_file(finished.league.models[name] / "model.safetensors") for name in ("base", "sums", "noisy"))
    assert base.keys() == child.keys() == noisy.keys()
    changed = {name for name in base if not base[name].equal(child[name])}
    layers = {int(name.split(".")[2]) for name in changed}
    assert layers == set(range(15, 30))
    for name in ("model.embed_tokens.weight", "model.layers.7.mlp.up_proj.weight"):
        noise = (noisy[name].float() - base[name].float()).std() / base[name].float().std()
        assert 0.008 < float(noise) < 0.012
