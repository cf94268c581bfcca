"""From rollouts to weights: integrity, evidence, frontier, credits, weights. Each walks its epochs in order inside one step.

A run over one epoch and a re-scoring of a thousand are the same code. No arithmetic stands here.
"""

from collections.abc import Sequence

import polars as pl
from dagster import AssetCheckResult, AssetCheckSpec, AssetExecutionContext, AssetKey, AssetsDefinition, MaterializeResult, asset

from affine_dagster.resources import SettingsResource, StoreResource
from affine_dagster.scorekeeping import ScoreKeeper
from assets.admission import kinship
from assets.display import table
from assets.partitions import SCORING_BACKFILL, epochs, epochs_of

GROUP = "scoring"


def keeper(settings: SettingsResource, store: StoreResource) -> ScoreKeeper:
    """The score keeper of the present settings."""
    return ScoreKeeper(store.tables(), store.ledger(), settings.load())


def scoring_assets(environments: Sequence[str]) -> list[AssetsDefinition]:
    """The assets ``integrity``, ``evidence``, ``frontier``, ``credits`` and ``weights`` over the environments of the settings."""
    evaluations = [AssetKey(["evaluations", name]) for name in environments]

    @asset(partitions_def=epochs, group_name=GROUP, deps=[*evaluations, kinship], backfill_policy=SCORING_BACKFILL, kinds={"polars"})
    def integrity(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> MaterializeResult:
        """Findings on the epoch as a whole: owners, coverage, faults alike (the breaker), fresh against earlier tasks."""
        made = pl.concat([keeper(settings, store).keep_integrity(epoch) for epoch in epochs_of(context)])
        bad = made.filter(~pl.col("ok"))
        columns = ["check", "subject", "value", "reason", "detail"]
        return MaterializeResult(metadata={"findings": made.height, "not_ok": bad.height, "integrity": table(bad, columns)})

    @asset(partitions_def=epochs, group_name=GROUP, deps=evaluations, backfill_policy=SCORING_BACKFILL, kinds={"polars"})
    def evidence(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> MaterializeResult:
        """Merged sequential tests of each running pair, with intervals, and the verdict on each."""
        made = pl.concat([keeper(settings, store).keep_evidence(epoch) for epoch in epochs_of(context)])
        columns = ["epoch", "challenger", "incumbent", "state", "reason", "environment", "strict", "tasks", "alpha"]
        return MaterializeResult(metadata={"pairs": made.height, "scorer": settings.scorer(), "contests": table(made, columns)})

    @asset(
        partitions_def=epochs, group_name=GROUP, deps=[evidence, kinship, integrity], backfill_policy=SCORING_BACKFILL, kinds={"polars"}
    )
    def frontier(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> MaterializeResult:
        """Genesis and accepted models, who made whom redundant, and their coordinates from the assays."""
        frame = [keeper(settings, store).keep_frontier(epoch) for epoch in epochs_of(context)][-1]
        columns = ["submission_id", "repo", "accepted_epoch", "incumbent", "lower", "upper", "assay_complete", "reason", "prior_epoch"]
        return MaterializeResult(metadata={"members": frame.height, "scorer": settings.scorer(), "frontier": table(frame, columns)})

    @asset(partitions_def=epochs, group_name=GROUP, deps=[frontier], backfill_policy=SCORING_BACKFILL, kinds={"polars"})
    def credits(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> MaterializeResult:
        """What each accepted model adds to the frontier of those committed before it, in exact integers."""
        frame = [keeper(settings, store).keep_credits(epoch) for epoch in epochs_of(context)][-1]
        columns = ["submission_id", "hotkey", "credit_units", "credit", "decayed", "frozen", "registered", "reason"]
        return MaterializeResult(metadata={"rows": frame.height, "scorer": settings.scorer(), "credits": table(frame, columns)})

    @asset(
        partitions_def=epochs,
        group_name=GROUP,
        deps=[credits],
        backfill_policy=SCORING_BACKFILL,
        kinds={"polars"},
        check_specs=[AssetCheckSpec("sendable", asset="weights")],
    )
    def weights(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> MaterializeResult:
        """The weight vector by hotkey; the check says whether it may be sent."""
        frame = [keeper(settings, store).keep_weights(epoch) for epoch in epochs_of(context)][-1]
        passed = bool(frame["sendable"].all()) and frame.height > 0
        reasons = ", ".join(frame["reason"].unique().sort())
        check = AssetCheckResult(passed=passed, check_name="sendable", metadata={"sum": int(frame["weight"].sum()), "reasons": reasons})
        return MaterializeResult(
            metadata={
                "rule": settings.load().scoring.rule,
                "scorer": settings.scorer(),
                "weights": table(frame, ["hotkey", "weight", "share", "burn", "reason"]),
            },
            check_results=[check],
        )

    return [integrity, evidence, frontier, credits, weights]
