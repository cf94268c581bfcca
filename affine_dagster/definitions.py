"""The one place where assets, sensors, resources and jobs meet.

The settings are read here, before anything runs: a bad field stops the loading with its name. What must not go in: an asset,
a sensor, or anything that happens at run time.
"""

from __future__ import annotations

import os
from typing import Any

from dagster import (
    AssetSelection,
    ConfigurableResource,
    Definitions,
    ExecutorDefinition,
    define_asset_job,
    in_process_executor,
)
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from affine_dagster.environments.registry import environments as registered
from affine_dagster.resources import (
    ChainResource,
    EvaluationResource,
    GraphResource,
    HubResource,
    SettingsResource,
    StoreResource,
)
from assets.admission import admissions, fingerprints, kinship, lineage_graph
from assets.chain import chain_snapshot, submissions
from assets.evaluation import evaluation_assets, evaluation_plan, task_sets
from assets.leaderboard import leaderboard, rescored_history
from assets.replay import replayed_history
from assets.scoring import scoring_assets
from assets.weights import weight_submission
from sensors.epochs import epoch_sensors
from sensors.failures import failure_sensors
from sensors.weights import weight_sensors

__all__ = ["EPOCH_JOB", "HISTORY_JOB", "REPLAY_JOB", "RESCORE_JOB", "SEND_JOB", "SETTINGS_VARIABLE", "build_defs", "defs"]

SETTINGS_VARIABLE = "AFFINE_SETTINGS"
"""The environment variable that names the settings file; unset: the defaults."""

EPOCH_JOB = "epoch"
RESCORE_JOB = "rescore"
HISTORY_JOB = "rescore_history"
REPLAY_JOB = "replay_history"
SEND_JOB = "send_weights"

Resource = ConfigurableResource[Any]


def default_resources(settings_path: str) -> dict[str, Resource]:
    """The resources of the local profile, by name."""
    settings = SettingsResource(path=settings_path)
    store = StoreResource(settings=settings)
    return {
        "settings": settings,
        "store": store,
        "chain": ChainResource(settings=settings),
        "hub": HubResource(settings=settings),
        "evaluation": EvaluationResource(settings=settings),
        "graph": GraphResource(settings=settings),
    }


def build_defs(settings_path: str | None = None, **overrides: Resource) -> Definitions:
    """The definitions over a settings file (None: ``$AFFINE_SETTINGS``); resources by name replace the defaults.

    Raises AffineError ``bad_settings`` that names each bad field, and for an environment that does not exist.
    """
    path = os.environ.get(SETTINGS_VARIABLE, "") if settings_path is None else settings_path
    resources = default_resources(path) | overrides
    environments = SettingsResource(path=path).load().evaluation.environments
    registered(environments)
    scoring = scoring_assets(environments)
    return Definitions(
        assets=[
            chain_snapshot, submissions, admissions, fingerprints, kinship, task_sets, evaluation_plan,
            evaluation_assets(environments), *scoring, lineage_graph, leaderboard, rescored_history, replayed_history,
            weight_submission,
        ],
        jobs=_jobs(),
        sensors=[*epoch_sensors(EPOCH_JOB), *weight_sensors(SEND_JOB), *failure_sensors()],
        resources=resources,
        executor=_executor(),
    )


def _executor() -> ExecutorDefinition:
    """Steps run in the run's own process: a second interpreter a step would cost more than most steps do (DESIGN section 5)."""
    return in_process_executor


def _jobs() -> list[UnresolvedAssetJobDefinition]:
    rescored = AssetSelection.assets("evidence", "frontier", "credits", "weights", "leaderboard")
    apart = AssetSelection.assets("weight_submission", "rescored_history", "replayed_history")
    return [
        define_asset_job(EPOCH_JOB, AssetSelection.all() - apart, description="One epoch, from the chain's snapshot to the leaderboard."),
        define_asset_job(RESCORE_JOB, rescored, description="Evidence to leaderboard again, under the present settings; never sends."),
        define_asset_job(HISTORY_JOB, AssetSelection.assets("rescored_history"), description="All history, as one materialisation."),
        define_asset_job(REPLAY_JOB, AssetSelection.assets("replayed_history"), description="History under each rule; never sends."),
        define_asset_job(SEND_JOB, AssetSelection.assets("weight_submission"), description="Send the newest weights."),
    ]


defs = build_defs()
