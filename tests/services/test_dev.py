"""``make dev``: Dagster's own daemon, with the sensors switched on, runs epochs by itself as the development chain's blocks pass."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from affine_dagster.cli.main import default_cache
from affine_dagster.cli.serve import dagster_environment
from affine_dagster.league.world import World, open_world
from affine_dagster.store import Store, Tables
from affine_dagster.tables import STANDINGS, WEIGHT_SUBMISSIONS

pytestmark = [pytest.mark.services, pytest.mark.models]

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 300.0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _until(what: str, done: object) -> None:
    assert callable(done)
    end = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < end, f"waited {DEADLINE} s for {what}"
        time.sleep(0.5)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.fixture
def development(tmp_path: Path) -> Iterator[World]:
    port = _free_port()
    home = tmp_path / "dev"
    command = [str(BIN / "affine"), "dev", "--home", str(home), "--cache", str(default_cache())]
    command += ["--port", str(port), "--block-seconds", "0.4"]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True) as process:
        try:
            _until("the web server", lambda: _answers(f"http://127.0.0.1:{port}/server_info"))
            yield open_world(home)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            finally:
                _end_group(process.pid)


def _end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def test_sensors_run_the_next_epochs_by_themselves(development: World) -> None:
    environment = {**os.environ, **dagster_environment(development)}
    for name in ("epochs", "unfinished_epochs", "weights_due", "run_failures"):
        command = [str(BIN / "dagster"), "sensor", "start", name, "-w", str(ROOT / "workspace.yaml")]
        subprocess.run(command, env=environment, check=True, capture_output=True, cwd=development.home)
    tables = Tables(Store(development.settings().store.url))

    def paid() -> bool:
        finished = {epoch for scorer in tables.scorers(STANDINGS) for epoch in tables.epochs(STANDINGS, scorer)}
        sent = tables.until(WEIGHT_SUBMISSIONS, 10_000)
        return {0, 1} <= finished and "ok" in sent["class"].to_list()

    _until("two epochs and sent weights", paid)
