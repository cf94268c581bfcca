"""When weights are sent: every tempo, whatever evaluations do; and an alarm where the chain's own count says they are stale."""

from dagster import (
    AssetKey,
    AssetObservation,
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

from affine_dagster.chain.sending import newest_with_weights, sendable_epoch, weights_age
from affine_dagster.resources import ChainResource, SettingsResource, StoreResource
from affine_dagster.store import Tables, epoch_name
from sensors.epochs import MAX_RETRIES, SERIAL_TAG

__all__ = ["weight_sensors"]


def weight_sensors(send_job_name: str) -> list[SensorDefinition]:
    """The sensors ``weights_due`` and ``stale_weights``."""

    @sensor(
        name="weights_due", job_name=send_job_name, minimum_interval_seconds=15, default_status=DefaultSensorStatus.STOPPED,
        description="Ask once a tempo of the chain for the newest weights to be sent, and again where that run failed. Where none may be "
        "sent it asks all the same: the run records why.",
    )
    def weights_due(context: Context, settings: SettingsResource, chain: ChainResource, store: StoreResource) -> RunRequest | SkipReason:
        due = sendable_epoch(store.tables(), settings.scorer())
        epoch = _reported(context.instance, store.tables()) if due is None else due
        if epoch is None:
            return SkipReason("there is no epoch yet whose weights could be sent")
        netuid = settings.load().chain.netuid
        opened = chain.open()
        state = opened.subnet(netuid, block=opened.head().number)
        tags = {"affine/epoch": str(epoch), "affine/tempo": str(state.epoch_index), SERIAL_TAG: "weights"}
        failed = context.instance.get_runs_count(RunsFilter(tags=tags, statuses=[DagsterRunStatus.FAILURE]))
        what = "nothing" if due is None else f"send-{epoch_name(due)}"  # nothing to send is said once a tempo, and delays no weights
        key = f"{what}-{state.epoch_index}-{min(failed, MAX_RETRIES)}"
        return RunRequest(run_key=key, partition_key=epoch_name(epoch), tags=tags)

    @sensor(
        name="stale_weights", minimum_interval_seconds=60, default_status=DefaultSensorStatus.STOPPED,
        description="Observe weight_submission with its age in blocks when it exceeds the alarm's tempos.",
    )
    def stale_weights(context: Context, settings: SettingsResource, chain: ChainResource) -> SensorResult | SkipReason:
        values = settings.load()
        opened = chain.open()
        head = opened.head().number
        hotkey = chain.validator_address()
        if hotkey is None:
            return SkipReason("chain.hotkey_file is not set: this installation sends no weights")
        age = weights_age(opened, values.chain.netuid, hotkey)
        limit = values.weights.stale_tempos * opened.subnet(values.chain.netuid, block=head).tempo
        if age is not None and age <= limit:
            return SkipReason(f"weights are {age} blocks old; the alarm is at {limit}")
        text = "never set" if age is None else f"{age} blocks old"
        context.log.error("weights are %s; the alarm is at %d blocks", text, limit)
        seen = AssetObservation(AssetKey("weight_submission"), metadata={"stale": text, "limit_blocks": limit, "head": head})
        return SensorResult(asset_events=[seen])

    return [weights_due, stale_weights]


def _reported(instance: DagsterInstance, tables: Tables) -> int | None:
    """The epoch at which it is said that nothing may be sent: the newest with weights of any settings, else the newest there is."""
    keys = {int(key[1:]) for key in instance.get_dynamic_partitions("epochs")}
    newest = newest_with_weights(tables)
    return newest if newest in keys else max(keys, default=None)
