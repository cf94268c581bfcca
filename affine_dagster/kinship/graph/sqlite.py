"""The embedded lineage graph: SQLite with recursive queries. One conformance suite runs over this and every other adapter.

What must not go in: anything that the tables do not say.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import astuple
from itertools import islice
from pathlib import Path

from affine_dagster.kinship.graph.port import Contribution, Edge, Node, OwnerCluster, OwnerLink, Projection
from affine_dagster.reasons import AffineError

__all__ = ["SqliteGraph"]

_BATCH = 1000
_WAIT_SECONDS = 30.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS node (
    submission_id TEXT PRIMARY KEY, hotkey TEXT, weights_digest TEXT NOT NULL, block INTEGER NOT NULL, extrinsic_index INTEGER,
    genesis INTEGER NOT NULL, credit_units TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS edge (
    child TEXT NOT NULL, parent TEXT NOT NULL, kind TEXT NOT NULL, epoch INTEGER NOT NULL, PRIMARY KEY (child, parent, kind));
CREATE INDEX IF NOT EXISTS edge_by_parent ON edge (parent);
CREATE TABLE IF NOT EXISTS link (one TEXT NOT NULL, other TEXT NOT NULL, kind TEXT NOT NULL, PRIMARY KEY (one, other, kind));
CREATE INDEX IF NOT EXISTS node_by_hotkey ON node (hotkey);
"""
_POSITION = "block, extrinsic_index IS NULL, extrinsic_index, submission_id"
# UNION, not UNION ALL: a cycle in wrong data ends instead of running for ever
_ANCESTORS = f"""
WITH RECURSIVE up (id, depth) AS (
    SELECT parent, 1 FROM edge WHERE child = :start
    UNION SELECT edge.parent, up.depth + 1 FROM edge JOIN up ON edge.child = up.id WHERE up.depth < (SELECT count(*) FROM node))
SELECT submission_id FROM (SELECT id, min(depth) AS depth FROM up WHERE id <> :start GROUP BY id) JOIN node ON submission_id = id
ORDER BY depth, {_POSITION}"""  # noqa: S608  our own constant
_DESCENDANTS = f"""
WITH RECURSIVE down (id, depth) AS (
    SELECT child, 1 FROM edge WHERE parent = :start
    UNION SELECT edge.child, down.depth + 1 FROM edge JOIN down ON edge.parent = down.id WHERE down.depth < (SELECT count(*) FROM node))
SELECT submission_id FROM (SELECT id, min(depth) AS depth FROM down WHERE id <> :start GROUP BY id) JOIN node ON submission_id = id
ORDER BY depth, {_POSITION}"""  # noqa: S608
_ORIGINS = f"""
WITH RECURSIVE up (id) AS (SELECT :start UNION SELECT edge.parent FROM edge JOIN up ON edge.child = up.id)
SELECT submission_id FROM node JOIN up ON submission_id = up.id
WHERE NOT EXISTS (SELECT 1 FROM edge WHERE child = submission_id) ORDER BY {_POSITION}"""  # noqa: S608
_LINEAGES = """
WITH RECURSIVE line (root, id) AS (
    SELECT submission_id, submission_id FROM node WHERE NOT EXISTS (SELECT 1 FROM edge WHERE child = submission_id)
    UNION SELECT line.root, edge.child FROM edge JOIN line ON edge.parent = line.id)
SELECT root, submission_id, credit_units FROM line JOIN node ON submission_id = line.id"""
_OWNERS = """
WITH RECURSIVE pair (a, b) AS (SELECT one, other FROM link UNION SELECT other, one FROM link),
key (id) AS (SELECT a FROM pair UNION SELECT hotkey FROM node WHERE hotkey IS NOT NULL),
reach (id, label) AS (SELECT id, id FROM key UNION SELECT pair.b, reach.label FROM pair JOIN reach ON pair.a = reach.id)
SELECT min(label), id FROM reach GROUP BY id ORDER BY 1, 2"""
_BESIDE = "SELECT parent FROM edge WHERE child = :start UNION SELECT child FROM edge WHERE parent = :start ORDER BY 1"


