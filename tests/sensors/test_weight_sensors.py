"""Laws of sending: once a tempo the newest sendable weights, an outcome whatever happens, and an alarm when the chain's are stale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dagster import AssetKey, DagsterRunStatus
from dagster._core.test_utils import create_run_for_test

from affine_dagster.chain.keys import hotkey_from_uri
from affine_dagster.chain.local_world import LocalWorld
from affine_dagster.definitions import SEND_JOB
from affine_dagster.league.world import NETUID, OWNER, VALIDATOR
from affine_dagster.settings import scorer_version
from affine_dagster.store import epoch_name
from affine_dagster.tables import WEIGHT_SUBMISSIONS, WEIGHTS
from sensors.epochs import MAX_RETRIES

Watch = Any
"""``conftest.Watch``; a conftest is not imported by name."""

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
BURN = hotkey_from_uri(OWNER).ss58_address


def _weights(watch: Watch, epoch: int, *, sendable: bool = True) -> None:
    row = {"epoch": epoch, "rule": "frontier_credits", "hotkey": BURN, "burn": True, "weight": 65_535, "share": 1.0}
    frame = WEIGHTS.frame([row | {"sendable": sendable, "reason": "burned" if sendable else "not_sendable"}])
    watch.tables.write(WEIGHTS, epoch, frame, scorer_version(watch.world.settings()))
    watch.instance.add_dynamic_partitions("epochs", [epoch_name(epoch)])


def _send(watch: Watch, epoch: int) -> dict[str, Any]:
    """Run the sending job for an epoch; the newest attempt's row."""
    job = watch.definitions.resolve_job_def(SEND_JOB)
    ran = job.execute_in_process(instance=watch.instance, partition_key=epoch_name(epoch), run_config=QUIET)
    assert ran.success
    assert ran.asset_materializations_for_node("weight_submission")
    row: dict[str, Any] = watch.tables.need(WEIGHT_SUBMISSIONS, epoch).sort("attempt").row(-1, named=True)
    return row


def _on_chain(watch: Watch) -> dict[int, dict[int, int]]:
    chain = watch.chain
    return {uid: dict(row) for uid, row in chain.weights(NETUID, block=chain.head().number).items()}


# --- weights_due ----------------------------------------------------------------------------------------------------------------


def test_without_weights_nothing_is_sent(watch: Watch) -> None:
    watch.pass_epochs(3)
    data = watch.evaluate("weights_due")
    assert not data.run_requests
    assert "there is no epoch yet" in data.skip_message


def test_a_rescoring_that_walks_through_history_sends_nothing(watch: Watch) -> None:
    """Under the present settings only the older epoch has weights yet."""
    watch.pass_epochs(4)
    _weights(watch, 0)
    watch.tables.write(WEIGHTS, 1, WEIGHTS.empty(), "sother")
    (request,) = watch.requests("weights_due")
    assert (request.partition_key, _send(watch, 0)["reason"]) == (epoch_name(0), "skipped_historical")
    watch.instance.add_dynamic_partitions("epochs", [epoch_name(1)])
    (request,) = watch.requests("weights_due")
    row = _send(watch, 1)
    assert (request.partition_key, row["class"], row["reason"]) == (epoch_name(1), "not_sendable", "no_vector")
    watch.pass_epochs(1)
    assert _on_chain(watch) == {}


@pytest.mark.parametrize("weights", ["not sendable", "none yet"])
def test_where_nothing_may_be_sent_that_is_the_outcome_once_a_tempo_and_the_alarm_still_fires(watch: Watch, weights: str) -> None:
    """DESIGN section 6: sending always materialises an outcome."""
    watch.pass_epochs(3)
    if weights == "not sendable":
        for epoch in (0, 1):
            _weights(watch, epoch, sendable=False)
    watch.instance.add_dynamic_partitions("epochs", [epoch_name(1)])
    asked = [watch.requests("weights_due") for _ in range(3)]
    row = _send(watch, 1)
    watch.pass_epochs(1)
    asked.append(watch.requests("weights_due"))
    assert {request.partition_key for requests in asked for request in requests} == {epoch_name(1)}
    assert [len({request.run_key for (request,) in asked[:3]}), len({request.run_key for (request,) in asked})] == [1, 2]
    assert (row["class"], row["reason"]) == ("not_sendable", "not_sendable" if weights == "not sendable" else "no_vector")
    assert watch.evaluate("stale_weights").asset_events
    assert _on_chain(watch) == {}


