"""From rollouts to weights: integrity, evidence, frontier, credits, weights. Each walks its epochs in order inside one step.

A run over one epoch and a re-scoring of a thousand are the same code, and each epoch shows its own facts. No arithmetic stands here.
"""

from collections.abc import Sequence

import polars as pl
from dagster import AssetCheckResult, AssetCheckSpec, AssetExecutionContext, AssetKey, AssetsDefinition, MaterializeResult, asset

from affine_dagster.leaderboard.names import known_names
from affine_dagster.resources import SettingsResource, StoreResource
from affine_dagster.scorekeeping import ScoreKeeper
from affine_dagster.tables import CONTESTS, CREDITS, FRONTIER, INTEGRITY, WEIGHTS
from assets.admission import kinship
from assets.display import Facts, named, show, table
from assets.partitions import SCORING_BACKFILL, epochs, epochs_of

GROUP = "scoring"
_SENDABLE = "The vector may go to the chain; where it may not, its reasons say why, and the sensor weights_due sends nothing."


def keeper(settings: SettingsResource, store: StoreResource) -> ScoreKeeper:
    """The score keeper of the present settings."""
    return ScoreKeeper(store.tables(), store.ledger(), settings.load())


def scoring_assets(environments: Sequence[str]) -> list[AssetsDefinition]:
    """The assets ``integrity``, ``evidence``, ``frontier``, ``credits`` and ``weights`` over the environments of the settings."""
    evaluations = [AssetKey(["evaluations", name]) for name in environments]

    @asset(partitions_def=epochs, group_name=GROUP, deps=[*evaluations, kinship], backfill_policy=SCORING_BACKFILL, kinds={"polars"})
    def integrity(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> None:
        """Findings on the epoch as a whole: owners, coverage, faults alike (the breaker), fresh against earlier tasks."""
        book = keeper(settings, store)
        for epoch in epochs_of(context):
            book.keep_integrity(epoch)
        show(context, lambda epoch: _integrity(book, epoch))

    @asset(partitions_def=epochs, group_name=GROUP, deps=evaluations, backfill_policy=SCORING_BACKFILL, kinds={"polars"})
    def evidence(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> None:
        """Merged sequential tests of each running pair, with intervals, and the verdict on each."""
        book = keeper(settings, store)
        for epoch in epochs_of(context):
            book.keep_evidence(epoch)
        show(context, lambda epoch: _evidence(book, epoch), scorer=book.scorer)

    @asset(
        partitions_def=epochs, group_name=GROUP, deps=[evidence, kinship, integrity], backfill_policy=SCORING_BACKFILL, kinds={"polars"}
    )
    def frontier(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> None:
        """Genesis and accepted models, who made whom redundant, and their coordinates from the assays."""
        book = keeper(settings, store)
        for epoch in epochs_of(context):
            book.keep_frontier(epoch)
        show(context, lambda epoch: _frontier(book, epoch), scorer=book.scorer)

    @asset(partitions_def=epochs, group_name=GROUP, deps=[frontier], backfill_policy=SCORING_BACKFILL, kinds={"polars"})
    def credits(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> None:
        """What each accepted model adds to the frontier of those committed before it, in exact integers."""
        book = keeper(settings, store)
        for epoch in epochs_of(context):
            book.keep_credits(epoch)
        show(context, lambda epoch: _credits(book, epoch), scorer=book.scorer)

    @asset(
        partitions_def=epochs,
        group_name=GROUP,
        deps=[credits],
        backfill_policy=SCORING_BACKFILL,
        kinds={"polars"},
        check_specs=[AssetCheckSpec("sendable", asset="weights", description=_SENDABLE)],
    )
    def weights(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> MaterializeResult:
        """The weight vector by hotkey; the check says whether that of the newest epoch of the run may be sent."""
        book = keeper(settings, store)
        frame = [book.keep_weights(epoch) for epoch in epochs_of(context)][-1]
        show(context, lambda epoch: _weights(book, epoch), scorer=book.scorer)
        passed = bool(frame["sendable"].all()) and frame.height > 0
        reasons = ", ".join(frame["reason"].unique().sort())
        said = {"epoch": str(epochs_of(context)[-1]), "reasons": reasons, "sum": str(frame["weight"].sum())}
        return MaterializeResult(check_results=[AssetCheckResult(passed=passed, check_name="sendable", metadata=said)])

    return [integrity, evidence, frontier, credits, weights]


def _integrity(book: ScoreKeeper, epoch: int) -> Facts:
    made = book.tables.need(INTEGRITY, epoch)
    bad = made.filter(~pl.col("ok"))
    columns = ["check", "subject", "value", "reason", "detail"]
    return {"findings": made.height, "not_ok": bad.height, "integrity": table(bad, columns)}


def _evidence(book: ScoreKeeper, epoch: int) -> Facts:
    made = book.tables.need(CONTESTS, epoch, book.scorer)
    columns = ["challenger", "incumbent", "state", "reason", "environment", "strict", "tasks", "alpha"]
    return {"pairs": made.height, "contests": table(named(made, known_names(book.tables, epoch), "challenger", "incumbent"), columns)}


def _frontier(book: ScoreKeeper, epoch: int) -> Facts:
    frame = book.tables.need(FRONTIER, epoch, book.scorer)
    columns = ["repo", "accepted_epoch", "incumbent", "redundant_by", "lower", "upper", "assay_complete", "reason", "prior_epoch"]
    environments = ", ".join(book.settings.evaluation.environments)
    return {
        "members": frame.height,
        "lower and upper": f"bounds of the mean reward, in steps of 1/{book.settings.scoring.grid}: {environments}",
        "frontier": table(named(frame, known_names(book.tables, epoch), "redundant_by"), columns),
    }


def _credits(book: ScoreKeeper, epoch: int) -> Facts:
    frame = book.tables.need(CREDITS, epoch, book.scorer).with_columns(model="submission_id")
    columns = ["model", "hotkey", "credit_units", "credit", "decayed", "frozen", "registered", "reason"]
    return {"rows": frame.height, "credits": table(named(frame, known_names(book.tables, epoch), "model"), columns)}


def _weights(book: ScoreKeeper, epoch: int) -> Facts:
    paid = pl.col("hotkey").replace_strict(book.paid_models(epoch), default="")
    frame = book.tables.need(WEIGHTS, epoch, book.scorer).with_columns(models=paid)
    columns = ["models", "hotkey", "weight", "share", "burn", "reason"]
    return {"rule": book.settings.scoring.rule, "weights": table(frame, columns)}
