"""When an epoch runs: as soon as the chain has closed it, in order, and again where a run left no result.

The chain counts the epochs; nothing here computes one from a block number. What must not go in: what a run does.
"""

import json
from collections.abc import Iterator

from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorResult,
    SkipReason,
    sensor,
)
from dagster import SensorEvaluationContext as Context

from affine_dagster.chain.epochs import newest_closed_epoch
from affine_dagster.resources import ChainResource, SettingsResource, StoreResource
from affine_dagster.store import epoch_name
from affine_dagster.tables import STANDINGS
from assets.partitions import epochs as epochs_partitions

__all__ = ["MAX_REQUESTS", "MAX_RETRIES", "SERIAL_TAG", "epoch_sensors", "epoch_tags"]

MAX_REQUESTS = 50
"""Run requests a tick: a validator that was away catches up without one tick that never ends."""

MAX_RETRIES = 3
"""Times that an unfinished epoch is asked for again before it waits for the operator."""

SERIAL_TAG = "affine/serial"
"""Runs with the same value of this tag run one at a time (dagster.yaml)."""

_ACTIVE = [
    DagsterRunStatus.QUEUED, DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING,
]


def epoch_tags(epoch: int, scorer: str, attempt: int) -> dict[str, str]:
    """The tags by which a person finds the run of an epoch."""
    return {"affine/epoch": str(epoch), "affine/scorer": scorer, "affine/attempt": str(attempt), SERIAL_TAG: "epoch"}


def _request(epoch: int, scorer: str, attempt: int) -> RunRequest:
    return RunRequest(
        run_key=f"{epoch_name(epoch)}-{scorer}-{attempt}", partition_key=epoch_name(epoch), tags=epoch_tags(epoch, scorer, attempt)
    )


def epoch_sensors(epoch_job_name: str) -> list[SensorDefinition]:
    """The sensors ``epochs`` and ``unfinished_epochs`` over the job that runs one epoch."""

    @sensor(
        name="epochs", job_name=epoch_job_name, minimum_interval_seconds=10, default_status=DefaultSensorStatus.STOPPED,
        description="Add the key of each closed epoch and ask for its run, ascending and without gaps; the cursor is the next epoch.",
    )
    def epochs(context: Context, settings: SettingsResource, chain: ChainResource) -> SensorResult | SkipReason:
        newest = newest_closed_epoch(chain.open(), settings.load().chain)
        if newest is None:
            return SkipReason("no epoch has closed yet")
        start = json.loads(context.cursor)["next"] if context.cursor else _first_epoch(settings, newest)
        due = range(start, min(newest + 1, start + MAX_REQUESTS))
        if not due:
            return SkipReason(f"epoch {newest} is the newest closed one; epoch {start} is the next to be asked for")
        scorer = settings.scorer()
        return SensorResult(
            run_requests=[_request(epoch, scorer, 0) for epoch in due],
            dynamic_partitions_requests=[epochs_partitions.build_add_request([epoch_name(epoch) for epoch in due])],
            cursor=json.dumps({"next": due[-1] + 1}),
        )

    @sensor(
        name="unfinished_epochs", job_name=epoch_job_name, minimum_interval_seconds=60, default_status=DefaultSensorStatus.STOPPED,
        description="Ask again for epochs that have a key, no standings and no run under way; oldest first: each reads the one before.",
    )
    def unfinished_epochs(context: Context, settings: SettingsResource, store: StoreResource) -> Iterator[RunRequest | SkipReason]:
        scorer = settings.scorer()
        done = {epoch_name(epoch) for epoch in store.tables().epochs(STANDINGS, scorer)}
        missing = [key for key in context.instance.get_dynamic_partitions("epochs") if key not in done]
        if not missing:
            yield SkipReason("every epoch has its standings")
            return
        key = min(missing)
        runs = _runs_of(context.instance, key)
        if any(status in _ACTIVE for status in runs):
            yield SkipReason(f"{key} is under way")
        elif len(runs) > MAX_RETRIES:
            yield SkipReason(f"{key} failed {len(runs)} times: read its last run, mend the cause and launch it by hand")
        else:
            yield _request(int(key[1:]), scorer, len(runs))

    return [epochs, unfinished_epochs]


def _first_epoch(settings: SettingsResource, newest: int) -> int:
    first = settings.load().chain.first_epoch
    return newest if first is None else first


def _runs_of(instance: DagsterInstance, key: str) -> list[DagsterRunStatus]:
    records = instance.get_run_records(RunsFilter(tags={"dagster/partition": key, SERIAL_TAG: "epoch"}), limit=50)
    return [record.dagster_run.status for record in records]
