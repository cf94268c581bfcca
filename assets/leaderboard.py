"""What people see: the published snapshot of each epoch, and the history of a re-scoring as one asset."""

from dagster import AssetExecutionContext, AssetKey, MaterializeResult, asset

from affine_dagster.leaderboard.picture import pareto_png
from affine_dagster.leaderboard.snapshot import publish
from affine_dagster.resources import SettingsResource, StoreResource
from affine_dagster.tables import PLAN
from assets.admission import admissions, kinship
from assets.chain import submissions
from assets.display import picture, table
from assets.partitions import SCORING_BACKFILL, epochs, epochs_of
from assets.scoring import keeper

GROUP = "leaderboard"
_SCORED = [AssetKey(name) for name in ("weights", "credits", "frontier", "evidence", "integrity")]


@asset(
    partitions_def=epochs,
    group_name=GROUP,
    deps=[submissions, admissions, kinship, *_SCORED],
    backfill_policy=SCORING_BACKFILL,
    kinds={"json"},
)
def leaderboard(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> MaterializeResult:
    """The one status of each submission with its reason, published for pages and miners."""
    book = keeper(settings, store)
    snapshots = [book.keep_standings(epoch) for epoch in epochs_of(context)]
    keys = [publish(store.store(), snapshot) for snapshot in snapshots]
    standings = book.standings(snapshots[-1].epoch)
    columns = ["submission_id", "repo", "state", "reason", "fault", "next_step", "credit", "weight"]
    return MaterializeResult(
        metadata={
            "published": keys[-1],
            "scorer": settings.scorer(),
            "standings": table(standings, columns),
            "pareto": picture(pareto_png(snapshots[-1])),
        }
    )


@asset(group_name=GROUP, deps=[AssetKey("evidence")], kinds={"polars"})
def rescored_history(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> MaterializeResult:
    """All history under the present scoring settings, from the ledger, as one unpartitioned materialisation."""
    book = keeper(settings, store)
    known = store.tables().epochs(PLAN)
    for epoch in known:
        book.rescore(epoch)
        context.log.info("epoch %d rescored (%d of %d)", epoch, known.index(epoch) + 1, len(known))
    if not known:
        return MaterializeResult(metadata={"epochs": 0, "scorer": settings.scorer(), "reason": "there is no history yet"})
    totals = book.payouts(known)
    return MaterializeResult(
        metadata={
            "epochs": len(known), "first": known[0], "last": known[-1], "scorer": settings.scorer(),
            "payouts": table(totals, ["hotkey", "epochs", "mean_share"]),
        }
    )
