"""What the system asks of a lineage graph, and the rows that it is made of.

The graph is a projection: whatever is in it comes from tables and can be rebuilt. What must not go in: a query language, or
any adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Contribution", "Edge", "LineageGraph", "Node", "OwnerCluster", "OwnerLink", "Projection"]


@dataclass(frozen=True, order=True)
class Node:
    """A submission or genesis model. ``credit_units``: exact credit of the submission's model, 0 where none stands to it."""

    submission_id: str
    hotkey: str | None
    weights_digest: str
    block: int
    extrinsic_index: int | None
    genesis: bool
    credit_units: int = 0


@dataclass(frozen=True, order=True)
class Edge:
    """``child`` comes from ``parent``. ``kind``: exact_copy now; trained child, laundered copy and merge when they are judged."""

    child: str
    parent: str
    kind: str
    epoch: int


@dataclass(frozen=True, order=True)
class OwnerLink:
    """Evidence that two keys belong to one owner. ``kind``: coldkey (of a hotkey) or swap (old hotkey, new hotkey)."""

    left: str
    right: str
    kind: str


@dataclass(frozen=True)
class Projection:
    """All rows of a graph, each kind sorted and without duplicates. Nothing in them is null that identifies a row."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    links: tuple[OwnerLink, ...]


@dataclass(frozen=True, order=True)
class OwnerCluster:
    """Keys (hotkeys and coldkeys) that links connect, sorted, with the submissions of its hotkeys, sorted."""

    keys: tuple[str, ...]
    submissions: tuple[str, ...]


@dataclass(frozen=True, order=True)
class Contribution:
    """A root of a lineage (no parent), its own credit and the credit of it and all its descendants, exact units."""

    submission_id: str
    own_units: int
    lineage_units: int
    members: int


class LineageGraph(Protocol):
    """A graph of models and owners. Answers are sorted, so that two adapters give the same. Unknown ids give empty answers."""

    def replace(self, projection: Projection) -> None:
        """Make the graph exactly this, whole or not at all."""
        ...

    def origins(self, submission_id: str) -> list[str]:
        """The ancestors without a parent (itself if it has none), by position."""
        ...

    def ancestors(self, submission_id: str) -> list[str]:
        """All that it comes from, nearest first, then by position."""
        ...

    def descendants(self, submission_id: str) -> list[str]:
        """All that come from it, nearest first, then by position."""
        ...

    def owner_clusters(self) -> list[OwnerCluster]:
        """All owners with at least one submission, sorted by keys."""
        ...

    def contributions(self) -> list[Contribution]:
        """Credit by lineage, largest first, then by submission id."""
        ...

    def path(self, left: str, right: str) -> Sequence[str]:
        """A shortest chain of kinship between two models, both included, whatever the direction; empty where there is none."""
        ...