def test_weights_that_come_later_in_the_tempo_are_sent_in_it(watch: Watch) -> None:
    """That there was nothing to send delays nothing."""
    watch.pass_epochs(3)
    watch.instance.add_dynamic_partitions("epochs", [epoch_name(1)])
    (nothing,) = watch.requests("weights_due")
    _weights(watch, 1)
    (due,) = watch.requests("weights_due")
    assert due.run_key != nothing.run_key
    assert _send(watch, 1)["class"] == "ok"


def test_a_sending_that_was_killed_is_asked_for_again_in_its_tempo_until_the_retries_end(watch: Watch) -> None:
    watch.pass_epochs(3)
    _weights(watch, 1)
    keys = []
    for _ in range(MAX_RETRIES + 3):
        [request] = watch.requests("weights_due")
        keys.append(request.run_key)
        create_run_for_test(watch.instance, job_name=SEND_JOB, tags=request.tags, status=DagsterRunStatus.FAILURE)
    assert len(set(keys)) == MAX_RETRIES + 1


def test_the_newest_epoch_is_asked_for_once_a_tempo(watch: Watch) -> None:
    """Case W2: identical weights are sent again every tempo."""
    watch.pass_epochs(3)
    for epoch in (0, 1):
        _weights(watch, epoch)
    first, again = watch.requests("weights_due"), watch.requests("weights_due")
    watch.pass_epochs(1)
    next_tempo = watch.requests("weights_due")
    assert [request.partition_key for request in (*first, *again, *next_tempo)] == [epoch_name(1)] * 3
    assert first[0].run_key == again[0].run_key != next_tempo[0].run_key


def test_newer_weights_are_asked_for_in_the_same_tempo(watch: Watch) -> None:
    watch.pass_epochs(3)
    _weights(watch, 0)
    (first,) = watch.requests("weights_due")
    _weights(watch, 1)
    (second,) = watch.requests("weights_due")
    assert (second.partition_key, second.run_key != first.run_key) == (epoch_name(1), True)


def test_the_newest_sendable_weights_go_before_newer_ones_that_are_not(watch: Watch) -> None:
    watch.pass_epochs(4)
    _weights(watch, 0)
    _weights(watch, 1)
    _weights(watch, 2, sendable=False)
    (request,) = watch.requests("weights_due")
    assert request.partition_key == epoch_name(1)
    assert _send(watch, 1)["class"] == "ok"


def test_runs_that_send_are_serialised_and_say_for_which_tempo(watch: Watch) -> None:
    """Case D14."""
    watch.pass_epochs(3)
    _weights(watch, 1)
    (request,) = watch.requests("weights_due")
    tempo = watch.chain.subnet(NETUID, block=watch.chain.head().number).epoch_index
    ours = {name: value for name, value in request.tags.items() if name.startswith("affine/")}
    assert ours == {"affine/epoch": "1", "affine/tempo": str(tempo), "affine/serial": "weights"}


# --- weight_submission ----------------------------------------------------------------------------------------------------------


def test_the_newest_weights_are_on_the_chain_after_sending(watch: Watch) -> None:
    watch.pass_epochs(3)
    _weights(watch, 1)
    row = _send(watch, 1)
    watch.pass_epochs(1)
    assert (row["class"], row["reason"]) == ("ok", "sent")
    assert row["block"] is not None
    assert list(_on_chain(watch).values()) == [dict(zip(row["uids"], row["values"], strict=True))]


def test_no_older_epoch_is_sent(watch: Watch) -> None:
    """No backfill sends."""
    watch.pass_epochs(3)
    for epoch in (0, 1):
        _weights(watch, epoch)
    row = _send(watch, 0)
    watch.pass_epochs(1)
    assert (row["class"], row["reason"], row["block"]) == ("skipped", "skipped_historical", None)
    assert _on_chain(watch) == {}


def test_identical_weights_are_sent_again_in_the_next_tempo(watch: Watch) -> None:
    """Case W2."""
    watch.pass_epochs(3)
    _weights(watch, 1)
    first = _send(watch, 1)
    watch.pass_epochs(1)
    second = _send(watch, 1)
    assert [first["class"], second["class"]] == ["ok", "ok"]
    assert (first["uids"], first["values"]) == (second["uids"], second["values"])
    assert second["block"] > first["block"]
    assert [first["attempt"], second["attempt"]] == [0, 1]


