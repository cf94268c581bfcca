"""History under each rule that the subnet has used, as one asset: what a change of rule would have paid."""

import polars as pl
from dagster import AssetExecutionContext, AssetKey, Config, MaterializeResult, asset
from pydantic import Field

from affine_dagster.history import replayed
from affine_dagster.leaderboard.replay_picture import replay_png
from affine_dagster.leaderboard.replays import hotkey_names, mean_shares, what_rules_did, with_paid
from affine_dagster.resources import SettingsResource, StoreResource
from affine_dagster.tables import PLAN
from assets.display import picture, table

GROUP = "leaderboard"


class ReplayConfig(Config):
    """What a run of the job ``replay_history`` is asked for."""

    rules: list[str] = Field(default=["all"], description="names of rules, or all")
    epochs: str = Field(default="all", description="A..B, A.., ..B or all")


@asset(group_name=GROUP, deps=[AssetKey("weights")], kinds={"polars"})
def replayed_history(
    context: AssetExecutionContext, config: ReplayConfig, settings: SettingsResource, store: StoreResource
) -> MaterializeResult:
    """Who would have been paid, crowned and terminated under each rule, and where the ledger cannot tell; nothing is written or sent."""
    tables = store.tables()
    if not tables.epochs(PLAN):
        return MaterializeResult(metadata={"epochs": 0, "reason": "there is no history yet"})
    rows = replayed(settings.load(), config.rules, config.epochs)
    walked = rows["epoch"].unique().sort()
    context.log.info("%d rules over %d epochs", rows["rule"].n_unique(), len(walked))
    names, weights = hotkey_names(tables, walked[-1]), with_paid(tables, settings.scorer(), rows)
    shares, did = mean_shares(weights, names), what_rules_did(rows, names)
    return MaterializeResult(
        metadata={
            "epochs": len(walked), "first": walked[0], "last": walked[-1],
            "shares over time": picture(replay_png(weights, names)),
            "mean shares": table(shares.with_columns(pl.col(pl.Float64).fill_null(0.0)), shares.columns),
            "what rules did": table(did, did.columns),
        }
    )
