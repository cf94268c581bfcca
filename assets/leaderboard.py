"""What people see: the published snapshot of each epoch, and the history of a re-scoring as one asset."""

import polars as pl
from dagster import AssetExecutionContext, AssetKey, MaterializeResult, asset

from affine_dagster.leaderboard.comparison import FULL_WEIGHT, ONE_SCORER
from affine_dagster.leaderboard.names import known_names
from affine_dagster.leaderboard.picture import pareto_png
from affine_dagster.leaderboard.snapshot import LeaderboardSnapshot, publish
from affine_dagster.resources import SettingsResource, StoreResource
from affine_dagster.scorekeeping import ScoreKeeper
from affine_dagster.tables import PLAN
from assets.admission import admissions, kinship
from assets.chain import submissions
from assets.display import Facts, named, picture, show, table
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
def leaderboard(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> None:
    """The one status of each submission with its reason, published for pages and miners; what another scorer saw otherwise beside it."""
    book = keeper(settings, store)
    snapshots = {epoch: book.keep_standings(epoch) for epoch in epochs_of(context)}
    keys = {epoch: publish(store.store(), snapshot) for epoch, snapshot in snapshots.items()}
    show(context, lambda epoch: {**_standings(book, snapshots[epoch]), "published": keys[epoch]}, scorer=book.scorer)


def _standings(book: ScoreKeeper, snapshot: LeaderboardSnapshot) -> Facts:
    name, share = pl.coalesce("repo", "submission_id"), pl.col("weight") / FULL_WEIGHT
    rows = book.standings(snapshot.epoch).with_columns(model=name, share=share)
    standings = named(rows, known_names(book.tables, snapshot.epoch), "peer")
    others = book.other_scorings(snapshot.epoch)
    beside = {"beside other scorers": table(others, others.columns)} if len(others.columns) > ONE_SCORER else {}
    return {
        "pareto": picture(pareto_png(snapshot)),
        **beside,
        "standings": table(standings, ["model", "state", "reason", "peer", "credit", "share"]),
        "what to do": table(standings.filter(~pl.col("state").is_in(["accepted", "genesis"])), ["model", "fault", "next_step", "detail"]),
    }


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
    totals = book.payouts(known).with_columns(models=pl.col("hotkey").replace_strict(book.paid_models(known[-1]), default=""))
    return MaterializeResult(
        metadata={
            "epochs": len(known), "first": known[0], "last": known[-1], "scorer": settings.scorer(),
            "payouts": table(totals, ["models", "hotkey", "epochs", "mean_share"]),
        }
    )
