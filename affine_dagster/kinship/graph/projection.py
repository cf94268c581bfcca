"""The lineage graph's rows from the tables: a pure function, so that the graph can be thrown away and rebuilt.

Rows with a null where an identity must stand are left out here, once, for every adapter (case N4: one null key fails a whole
batch, or makes endless duplicates). What must not go in: any store of graphs.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from affine_dagster.kinship.graph.port import Edge, LineageGraph, Node, OwnerLink, Projection

__all__ = ["Counts", "project", "rows_of"]


@dataclass(frozen=True)
class Counts:
    """How many rows of each kind the graph now has."""

    nodes: int
    edges: int
    links: int


def project(
    graph: LineageGraph,
    *,
    submissions: pl.DataFrame,
    fingerprints: pl.DataFrame,
    kinship: pl.DataFrame,
    credits: pl.DataFrame,
    swaps: pl.DataFrame,
) -> Counts:
    """Make a graph exactly what the tables say (see :func:`rows_of`). Raises what the adapter raises."""
    rows = rows_of(submissions=submissions, fingerprints=fingerprints, kinship=kinship, credits=credits, swaps=swaps)
    graph.replace(rows)
    return Counts(len(rows.nodes), len(rows.edges), len(rows.links))


def rows_of(
    *, submissions: pl.DataFrame, fingerprints: pl.DataFrame, kinship: pl.DataFrame, credits: pl.DataFrame, swaps: pl.DataFrame
) -> Projection:
    """The graph of SUBMISSIONS, FINGERPRINTS, KINSHIP, CREDITS and SWAPS, each of all epochs up to the one wanted.

    Of kinship the newest row of each submission counts, of credits the newest epoch. Only fingerprinted submissions are nodes.
    """
    nodes = _nodes(fingerprints, credits)
    known = {node.submission_id for node in nodes}
    return Projection(nodes, _edges(kinship, known), _links(submissions, swaps))


def _nodes(fingerprints: pl.DataFrame, paid: pl.DataFrame) -> tuple[Node, ...]:
    newest = paid.filter(pl.col("epoch") == pl.col("epoch").max()).drop_nulls(["submission_id", "credit_units"])
    units = dict(newest.select("submission_id", "credit_units").iter_rows())
    columns = ["submission_id", "hotkey", "weights_digest", "block", "extrinsic_index", "genesis"]
    rows = fingerprints.drop_nulls(["submission_id", "weights_digest"]).select(columns).unique("submission_id").to_dicts()
    made = [Node(**row, credit_units=int(units.get(row["submission_id"], "0"))) for row in rows]
    return tuple(sorted(made, key=lambda node: node.submission_id))


def _edges(kinship: pl.DataFrame, known: set[str]) -> tuple[Edge, ...]:
    newest = kinship.sort("epoch", maintain_order=True).unique("submission_id", keep="last", maintain_order=True)
    copies = newest.filter(pl.col("verdict") == "exact_copy").drop_nulls(["submission_id", "peer_submission_id"])
    edges = [Edge(*row) for row in copies.select("submission_id", "peer_submission_id", "verdict", "epoch").iter_rows()]
    return tuple(sorted(edge for edge in edges if {edge.child, edge.parent} <= known and edge.child != edge.parent))


def _links(submissions: pl.DataFrame, swaps: pl.DataFrame) -> tuple[OwnerLink, ...]:
    owned = submissions.drop_nulls(["hotkey", "coldkey"]).select("hotkey", "coldkey").unique()
    swapped = swaps.drop_nulls(["old_hotkey", "new_hotkey"])
    links = {OwnerLink(hotkey, coldkey, "coldkey") for hotkey, coldkey in owned.iter_rows()}
    links |= {OwnerLink(old, new, "swap") for old, new in swapped.select("old_hotkey", "new_hotkey").iter_rows()}
    owners = swapped.drop_nulls(["coldkey"])
    links |= {OwnerLink(new, coldkey, "coldkey") for new, coldkey in owners.select("new_hotkey", "coldkey").iter_rows()}
    return tuple(sorted(links))
