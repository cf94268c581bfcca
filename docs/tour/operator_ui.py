"""The Dagster UI on a world, as ``affine ui`` opens it: its server, its addresses, and the clicks of an operator who re-scores.

What must not go in: which pictures there are (``pictures.py``), and anything about browsers (``chromium.py``).
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from docs.tour.chromium import Page

__all__ = ["RESCORED_SETTING", "OperatorUi", "UiError", "change_rule", "rescore", "serve"]

START_SECONDS = 120.0
RESCORE_SECONDS = 300.0
"""The daemon looks at backfills every 30 s, starts a process, and looks again."""

RESCORED_SETTING = "half_life_blocks = 60"
"""The changed setting of docs/rescoring.md; it belongs under ``[scoring]``."""


class UiError(Exception):
    """The UI did not start or a run in it failed; the text says what it said."""


@dataclass(frozen=True)
class OperatorUi:
    """A UI that answers, on this machine."""

    address: str

    def ask(self, query: str) -> dict[str, Any]:
        """The data of a GraphQL query."""
        body = json.dumps({"query": query}).encode()
        request = Request(f"{self.address}/graphql", body, {"Content-Type": "application/json"})  # noqa: S310 - our own server
        with urlopen(request, timeout=60) as answer:  # noqa: S310
            found = json.load(answer)
        if found.get("errors"):
            raise UiError(str(found["errors"]))
        return dict(found["data"])

    def loaded(self) -> bool:
        """Whether the server answers and has loaded the project's assets."""
        try:
            nodes = self.ask("{ assetNodes { id } }")["assetNodes"]
        except OSError:
            return False
        return len(nodes) > 0

    def materialised(self) -> int:
        """How many assets have a materialisation."""
        nodes = self.ask("{ assetNodes { assetMaterializations(limit: 1) { runId } } }")["assetNodes"]
        return sum(bool(node["assetMaterializations"]) for node in nodes)

    def newest_run(self, job: str, partition: str = "") -> dict[str, Any] | None:
        """``runId`` and ``status`` of the newest run of a job (of a partition), None where there is none."""
        tags = f', tags: [{{key: "dagster/partition", value: "{partition}"}}]' if partition else ""
        query = f'{{ runsOrError(filter: {{pipelineName: "{job}"{tags}}}, limit: 1) {{ ... on Runs {{ results {{ runId status }} }} }} }}'
        runs = self.ask(query)["runsOrError"]["results"]
        return dict(runs[0]) if runs else None


@contextmanager
def serve(home: Path) -> Iterator[OperatorUi]:
    """``affine ui`` on a world, on a free port of 127.0.0.1. When it is left, no process of it is.

    Raises UiError, with the end of what it said, where it ends or does not answer in time.
    """
    port = _free_port()
    ui = OperatorUi(f"http://127.0.0.1:{port}")
    command = [str(Path(sys.executable).parent / "affine"), "ui", "--home", str(home), "--port", str(port)]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603 - our own venv
        try:
            _wait_until_loaded(ui, process, log)
            yield ui
        finally:
            _end(process)


def _wait_until_loaded(ui: OperatorUi, process: subprocess.Popen[bytes], log: Any) -> None:
    end = time.monotonic() + START_SECONDS
    while not ui.loaded():
        if process.poll() is not None or time.monotonic() > end:
            log.seek(0)
            raise UiError(f"affine ui does not answer on {ui.address}: {log.read()[-2000:]}")
        time.sleep(0.5)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate as a service manager does, and after a minute kill what is left of the group."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def change_rule(home: Path, setting: str = RESCORED_SETTING) -> None:
    """Write the changed setting into the world's settings, under ``[scoring]``."""
    path = home / "settings.toml"
    text = path.read_text()
    if setting in text.splitlines():
        return
    changed, count = re.subn(r"^\[scoring\]$", f"[scoring]\n{setting}", text, flags=re.MULTILINE)
    if count != 1:
        raise UiError(f"{path}: [scoring] stands there {count} times")
    path.write_text(changed)


DIALOG = "document.querySelector('[role=dialog]')"


def labelled(text: str, within: str = "document") -> str:
    """JavaScript that finds the innermost element whose whole text this is."""
    return f"[...{within}.querySelectorAll('*')].filter(e => e.textContent.trim() === {json.dumps(text)}).pop()"


def open_rescore_dialog(page: Page, ui: OperatorUi) -> None:
    """Job ``rescore``, *Materialize all…*, all partitions: one click before the launch."""
    page.open(f"{ui.address}/locations/affine_dagster/jobs/rescore")
    page.wait_for_text("Materialize all…")
    page.wait_until_drawn()
    page.click(labelled("Materialize all…"))
    page.wait(DIALOG, "the dialog")
    page.click(labelled("All", DIALOG))
    page.wait(f"/[1-9]\\d* partitions?/.test({DIALOG}.innerText)", "all partitions to be chosen")


def rescore(page: Page, ui: OperatorUi) -> None:
    """Launch the backfill of the open dialog, and wait until its one run has succeeded. Raises UiError where it fails."""
    page.wait_until_drawn()  # the dialog grows as its partitions are chosen, and the button moves
    page.click(labelled("Launch backfill", DIALOG))
    page.wait(f"!{DIALOG}", "the dialog to close")
    end = time.monotonic() + RESCORE_SECONDS
    while (run := ui.newest_run("rescore")) is None or run["status"] != "SUCCESS":
        if time.monotonic() > end or (run is not None and run["status"] in ("FAILURE", "CANCELED")):
            raise UiError(f"the re-scoring did not succeed: {run}")
        time.sleep(1)
