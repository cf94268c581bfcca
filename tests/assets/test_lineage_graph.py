"""The lineage graph is of the newest epoch, whichever epoch is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from dagster import build_asset_context

from affine_dagster.resources import GraphResource, SettingsResource, StoreResource
from affine_dagster.tables import CREDITS, FINGERPRINTS, KINSHIP, SUBMISSIONS, SWAPS, Table
from assets.admission import lineage_graph

SCORED = (CREDITS,)
TABLES = (SUBMISSIONS, FINGERPRINTS, KINSHIP, SWAPS, CREDITS)


def rows(table: Table, *given: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in table.columns} for row in given], schema=table.schema, orient="row")


@pytest.mark.parametrize("rerun", [1, 2])
def test_running_an_old_epoch_again_does_not_take_the_graph_back(tmp_path: Path, rerun: int) -> None:
    (tmp_path / "settings.toml").write_text('[store]\nurl = "store"\n')
    settings = SettingsResource(path=str(tmp_path / "settings.toml"))
    store = StoreResource(settings=settings)
    graph = GraphResource(settings=settings, path=str(tmp_path / "lineage.db"))
    for epoch in (1, 2):
        model = {
            "epoch": epoch, "submission_id": f"s{epoch}", "hotkey": f"h{epoch}", "repo": "o/m", "block": epoch, "extrinsic_index": 0,
            "weights_digest": f"{epoch}" * 64, "genesis": False,
        }
        for table in TABLES:
            content = rows(table, model) if table is FINGERPRINTS else table.empty()
            store.tables().write(table, epoch, content, settings.scorer() if table in SCORED else None)
    made = lineage_graph(build_asset_context(partition_key=f"e{rerun:07d}"), settings=settings, store=store, graph=graph)
    assert made.metadata["nodes"] == 2
