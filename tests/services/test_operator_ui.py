"""The Dagster UI as its operator meets it: the command that the demo prints, and the pages of docs/tour.md in a real browser."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from killing import processes_of

from affine_dagster.cli.main import default_cache
from affine_dagster.league.world import World, open_world
from affine_dagster.settings import scorer_version

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from docs.tour.chromium import Page, chromium_path, open_page  # noqa: E402 - a tool of the documentation, not on the path
from docs.tour.operator_ui import OperatorUi, change_rule, rescore, serve  # noqa: E402
from docs.tour.pictures import BEFORE, HEIGHT, WIDTH, look_around, open_rescore_dialog, rescored  # noqa: E402

pytestmark = [pytest.mark.services, pytest.mark.models]

DEMO = """
import sys
from dataclasses import replace
from pathlib import Path
from affine_dagster.cli.demo import run_demo
from affine_dagster.league.recipes import TINY
from affine_dagster.league.world import TINY_SCENARIO, Entry
scenario = replace(TINY_SCENARIO, entries=(*TINY_SCENARIO.entries, Entry(0, "Carol", "broken")))
run_demo(Path(sys.argv[1]), Path(sys.argv[2]), TINY, scenario)
"""
"""The demo on the smallest league, with a repository that is refused."""

DEFAULT_PORT = 3000
PATIENCE = 120.0


@dataclass(frozen=True)
class Demo:
    world: World
    printed: str


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    home = tmp_path_factory.mktemp("operator") / "demo"
    command = [sys.executable, "-c", DEMO, str(home), str(default_cache())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Demo(open_world(home), done.stdout)


# --- the command that the demo prints -------------------------------------------------------------------------------------------


def _until(what: str, done: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, f"waited {PATIENCE} s for {what}"
        time.sleep(0.5)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


BACKGROUND = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
"""Starts a command as a shell without job control does with ``&``: interrupts are ignored, and the command inherits that."""


@pytest.mark.parametrize(
    ("number", "prefix"),
    [(signal.SIGINT, []), (signal.SIGTERM, []), (signal.SIGTERM, BACKGROUND)],
    ids=["interrupted", "terminated", "terminated in the background"],
)
def test_the_printed_command_serves_the_asset_s_page_and_ends(demo: Demo, number: signal.Signals, prefix: list[str]) -> None:
    if not _is_free(DEFAULT_PORT):
        pytest.skip(f"port {DEFAULT_PORT}, which the printed command takes, is in use")
    found = re.search(r"^Dagster UI: +(.+)$", demo.printed, re.MULTILINE)
    assert found is not None, demo.printed
    ui = OperatorUi(f"http://127.0.0.1:{DEFAULT_PORT}")
    command = [*prefix, *shlex.split(found.group(1))]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        _until("the page's data", ui.loaded)
        page = '{ assetNodeOrError(assetKey: {path: ["leaderboard"]}) { ... on AssetNode { assetMaterializations { partition } } } }'
        shown = ui.ask(page)["assetNodeOrError"]["assetMaterializations"]
        assert {entry["partition"] for entry in shown} == {"e0000000", "e0000001", "e0000002"}
        process.send_signal(number)
        process.wait(60)
        _until("its processes to be gone", lambda: not processes_of(demo.world.home))
        assert _is_free(DEFAULT_PORT)
    finally:
        _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# --- the pages of the tour ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ui(demo: Demo) -> Iterator[OperatorUi]:
    with serve(demo.world.home) as found:
        yield found


@pytest.fixture(scope="module")
def page(ui: OperatorUi) -> Iterator[Page]:
    if chromium_path() is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with open_page(WIDTH, HEIGHT) as found:
        yield found


def test_the_asset_graph_names_every_asset(page: Page, ui: OperatorUi) -> None:
    look_around(page, ui, BEFORE["asset-graph.png"])
    keys = [node["assetKey"]["path"][-1] for node in ui.ask("{ assetNodes { assetKey { path } } }")["assetNodes"]]
    shown = page.value("[...document.querySelectorAll('svg foreignObject')].map(e => e.textContent.trim())")
    assert set(keys) <= set(shown)


def test_the_refused_submission_s_reason_and_detail_are_seen(page: Page, ui: OperatorUi) -> None:
    look_around(page, ui, BEFORE["refused.png"])
    row = page.value("[...document.querySelectorAll('tr')].map(e => e.innerText).filter(t => t.startsWith('carol/broken')).pop()")
    assert [cell.strip() for cell in row.split("\t")][:4] == ["carol/broken", "rejected", "size_mismatch", "model"]
    assert "its header says" in row


def test_an_epoch_s_run_shows_its_steps(page: Page, ui: OperatorUi) -> None:
    look_around(page, ui, BEFORE["epoch-run.png"])
    steps = page.text().split("Succeeded (", 1)[1]
    assert all(step in steps for step in ("chain_snapshot", "evaluations", "frontier", "leaderboard"))


def test_the_runs_of_the_demo_are_found_on_their_job_s_page(ui: OperatorUi) -> None:
    job = 'pipelineName: "epoch", repositoryName: "__repository__", repositoryLocationName: "affine_dagster"'
    runs = ui.ask(f"{{ pipelineOrError(params: {{{job}}}) {{ ... on Pipeline {{ runs(limit: 5) {{ status }} }} }} }}")
    assert [run["status"] for run in runs["pipelineOrError"]["runs"]] == ["SUCCESS"] * 3


@pytest.mark.parametrize("name", ["checks.png", "sensors.png"])
def test_the_page_says_what_it_waits_for_and_nothing_is_wrong(page: Page, ui: OperatorUi, name: str) -> None:
    look_around(page, ui, BEFORE[name])
    assert "error" not in page.text().lower()


def test_a_re_scoring_from_the_ui_stands_beside_the_first_scoring(page: Page, ui: OperatorUi, demo: Demo) -> None:
    """What docs/rescoring.md says, click by click."""
    before = scorer_version(demo.world.settings())
    change_rule(demo.world.home)
    after = scorer_version(demo.world.settings())
    open_rescore_dialog(page, ui)
    rescore(page, ui)
    look_around(page, ui, rescored)
    text = page.text()
    assert before != after
    assert f"{before} share" in text
    assert f"{after} share" in text
