"""Who ran on what: the epoch's seeds, its frozen plan, and one asset an environment for the rollouts.

The environments' assets are the outputs of one subsettable multi-asset, so that a run of any subset loads each model once. A
new environment is a new asset whose history can be filled alone.
"""

from collections.abc import Iterator, Mapping, Sequence

from dagster import (
    AssetCheckResult,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    MaterializeResult,
    asset,
    multi_asset,
)

from affine_dagster.environments.registry import environments as registered
from affine_dagster.evaluation.inputs import plan_inputs
from affine_dagster.evaluation.planning import make_plan
from affine_dagster.evaluation.run import EnvironmentSummary, evaluate
from affine_dagster.evaluation.tasksets import task_sets as draw_task_sets
from affine_dagster.leaderboard.names import known_names
from affine_dagster.resources import EvaluationResource, SettingsResource, StoreResource
from affine_dagster.tables import EPOCHS, PLAN, TASKS
from assets.admission import admissions, kinship
from assets.chain import chain_snapshot
from assets.display import named, table
from assets.partitions import epoch_of, epochs

GROUP = "evaluation"
_COVERAGE = "The share of the tasks due that gave a result, a model's own faults included, is at least the floor of the settings."


@asset(partitions_def=epochs, group_name=GROUP, deps=[chain_snapshot], kinds={"polars"})
def task_sets(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> MaterializeResult:
    """The epoch's task seeds of each environment, hashed one by one from the beacon. Frozen; anyone can recompute them."""
    tables, epoch, values = store.tables(), epoch_of(context), settings.load().evaluation
    families = registered(values.environments)
    frame = tables.freeze(TASKS, epoch, draw_task_sets(tables.need(EPOCHS, epoch), families, values))
    rates = {f"majority rate of {family.name} {family.version}": family.majority_rate for family in families}
    return MaterializeResult(metadata={"tasks": frame.height, **rates})


@asset(partitions_def=epochs, group_name=GROUP, deps=[admissions, kinship], kinds={"polars"})
def evaluation_plan(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> MaterializeResult:
    """Who runs against whom, assays due, budgets and alpha; frozen once written. Reads the prior frontier from the tables."""
    tables, epoch = store.tables(), epoch_of(context)
    plan = tables.read(PLAN, epoch)
    if plan is None:
        plan = tables.freeze(PLAN, epoch, make_plan(plan_inputs(tables, settings.load(), epoch), settings.load()))
    columns = ["repo", "role", "purpose", "planned", "reason", "tasks", "alpha", "discordance", "prior_epoch", "submission_id"]
    return MaterializeResult(metadata={"rows": plan.height, "planned": int(plan["planned"].sum()), "plan": table(plan, columns)})


def evaluation_assets(names: Sequence[str]) -> AssetsDefinition:
    """The multi-asset ``evaluations/<environment>`` over the environments of the settings."""

    @multi_asset(
        name="evaluations",
        specs=[
            AssetSpec(
                ["evaluations", name],
                group_name=GROUP,
                deps=[evaluation_plan, task_sets],
                partitions_def=epochs,
                kinds={"torch"},
                description=f"Rollouts on {name}, in the ledger: one job a model, all environments of a run in one load, "
                "stopped early by evidence.",
            )
            for name in names
        ],
        check_specs=[AssetCheckSpec("coverage", asset=AssetKey(["evaluations", name]), description=_COVERAGE) for name in names],
        can_subset=True,
        pool="gpu",
    )
    def evaluations(
        context: AssetExecutionContext, settings: SettingsResource, store: StoreResource, evaluation: EvaluationResource
    ) -> Iterator[MaterializeResult]:
        """Run the planned models on the selected environments."""
        chosen = [name for name in names if AssetKey(["evaluations", name]) in context.selected_asset_keys]
        summary = evaluate(
            store.tables(),
            store.ledger(),
            settings.load(),
            epoch_of(context),
            chosen,
            evaluation.jobs(),
            progress=lambda event: context.log.info(str(event)) if event.event != "batch" or event.done == event.of else None,
        )
        known = known_names(store.tables(), epoch_of(context))
        for name in chosen:
            yield _result(name, summary.environment(name), settings.load().evaluation.coverage_floor, known)

    return evaluations


def _result(name: str, summary: EnvironmentSummary, floor: float, names: Mapping[str, str]) -> MaterializeResult:
    key = AssetKey(["evaluations", name])
    check = AssetCheckResult(
        asset_key=key,
        check_name="coverage",
        passed=summary.coverage is None or summary.coverage >= floor,
        metadata={"coverage": summary.coverage if summary.coverage is not None else "nothing was planned", "floor": floor},
    )
    columns = ["model", "purpose", "n_ok", "n_wrong", "n_model_fault", "n_missing", "mean"]
    return MaterializeResult(
        asset_key=key,
        metadata={
            "models": summary.models, "tasks": summary.tasks, "missing": summary.missing,
            "by_model": table(named(summary.by_model, names, "submission_id").rename({"submission_id": "model"}), columns),
        },
        check_results=[check],
    )
