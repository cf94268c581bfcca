"""The asset graph, pinned: a change of it is seen in review as a change of ``asset_graph.txt``, which a person can read.

Where the change is meant: ``AFFINE_WRITE_SNAPSHOTS=1 python -m pytest tests/assets/test_asset_graph.py`` writes the file anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dagster import AssetKey, DynamicPartitionsDefinition
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph, AssetNode

from affine_dagster.definitions import build_defs

PINNED = Path(__file__).parent / "asset_graph.txt"


def _graph() -> AssetGraph:
    return build_defs("").get_repository_def().asset_graph


def _names(keys: object) -> str:
    return ", ".join(sorted(key.to_user_string() for key in keys)) or "-"  # type: ignore[attr-defined]


def _policy(node: AssetNode) -> str:
    if node.backfill_policy is None:
        return "one run a partition"
    limit = node.backfill_policy.max_partitions_per_run
    return "single run" if limit is None else f"at most {limit} partitions a run"


def _described(node: AssetNode) -> str:
    partitions = "unpartitioned"
    if isinstance(node.partitions_def, DynamicPartitionsDefinition):
        partitions = f"partitioned by {node.partitions_def.name}, backfilled in {_policy(node)}"
    return "\n".join((
        node.key.to_user_string(),
        f"  group     {node.group_name}, {partitions}",
        f"  reads     {_names(node.parent_keys)}",
        f"  checks    {', '.join(sorted(check.name for check in node.check_keys)) or '-'}",
        f"  pools     {', '.join(sorted(node.pools or ())) or '-'}",
    ))


def _text() -> str:
    graph = _graph()
    nodes = sorted((graph.get(key) for key in graph.get_all_asset_keys()), key=lambda node: node.key.to_user_string())
    definitions = build_defs("")
    jobs = []
    for name in sorted(job.name for job in definitions.jobs or ()):
        layer = definitions.resolve_job_def(name).asset_layer
        jobs.append(f"job {name}\n  makes     {_names(layer.selected_asset_keys)}")
    sensors = sorted(
        f"sensor {sensor.name}\n  starts    {', '.join(target.job_name for target in sensor.targets) or '-'}"
        for sensor in build_defs("").get_repository_def().sensor_defs
    )
    return "\n\n".join([*map(_described, nodes), *jobs, *sensors]) + "\n"


def test_the_asset_graph_is_the_pinned_one() -> None:
    if os.environ.get("AFFINE_WRITE_SNAPSHOTS"):
        PINNED.write_text(_text())
    assert _text() == PINNED.read_text()


def test_every_asset_says_what_it_is() -> None:
    graph = _graph()
    assert not [key for key in graph.get_all_asset_keys() if not graph.get(key).description]


def test_every_asset_of_an_epoch_hangs_on_the_chains_snapshot() -> None:
    graph = _graph()
    below, todo = set(), [AssetKey("chain_snapshot")]
    while todo:
        key = todo.pop()
        below.add(key)
        todo += [child for child in graph.get(key).child_keys if child not in below]
    assert below == set(graph.get_all_asset_keys())


def test_names_are_safe_in_paths_and_selections() -> None:
    """Cases D4 and D5: nothing in a key that a path, a split or the UI's selection would take for its own."""
    parts = [part for key in _graph().get_all_asset_keys() for part in key.path]
    assert all(re.fullmatch(r"[a-z0-9_-]+", part) for part in parts)
