"""The README's picture of the asset graph is the pinned asset graph, and its commands are there."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PINNED = (ROOT / "tests" / "assets" / "asset_graph.txt").read_text()

Edges = set[tuple[str, str]]


def _drawn() -> Edges:
    """The edges of the README's mermaid graph, solid and dotted."""
    found = re.search(r"```mermaid\nflowchart LR\n(.*?)```", README, re.DOTALL)
    assert found is not None
    edges: Edges = set()
    for line in found.group(1).splitlines():
        names = re.split(r"-->|-\.[^.]*\.->", re.sub(r"\[[^]]*\]", "", line))
        chain = [name.strip() for name in names]
        assert all(re.fullmatch(r"[a-z_]+", name) for name in chain), line
        edges |= set(itertools.pairwise(chain))
    return edges


def _real() -> Edges:
    """The edges of the pinned graph; all environments' assets are one node."""
    edges: Edges = set()
    for asset, reads in re.findall(r"^([a-z_/]+)\n  group .*\n  reads     (.*)$", PINNED, re.MULTILINE):
        edges |= {(parent.split("/")[0], asset.split("/")[0]) for parent in reads.split(", ") if parent != "-"}
    return edges


def _above(asset: str, edges: Edges) -> set[str]:
    parents = {parent for parent, child in edges if child == asset}
    return parents.union(*(_above(parent, edges) for parent in parents))


def test_the_drawn_graph_is_the_asset_graph() -> None:
    """But for the leaderboard's, of which only the last is drawn: the README says that it reads everything above it."""
    drawn, real = _drawn(), _real()
    assert drawn - real == set()
    assert {edge for edge in real - drawn if edge[1] != "leaderboard"} == set()


def test_what_the_leaderboard_reads_is_above_it_in_the_drawing() -> None:
    drawn = _drawn()
    assert {parent for parent, child in _real() if child == "leaderboard"} <= _above("leaderboard", drawn)
    assert "leaderboard reads everything above it" in README


def test_every_make_target_that_the_documents_name_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    texts = [README, *(path.read_text() for path in (ROOT / "docs").glob("*.md"))]
    named = {name for text in texts for name in re.findall(r"(?:^    |`)make ([a-z-]+)", text, re.MULTILINE)}
    assert {"demo", "test", "dev"} <= named
    assert named <= targets
