"""The lineage graph: typed questions about who descends from whom and who belongs to whom, over a store that can be thrown away."""

from affine_dagster.kinship.graph.port import Contribution, Edge, LineageGraph, Node, OwnerCluster, OwnerLink, Projection
from affine_dagster.kinship.graph.projection import Counts, project, rows_of
from affine_dagster.kinship.graph.sqlite import SqliteGraph

__all__ = [
    "Contribution", "Counts", "Edge", "LineageGraph", "Node", "OwnerCluster", "OwnerLink", "Projection", "SqliteGraph", "project",
    "rows_of",
]
