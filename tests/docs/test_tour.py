"""The pages of docs/ as their reader finds them: no link is dead, and the tour's pictures are what its script makes."""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from affine_dagster.definitions import build_defs  # noqa: E402
from affine_dagster.reasons import REASONS  # noqa: E402
from docs.tour.operator_ui import RESCORED_SETTING, UiError, change_rule  # noqa: E402 - a tool of the documentation
from docs.tour.pictures import AFTER, BEFORE, MAX_BYTES, WIDTH  # noqa: E402

DOCS = ROOT / "docs"
TOUR = (DOCS / "tour.md").read_text()
PICTURES = [*BEFORE, "rescore.png", *AFTER]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", *DOCS.rglob("*.md")))


def _anchors(text: str) -> set[str]:
    """The anchors that GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if not target.startswith("http"):
            path, _, anchor = target.partition("#")
            found = (ROOT / page).parent / path if path else ROOT / page
            assert found.exists(), target
            assert not anchor or anchor in _anchors(found.read_text()), target


def test_the_tour_shows_every_picture_once_and_in_the_order_in_which_they_are_made() -> None:
    assert re.findall(r"!\[[^]]+\]\(tour/([^)]+)\)", TOUR) == PICTURES


def test_no_picture_is_left_over() -> None:
    assert {path.name for path in (DOCS / "tour").glob("*.png")} == set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_a_small_png_of_the_window_s_width(name: str) -> None:
    content = (DOCS / "tour" / name).read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    assert len(content) < MAX_BYTES
    assert height >= 400
    assert width == WIDTH if name != "asset-graph.png" else width >= 900, "the graph is cut to itself"


def test_every_asset_sensor_and_reason_that_the_tour_names_exists() -> None:
    repository = build_defs("").get_repository_def()
    assets = {part for key in repository.asset_graph.get_all_asset_keys() for part in key.path}
    known = assets | {sensor.name for sensor in repository.sensor_defs} | {job.name for job in repository.get_all_jobs()} | set(REASONS)
    tags = {"affine/epoch", "affine/attempt", "affine/scorer"}
    metadata = {"coverage", "sendable", "fault", "model", "n_missing", "published", "pareto", "reasons"}
    words = set(re.findall(r"`([a-z][a-z_/]+)`", TOUR)) - {"chromium", "carol/broken"}
    assert words - known - tags - metadata == set()


def test_every_address_of_the_tour_is_of_an_asset_or_a_page_that_exists() -> None:
    keys = {key.to_user_string() for key in build_defs("").get_repository_def().asset_graph.get_all_asset_keys()}
    addresses = re.findall(r"`(/[^`]+)`", TOUR)
    assets = {found.group(1) for address in addresses if (found := re.match(r"/assets/([a-z_/]+)\?", address))}
    assert assets <= keys
    assert {address.split("/")[1].split("?")[0] for address in addresses} == {"asset-groups", "runs", "assets", "automation", "locations"}


def test_the_changed_setting_is_the_one_that_the_pages_name() -> None:
    assert f"`{RESCORED_SETTING}`" in TOUR
    assert f"`{RESCORED_SETTING}`" in (DOCS / "rescoring.md").read_text()


def test_a_rule_is_changed_once_and_only_under_scoring(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("[chain]\nnetuid = 1\n[scoring]\nmargin = 0.03\n[[scoring.genesis]]\n")
    for _ in range(2):
        change_rule(tmp_path)
        assert settings.read_text() == f"[chain]\nnetuid = 1\n[scoring]\n{RESCORED_SETTING}\nmargin = 0.03\n[[scoring.genesis]]\n"


def test_settings_without_scoring_are_not_changed(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("[chain]\n")
    with pytest.raises(UiError, match="scoring"):
        change_rule(tmp_path)
    assert (tmp_path / "settings.toml").read_text() == "[chain]\n"