def test_a_refusal_of_the_chain_is_recorded_with_its_class(watch: Watch) -> None:
    """Case W1: sent twice within the chain's rate limit; both attempts stand side by side."""
    watch.pass_epochs(3)
    _weights(watch, 1)
    _send(watch, 1)
    row = _send(watch, 1)
    assert (row["class"], row["reason"], row["block"]) == ("rate_limited", "rate_limited", None)
    assert watch.tables.need(WEIGHT_SUBMISSIONS, 1).height == 2


def test_a_validator_without_a_permit_is_told_so(watch: Watch) -> None:
    hand = LocalWorld(watch.world.chain_path)
    hand.deregister(NETUID, hotkey_from_uri(VALIDATOR).ss58_address)
    hand.close()
    watch.pass_epochs(3)
    _weights(watch, 1)
    row = _send(watch, 1)
    assert (row["class"], row["reason"]) == ("not_sendable", "no_permit")


def test_weights_that_failed_a_check_are_not_sent(watch: Watch) -> None:
    watch.pass_epochs(3)
    _weights(watch, 1, sendable=False)
    row = _send(watch, 1)
    watch.pass_epochs(1)
    assert (row["class"], row["reason"]) == ("not_sendable", "not_sendable")
    assert _on_chain(watch) == {}


def test_a_dry_run_sends_nothing_and_says_what_it_would_have_sent(make_watch: Callable[..., Watch]) -> None:
    watch = make_watch("[weights]\ndry_run = true\n")
    watch.pass_epochs(3)
    _weights(watch, 1)
    row = _send(watch, 1)
    watch.pass_epochs(1)
    assert (row["class"], row["values"]) == ("dry_run", [65_535])
    assert _on_chain(watch) == {}


def test_without_a_key_the_attempt_is_recorded(make_watch: Callable[..., Watch]) -> None:
    watch = make_watch(replace={'hotkey_file = "keys/validator.hotkey"\n': ""})
    watch.pass_epochs(3)
    _weights(watch, 1)
    assert (_send(watch, 1)["class"], watch.tables.need(WEIGHT_SUBMISSIONS, 1).height) == ("rejected", 1)


# --- stale_weights --------------------------------------------------------------------------------------------------------------


def test_weights_never_set_raise_the_alarm(watch: Watch) -> None:
    watch.pass_epochs(3)
    (event,) = watch.evaluate("stale_weights").asset_events
    assert event.asset_key == AssetKey("weight_submission")
    assert event.metadata["stale"].value == "never set"


def test_fresh_weights_raise_none_and_old_ones_do(watch: Watch) -> None:
    """Case W2: alarm when more than two tempos have passed."""
    watch.pass_epochs(3)
    _weights(watch, 1)
    _send(watch, 1)
    watch.pass_epochs(1)
    fresh = watch.evaluate("stale_weights")
    assert not fresh.asset_events
    assert "the alarm is at 10" in fresh.skip_message
    watch.pass_epochs(2)
    (event,) = watch.evaluate("stale_weights").asset_events
    assert event.metadata["stale"].value.endswith("blocks old")


def test_an_installation_without_a_key_raises_no_alarm(make_watch: Callable[..., Watch]) -> None:
    watch = make_watch(replace={'hotkey_file = "keys/validator.hotkey"\n': ""})
    watch.pass_epochs(3)
    assert "sends no weights" in watch.evaluate("stale_weights").skip_message


@pytest.mark.parametrize("sensor", ["epochs", "unfinished_epochs", "weights_due", "stale_weights"])
def test_a_sensor_reads_and_never_writes_tables(watch: Watch, sensor: str) -> None:
    watch.pass_epochs(3)
    before = watch.tables.store.names("")
    watch.evaluate(sensor)
    assert watch.tables.store.names("") == before


def test_the_burned_share_goes_to_the_subnets_owner(watch: Watch) -> None:
    watch.pass_epochs(3)
    _weights(watch, 1)
    row = _send(watch, 1)
    chain = watch.chain
    owner = [neuron.uid for neuron in chain.neurons(NETUID, block=chain.head().number) if neuron.hotkey == BURN]
    assert row["uids"] == owner
    assert row["values"] == [65_535]
