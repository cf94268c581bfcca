"""When weights are sent: every tempo, whatever evaluations do; and an alarm where the chain's own count says they are stale."""

from dagster import (
    AssetKey,
    AssetObservation,
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

from affine_dagster.chain.sending import sendable_epoch, weights_age
from affine_dagster.resources import ChainResource, SettingsResource, StoreResource
from affine_dagster.store import epoch_name
from sensors.epochs import MAX_RETRIES, SERIAL_TAG

__all__ = ["weight_sensors"]


def weight_sensors(send_job_name: str) -> list[SensorDefinition]:
    """The sensors ``weights_due`` and ``stale_weights``."""

    @sensor(
        name="weights_due", job_name=send_job_name, minimum_interval_seconds=15, default_status=DefaultSensorStatus.STOPPED,
        description="Ask for the newest epoch's weights to be sent, once a tempo of the chain, and again where that run failed.",
    )
    def weights_due(context: Context, settings: SettingsResource, chain: ChainResource, store: StoreResource) -> RunRequest | SkipReason:
        newest = sendable_epoch(store.tables(), settings.scorer())
        if newest is None:
            return SkipReason("under the present settings there are no weights of the newest epoch that may be sent")
        netuid = settings.load().chain.netuid
        opened = chain.open()
        state = opened.subnet(netuid, block=opened.head().number)
        tags = {"affine/epoch": str(newest), "affine/tempo": str(state.epoch_index), SERIAL_TAG: "weights"}
        failed = context.instance.get_runs_count(RunsFilter(tags=tags, statuses=[DagsterRunStatus.FAILURE]))
        key = f"send-{state.epoch_index}-{epoch_name(newest)}-{min(failed, MAX_RETRIES)}"
        return RunRequest(run_key=key, partition_key=epoch_name(newest), tags=tags)

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