class SqliteGraph:
    """The port ``LineageGraph`` in one file; ``:memory:`` for one that lives as long as the object."""

    def __init__(self, path: Path | str) -> None:
        if str(path) != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
        self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def replace(self, projection: Projection) -> None:
        """See ``LineageGraph.replace``. One transaction, rows sorted, in batches. Raises ``bad_table`` on a row that cannot stand."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for table in ("node", "edge", "link"):
                self._connection.execute(f"DELETE FROM {table}")  # noqa: S608  one of three constants
            self._insert("INSERT INTO node VALUES (?, ?, ?, ?, ?, ?, ?)", map(_node_values, sorted(projection.nodes, key=_node_id)))
            self._insert("INSERT INTO edge VALUES (?, ?, ?, ?)", map(_edge_values, sorted(projection.edges)))
            self._insert("INSERT INTO link VALUES (?, ?, ?)", map(_link_values, sorted(projection.links)))
            self._connection.execute("COMMIT")
        except sqlite3.IntegrityError as error:
            raise AffineError("bad_table", f"lineage graph: {error}") from error
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def origins(self, submission_id: str) -> list[str]:
        """See ``LineageGraph.origins``."""
        return self._ids(_ORIGINS, submission_id)

    def ancestors(self, submission_id: str) -> list[str]:
        """See ``LineageGraph.ancestors``."""
        return self._ids(_ANCESTORS, submission_id)

    def descendants(self, submission_id: str) -> list[str]:
        """See ``LineageGraph.descendants``."""
        return self._ids(_DESCENDANTS, submission_id)

    def owner_clusters(self) -> list[OwnerCluster]:
        """See ``LineageGraph.owner_clusters``."""
        keys: dict[str, list[str]] = {}
        cluster_of: dict[str, str] = {}
        for label, key in self._rows(_OWNERS):
            keys.setdefault(label, []).append(key)
            cluster_of[key] = label
        submissions: dict[str, list[str]] = {}
        for submission_id, hotkey in self._rows("SELECT submission_id, hotkey FROM node WHERE hotkey IS NOT NULL ORDER BY 1"):
            submissions.setdefault(cluster_of[hotkey], []).append(submission_id)
        return sorted(OwnerCluster(tuple(keys[label]), tuple(found)) for label, found in submissions.items())

    def contributions(self) -> list[Contribution]:
        """See ``LineageGraph.contributions``. Summed in Python: units may exceed SQLite's 64 bits."""
        units: dict[str, dict[str, int]] = {}
        for root, member, credit in self._rows(_LINEAGES):
            units.setdefault(root, {})[member] = int(credit)
        made = [Contribution(root, members[root], sum(members.values()), len(members)) for root, members in units.items()]
        return sorted(made, key=lambda one: (-one.lineage_units, one.submission_id))

    def path(self, left: str, right: str) -> Sequence[str]:
        """See ``LineageGraph.path``."""
        return _shortest(left, right, lambda at: self._ids(_BESIDE, at)) if self._known(left) and self._known(right) else []

    def _known(self, submission_id: str) -> bool:
        return bool(self._ids("SELECT submission_id FROM node WHERE submission_id = :start", submission_id))

    def _ids(self, query: str, start: str) -> list[str]:
        return [str(row[0]) for row in self._rows(query, {"start": start})]

    def _rows(self, query: str, values: dict[str, str] | None = None) -> list[tuple[str, ...]]:
        with closing(self._connection.execute(query, values or {})) as cursor:
            return cursor.fetchall()

    def _insert(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        for batch in _batches(rows):
            self._connection.executemany(statement, batch)


def _node_id(node: Node) -> str:
    return node.submission_id


def _node_values(node: Node) -> tuple[object, ...]:
    return (*astuple(node)[:-1], str(node.credit_units))


def _edge_values(edge: Edge) -> tuple[object, ...]:
    return astuple(edge)


def _link_values(link: OwnerLink) -> tuple[object, ...]:
    return astuple(link)


def _batches(rows: Iterable[tuple[object, ...]]) -> Iterator[list[tuple[object, ...]]]:
    waiting = iter(rows)
    while batch := list(islice(waiting, _BATCH)):
        yield batch


def _shortest(left: str, right: str, beside: Callable[[str], Sequence[str]]) -> list[str]:
    """Breadth first; of equally short paths the one that goes by smaller ids."""
    came_from: dict[str, str | None] = {left: None}
    level = [left]
    while level and right not in came_from:
        following: list[str] = []
        for at in level:
            for neighbour in beside(at):
                if neighbour not in came_from:
                    came_from[neighbour] = at
                    following.append(neighbour)
        level = following
    chain: list[str] = []
    at_end: str | None = right if right in came_from else None
    while at_end is not None:
        chain.append(at_end)
        at_end = came_from[at_end]
    return chain[::-1]
