"""The pictures of docs/tour.md: for each, what is opened and clicked, what must be seen before it is taken, and its part of the window.

What must not go in: how a browser is driven (``chromium.py``), or a server started (``operator_ui.py``).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from docs.tour.chromium import Box, Page, open_page
from docs.tour.operator_ui import DIALOG, OperatorUi, change_rule, labelled, open_rescore_dialog, rescore, serve

__all__ = ["AFTER", "BEFORE", "HEIGHT", "MAX_BYTES", "WIDTH", "Look", "look_around", "make_pictures"]

WIDTH, HEIGHT = 1360, 900
"""Of the window, in pixels. A picture is the window or its upper part."""

MAX_BYTES = 250_000

GROUPS = ("chain", "admission", "evaluation", "scoring", "lineage", "leaderboard", "sending")
ASSET_GRAPH = "/asset-groups?expanded=" + ",".join(f"global@global:{group}" for group in GROUPS)
GREEN = "rgb(46, 204, 129)"
"""The border of an asset that has been materialised, in the light theme."""

NEWEST = "e0000002"
FIRST = "e0000000"

Look = Callable[[Page, OperatorUi], Box]
"""Brings the page to where the picture is taken, and says which part of the window to keep."""


def asset_graph(page: Page, ui: OperatorUi) -> Box:
    """All groups expanded, each asset green that has its newest epoch."""
    page.size(WIDTH, 2000)
    page.open(f"{ui.address}/asset-groups")
    page.value("localStorage.setItem('asset-graph-direction', JSON.stringify('vertical'))")
    page.open(f"{ui.address}{ASSET_GRAPH}")
    page.wait_for_text("chain_snapshot", "evaluation_plan", "weight_submission", "lineage_graph")
    green = f"[...document.querySelectorAll('svg foreignObject *')].filter(e => getComputedStyle(e).borderTopColor === '{GREEN}')"
    page.wait(f"{green}.length >= {ui.materialised()}", "the assets to be green")
    page.wait_until_drawn()
    rectangles = "[...document.querySelectorAll('svg foreignObject')].map(e => e.getBoundingClientRect())"
    found = page.value(f"{rectangles}.map(r => [r.left, r.top, r.right, r.bottom])")
    lefts, tops, rights, bottoms = zip(*found, strict=True)
    left, top, right, bottom = min(lefts), min(tops), max(rights), max(bottoms)
    return Box(left - 8, top - 8, right - left + 16, bottom - top + 16, scale=1.5)


def runs(page: Page, ui: OperatorUi) -> Box:
    """The newest runs with their tags."""
    page.open(f"{ui.address}/runs")
    page.wait_for_text("send_weights", "affine/epoch: 2", "Success")
    return page.window()


def epoch_run(page: Page, ui: OperatorUi) -> Box:
    """The run of an epoch: its steps in time, and its events."""
    page.size(WIDTH, 800)
    run = ui.newest_run("epoch", NEWEST)
    page.open(f"{ui.address}/runs/{run and run['runId']}")
    page.wait_for_text("evaluations", "RUN_SUCCESS")
    before = f"{labelled('Re-execute all (*)')}.compareDocumentPosition(e) === Node.DOCUMENT_POSITION_PRECEDING"
    page.click(f"[...document.querySelectorAll('button')].filter(e => {before}).pop()")
    page.wait_until_drawn()
    page.click("[...document.querySelectorAll('*')].filter(e => /^Succeeded .\\d+.$/.test(e.textContent.trim())).pop()")
    page.wait_for_text("fingerprints", "kinship", "task_sets")
    return page.window()


def refused(page: Page, ui: OperatorUi) -> Box:
    """A submission that was refused before it ran, with what was wrong with it."""
    _partition(page, ui, "admissions", FIRST)
    page.wait_for_text("carol/broken", "size_mismatch", "its header says")
    return _down_to(page, "Tags")


def evaluation(page: Page, ui: OperatorUi) -> Box:
    """Who ran how many tasks in one environment."""
    _partition(page, ui, "evaluations/chain_sum", "e0000001")
    page.wait_for_text("by_model", "eve/strong", "contest")
    return _down_to(page, "Tags")


def standings(page: Page, ui: OperatorUi) -> Box:
    """The one status of each submission."""
    page.size(WIDTH, 1500)
    _partition(page, ui, "leaderboard", NEWEST)
    page.wait_for_text("standings", "heidi/tuned", "futile")
    return page.window()


def pareto(page: Page, ui: OperatorUi) -> Box:
    """The Pareto picture in its dialog."""
    page.size(WIDTH, 1000)
    _partition(page, ui, "leaderboard", NEWEST)
    page.wait_until_drawn()
    page.click(labelled("[Show Markdown]"))
    page.wait(f"{DIALOG} && {DIALOG}.querySelector('img[src^=\"data:image/png\"]')?.naturalWidth > 0", "the Pareto picture")
    return page.window()


def checks(page: Page, ui: OperatorUi) -> Box:
    """Whether the weights may be sent."""
    page.open(f"{ui.address}/assets/weights?view=checks")
    page.wait_for_text("sendable", "Passed", "The vector may go to the chain")
    return _down_to(page, "Plots")


def weights(page: Page, ui: OperatorUi) -> Box:
    """The weight vector."""
    _partition(page, ui, "weights", NEWEST)
    page.wait_for_text("eve/strong", "frontier_credits")
    return _down_to(page, "Tags")


def sensors(page: Page, ui: OperatorUi) -> Box:
    """The sensors and their switches."""
    page.size(WIDTH, 560)
    page.open(f"{ui.address}/automation")
    page.wait_for_text("unfinished_epochs", "weights_due", "run_failures")
    return page.window()


def rescore_dialog(page: Page, ui: OperatorUi) -> Box:
    """The dialog that starts a re-scoring of all epochs."""
    open_rescore_dialog(page, ui)
    return page.window()


def rescored(page: Page, ui: OperatorUi) -> Box:
    """Both scorings of the newest epoch, one beside the other."""
    page.size(WIDTH, 1000)
    _partition(page, ui, "leaderboard", NEWEST)
    page.wait_for_text("beside other scorers", " share")
    return page.window()


BEFORE: Mapping[str, Look] = {
    "asset-graph.png": asset_graph,
    "runs.png": runs,
    "epoch-run.png": epoch_run,
    "refused.png": refused,
    "evaluation.png": evaluation,
    "standings.png": standings,
    "pareto.png": pareto,
    "weights.png": weights,
    "checks.png": checks,
    "sensors.png": sensors,
}
"""Pictures of the demo as it has ended, in the order of the tour."""

AFTER: Mapping[str, Look] = {"rescored.png": rescored}
"""Pictures that need the re-scoring."""


def make_pictures(home: Path, out: Path) -> Iterator[str]:
    """Re-score the world of a finished demo in its UI, and write every picture; yields their names as they are made.

    The world is changed. Raises BrowserError and UiError.
    """
    with serve(home) as ui, open_page(WIDTH, HEIGHT) as page:
        for name, look in BEFORE.items():
            yield _take(page, ui, look, out / name)
        change_rule(home)
        yield _take(page, ui, rescore_dialog, out / "rescore.png")
        rescore(page, ui)
        for name, look in AFTER.items():
            yield _take(page, ui, look, out / name)


def look_around(page: Page, ui: OperatorUi, look: Look) -> Box:
    """Do what a picture needs, up to where it would be taken: at rest, and nothing hovered."""
    page.size(WIDTH, HEIGHT)
    box = look(page, ui)
    page.rest()
    page.wait_until_drawn()
    return box


def _take(page: Page, ui: OperatorUi, look: Look, path: Path) -> str:
    box = look_around(page, ui, look)
    path.write_bytes(_small(page.picture(box)))
    return path.name


def _small(png: bytes) -> bytes:
    """The picture in 256 colours, which a UI does not exceed visibly, and a quarter of the bytes."""
    from PIL import Image

    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _partition(page: Page, ui: OperatorUi, asset: str, key: str) -> None:
    page.open(f"{ui.address}/assets/{asset}?view=partitions&partition={key}")
    page.wait_for_text("Latest materialization", "Metadata")


def _down_to(page: Page, heading: str) -> Box:
    """The upper part of the window, to just above this heading."""
    page.wait_until_drawn()
    window = page.window()
    end = float(page.value(f"{labelled(heading)}?.getBoundingClientRect().top") or window.height)
    return Box(0, 0, window.width, min(end - 16, window.height))
