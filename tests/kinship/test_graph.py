"""Conformance of lineage graphs: the answers that every adapter gives. New adapters join the fixture ``graph``."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.kinship.graph import Contribution, Edge, LineageGraph, Node, OwnerCluster, OwnerLink, Projection, SqliteGraph, project
from affine_dagster.kinship.graph.projection import rows_of
from affine_dagster.reasons import AffineError
from affine_dagster.tables import CREDITS, FINGERPRINTS, KINSHIP, SUBMISSIONS, SWAPS, Table


@pytest.fixture
def graph(tmp_path: Path) -> LineageGraph:
    return SqliteGraph(tmp_path / "graphs" / "lineage.db")


def node(name: str, block: int, credit: int = 0, hotkey: str | None = None) -> Node:
    return Node(name, hotkey or f"h-{name}", f"w-{name}", block, 0, False, credit)


def child(name: str, parent: str) -> Edge:
    return Edge(name, parent, "exact_copy", 1)


FAMILY = Projection(
    nodes=(node("root", 1, 10**30), node("left", 2, 5), node("right", 3), node("leaf", 4, 7), node("alone", 5, 3)),
    edges=(child("left", "root"), child("right", "root"), child("leaf", "left"), child("leaf", "right")),
    links=(),
)


@pytest.fixture
def family(graph: LineageGraph) -> LineageGraph:
    graph.replace(FAMILY)
    return graph


def test_ancestors_come_nearest_first(family: LineageGraph) -> None:
    assert family.ancestors("leaf") == ["left", "right", "root"]
    assert family.ancestors("root") == family.ancestors("unknown") == []


def test_descendants_come_nearest_first(family: LineageGraph) -> None:
    assert family.descendants("root") == ["left", "right", "leaf"]


def test_an_origin_has_no_parent(family: LineageGraph) -> None:
    assert family.origins("leaf") == ["root"]
    assert family.origins("alone") == ["alone"]
    assert family.origins("unknown") == []


def test_a_path_goes_both_ways_and_is_shortest(family: LineageGraph) -> None:
    assert family.path("left", "right") == ["left", "leaf", "right"]
    assert family.path("leaf", "root") == ["leaf", "left", "root"]
    assert family.path("alone", "alone") == ["alone"]
    assert family.path("leaf", "alone") == family.path("leaf", "unknown") == []


def test_credit_is_summed_over_a_lineage_exactly_and_each_member_counts_once(family: LineageGraph) -> None:
    assert family.contributions() == [Contribution("root", 10**30, 10**30 + 12, 4), Contribution("alone", 3, 3, 1)]


def test_owners_are_connected_by_coldkeys_and_swaps(graph: LineageGraph) -> None:
    nodes = (node("a", 1, hotkey="k1"), node("b", 2, hotkey="k2"), node("c", 3, hotkey="k3"), node("d", 4, hotkey="k4"))
    links = (
        OwnerLink("k1", "cold", "coldkey"), OwnerLink("k2", "cold", "coldkey"), OwnerLink("k2", "k3", "swap"),
        OwnerLink("k4", "other", "coldkey"), OwnerLink("unused", "nobody", "coldkey"),
    )
    graph.replace(Projection(nodes, (), links))
    assert graph.owner_clusters() == [OwnerCluster(("cold", "k1", "k2", "k3"), ("a", "b", "c")), OwnerCluster(("k4", "other"), ("d",))]


def test_a_hotkey_without_links_is_an_owner_of_its_own(graph: LineageGraph) -> None:
    graph.replace(Projection((node("a", 1), Node("genesis-0", None, "w", -1, 0, True)), (), ()))
    assert graph.owner_clusters() == [OwnerCluster(("h-a",), ("a",))]


def test_a_cycle_in_wrong_data_ends(graph: LineageGraph) -> None:
    graph.replace(Projection((node("a", 1), node("b", 2)), (child("a", "b"), child("b", "a")), ()))
    assert graph.ancestors("a") == ["b"]
    assert graph.descendants("a") == ["b"]
    assert graph.origins("a") == []


def test_replacing_is_whole_or_not_at_all(family: LineageGraph) -> None:
    with pytest.raises(AffineError) as error:
        family.replace(Projection((node("x", 1), node("x", 2)), (), ()))
    assert error.value.code == "bad_table"
    assert family.descendants("root") == ["left", "right", "leaf"]


def test_a_graph_is_still_there_when_it_is_opened_again(tmp_path: Path) -> None:
    first = SqliteGraph(tmp_path / "lineage.db")
    first.replace(FAMILY)
    first.close()
    assert SqliteGraph(tmp_path / "lineage.db").ancestors("leaf") == ["left", "right", "root"]


def test_more_rows_than_a_batch_are_all_there(graph: LineageGraph) -> None:
    """N5."""
    names = [f"n{at:05d}" for at in range(2500)]
    edges = tuple(child(name, names[0]) for name in names[1:])
    graph.replace(Projection(tuple(node(name, at) for at, name in enumerate(names)), edges, ()))
    assert len(graph.descendants("n00000")) == 2499


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=15))
def test_descendants_are_the_inverse_of_ancestors(pairs: list[tuple[int, int]]) -> None:
    names = [f"n{at}" for at in range(8)]
    edges = tuple(sorted({child(names[max(pair)], names[min(pair)]) for pair in pairs if pair[0] != pair[1]}))
    graph = SqliteGraph(":memory:")
    graph.replace(Projection(tuple(node(name, at) for at, name in enumerate(names)), edges, ()))
    above = {(name, other) for name in names for other in graph.ancestors(name)}
    assert above == {(other, name) for name in names for other in graph.descendants(name)}
    reached = {name: {edge.parent for edge in edges if edge.child == name} for name in names}
    for name in names:
        for parent in sorted(reached[name]):
            reached[name] |= reached[parent]
    assert above == {(name, other) for name in names for other in reached[name]}


# the projection


def rows(table: Table, *given: dict[str, object]) -> pl.DataFrame:
    return table.frame({**dict.fromkeys(table.columns), **row} for row in given)


def fingerprint(name: str, block: int) -> dict[str, object]:
    genesis = name.startswith("genesis")
    return {
        "epoch": 1, "submission_id": name, "hotkey": None if genesis else f"h-{name}", "weights_digest": f"w-{name}",
        "block": block, "extrinsic_index": 0, "genesis": genesis,
    }


def tables() -> dict[str, pl.DataFrame]:
    return {
        "submissions": rows(
            SUBMISSIONS, {"submission_id": "a", "hotkey": "h-a", "coldkey": "cold"},
            {"submission_id": "b", "hotkey": "h-b", "coldkey": "cold"},
            {"submission_id": "c", "hotkey": "h-c", "coldkey": None}, {"submission_id": "d", "hotkey": None, "coldkey": "cold"},
        ),
        "fingerprints": rows(FINGERPRINTS, fingerprint("genesis-0", -1), fingerprint("a", 1), fingerprint("b", 2), fingerprint("c", 3)),
        "kinship": rows(
            KINSHIP, {"epoch": 1, "submission_id": "b", "verdict": "origin"},
            {"epoch": 2, "submission_id": "b", "verdict": "exact_copy", "peer_submission_id": "a"},
            {"epoch": 2, "submission_id": "c", "verdict": "exact_copy", "peer_submission_id": None},
            {"epoch": 2, "submission_id": "a", "verdict": "exact_copy", "peer_submission_id": "genesis-0"},
        ),
        "credits": rows(
            CREDITS, {"epoch": 1, "submission_id": "a", "weights_digest": "w-a", "credit_units": "3"},
            {"epoch": 2, "submission_id": "a", "weights_digest": "w-a", "credit_units": "4"},
            {"epoch": 2, "submission_id": None, "weights_digest": "w-x", "credit_units": "9"},
        ),
        "swaps": rows(
            SWAPS, {"epoch": 1, "block": 1, "coldkey": "cold", "old_hotkey": "h-b", "new_hotkey": "h-new"},
            {"epoch": 1, "block": 2, "coldkey": None, "old_hotkey": "h-x", "new_hotkey": None},
        ),
    }


def test_rows_with_null_keys_are_left_out() -> None:
    """N4: they would fail the batch, or make endless duplicates elsewhere."""
    made = rows_of(**tables())
    assert made.edges == (Edge("a", "genesis-0", "exact_copy", 2), Edge("b", "a", "exact_copy", 2))
    assert made.links == (
        OwnerLink("h-a", "cold", "coldkey"), OwnerLink("h-b", "cold", "coldkey"), OwnerLink("h-b", "h-new", "swap"),
        OwnerLink("h-new", "cold", "coldkey"),
    )


def test_the_newest_verdict_and_credit_count() -> None:
    made = rows_of(**tables())
    assert {entry.submission_id: entry.credit_units for entry in made.nodes} == {"a": 4, "b": 0, "c": 0, "genesis-0": 0}


def test_a_graph_thrown_away_and_rebuilt_gives_the_same_answers(graph: LineageGraph) -> None:
    counts = project(graph, **tables())
    graph.replace(FAMILY)
    assert project(graph, **tables()) == counts
    fresh = SqliteGraph(":memory:")
    project(fresh, **tables())
    assert graph.contributions() == fresh.contributions() == [Contribution("genesis-0", 0, 4, 3), Contribution("c", 0, 0, 1)]
    assert graph.owner_clusters() == fresh.owner_clusters()


def test_empty_tables_make_an_empty_graph(graph: LineageGraph) -> None:
    counts = project(
        graph, submissions=SUBMISSIONS.empty(), fingerprints=FINGERPRINTS.empty(), kinship=KINSHIP.empty(), credits=CREDITS.empty(),
        swaps=SWAPS.empty(),
    )
    assert (counts.nodes, counts.edges, counts.links) == (0, 0, 0)
    assert graph.contributions() == graph.owner_clusters() == []
