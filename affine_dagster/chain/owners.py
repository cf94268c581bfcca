"""Who belongs together: hotkeys tied by a coldkey or by a swap are one owner.

What must not go in: guesses from weights or behaviour (``kinship/``). A tie here is a fact of the chain.
"""

from __future__ import annotations

import polars as pl

__all__ = ["owner_clusters"]


def owner_clusters(submissions: pl.DataFrame, swaps: pl.DataFrame) -> dict[str, str]:
    """Map each hotkey to its cluster's name, the smallest hotkey in it.

    The row order does not matter. A hotkey that stands in neither frame has no cluster.

    Args:
        submissions: SUBMISSIONS rows of all epochs; a row without a coldkey (hotkey gone) ties nothing.
        swaps: SWAPS rows of all epochs.
    """
    parent: dict[str, str] = {}

    def root(node: str) -> str:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def tie(left: str, right: str) -> None:
        low, high = sorted((root(left), root(right)))
        parent[high] = low

    for hotkey, coldkey in submissions.select("hotkey", "coldkey").unique().iter_rows():
        root(hotkey)
        if coldkey is not None:
            tie(hotkey, f"~{coldkey}")
    for coldkey, old, new in swaps.select("coldkey", "old_hotkey", "new_hotkey").iter_rows():
        tie(old, new)
        tie(new, f"~{coldkey}")
    clusters: dict[str, list[str]] = {}
    for node in sorted(parent):
        if not node.startswith("~"):
            clusters.setdefault(root(node), []).append(node)
    return {member: members[0] for members in clusters.values() for member in members}
