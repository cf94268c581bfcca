"""Laws of the epochs' sensors: keys ascend without gaps, at most fifty requests a tick, and an unfinished epoch is asked for again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from dagster import DagsterRunStatus
from dagster._core.test_utils import create_run_for_test

from affine_dagster.chain.epochs import newest_closed_epoch
from affine_dagster.definitions import EPOCH_JOB
from affine_dagster.settings import scorer_version
from affine_dagster.store import epoch_name
from affine_dagster.tables import STANDINGS
from sensors.epochs import MAX_REQUESTS, MAX_RETRIES, SERIAL_TAG

Watch = Any
"""``conftest.Watch``; a conftest is not imported by name."""

ABSENT = 120


def _newest(watch: Watch) -> int:
    found = newest_closed_epoch(watch.chain, watch.world.settings().chain)
    assert found is not None
    return found


def _ran(watch: Watch, epoch: int, status: DagsterRunStatus) -> None:
    tags = {"dagster/partition": epoch_name(epoch), SERIAL_TAG: "epoch"}
    create_run_for_test(watch.instance, job_name=EPOCH_JOB, tags=tags, status=status)


def _finished(watch: Watch, epoch: int) -> None:
    watch.tables.write(STANDINGS, epoch, STANDINGS.empty(), scorer_version(watch.world.settings()))


# --- epochs ---------------------------------------------------------------------------------------------------------------------


def test_before_an_epoch_has_closed_nothing_is_asked_for(watch: Watch) -> None:
    data = watch.evaluate("epochs")
    assert not data.run_requests
    assert data.skip_message == "no epoch has closed yet"


def test_after_an_absence_all_epochs_are_caught_up_in_order(watch: Watch) -> None:
    watch.pass_epochs(ABSENT)
    ticks = [watch.requests("epochs") for _ in range(4)]
    asked = [request.partition_key for tick in ticks for request in tick]
    newest = _newest(watch)
    assert newest >= ABSENT - 2
    assert asked == [epoch_name(epoch) for epoch in range(newest + 1)]
    assert watch.epoch_keys() == asked
    assert [len(tick) for tick in ticks] == [MAX_REQUESTS, MAX_REQUESTS, newest + 1 - 2 * MAX_REQUESTS, 0]


def test_the_cursor_moves_only_past_what_was_asked_for(watch: Watch) -> None:
    watch.pass_epochs(ABSENT)
    watch.evaluate("epochs")
    assert json.loads(watch.cursors["epochs"]) == {"next": MAX_REQUESTS}


def test_a_tick_that_is_lost_is_repeated_with_the_same_run_keys(watch: Watch) -> None:
    """The daemon passes over run keys that it knows, so no epoch runs twice (case D1)."""
    watch.pass_epochs(6)
    first = watch.requests("epochs")
    watch.cursors.clear()
    assert [request.run_key for request in watch.requests("epochs")] == [request.run_key for request in first]
    assert watch.epoch_keys() == [request.partition_key for request in first]


def test_run_keys_are_unique(watch: Watch) -> None:
    """Case D1."""
    watch.pass_epochs(ABSENT)
    keys = [request.run_key for _ in range(3) for request in watch.requests("epochs")]
    assert len(set(keys)) == len(keys) > 2 * MAX_REQUESTS


def test_a_new_epoch_is_asked_for_once(watch: Watch) -> None:
    watch.pass_epochs(3)
    before = watch.requests("epochs")
    assert before
    assert watch.requests("epochs") == []
    watch.pass_epochs(1)
    (request,) = watch.requests("epochs")
    assert request.partition_key == epoch_name(len(before))


def test_the_first_epoch_of_the_settings_is_the_first(make_watch: Callable[..., Watch]) -> None:
    watch = make_watch(replace={"first_epoch = 0": "first_epoch = 7"})
    watch.pass_epochs(12)
    watch.evaluate("epochs")
    assert watch.epoch_keys()[0] == epoch_name(7)


def test_a_first_epoch_in_the_future_is_waited_for(make_watch: Callable[..., Watch]) -> None:
    watch = make_watch(replace={"first_epoch = 0": "first_epoch = 9"})
    watch.pass_epochs(4)
    data = watch.evaluate("epochs")
    assert not data.run_requests
    assert data.skip_message == f"epoch {_newest(watch)} is the newest closed one; epoch 9 is the next to be asked for"
    watch.pass_epochs(8)
    watch.evaluate("epochs")
    assert watch.epoch_keys()[0] == epoch_name(9)


def test_without_a_first_epoch_the_newest_closed_one_is_the_first(make_watch: Callable[..., Watch]) -> None:
    watch = make_watch(replace={"first_epoch = 0\n": ""})
    watch.pass_epochs(20)
    watch.evaluate("epochs")
    assert watch.epoch_keys() == [epoch_name(_newest(watch))]


def test_keys_are_safe_everywhere(watch: Watch) -> None:
    """Cases D4 and D5."""
    watch.pass_epochs(12)
    watch.evaluate("epochs")
    assert all(re.fullmatch(r"[a-z0-9-]+", key) for key in watch.epoch_keys())
    assert watch.epoch_keys() == sorted(watch.epoch_keys())


def test_a_run_says_what_it_is_by_its_tags(watch: Watch) -> None:
    """Case D14: epoch, scorer and attempt stand in the tags, and the partition in Dagster's own."""
    watch.pass_epochs(4)
    request = watch.requests("epochs")[2]
    scorer = scorer_version(watch.world.settings())
    ours = {name: value for name, value in request.tags.items() if name.startswith("affine/")}
    assert ours == {"affine/epoch": "2", "affine/scorer": scorer, "affine/attempt": "0", SERIAL_TAG: "epoch"}
    assert request.tags["dagster/partition"] == epoch_name(2)


# --- unfinished epochs ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(watch: Watch) -> Watch:
    """A watch whose epochs 0, 1 and 2 (at least) were asked for; none has results."""
    watch.pass_epochs(5)
    watch.evaluate("epochs")
    assert len(watch.epoch_keys()) >= 3
    return watch


def test_the_oldest_unfinished_epoch_is_asked_for_again(asked: Watch) -> None:
    _finished(asked, 0)
    _ran(asked, 0, DagsterRunStatus.SUCCESS)
    _ran(asked, 1, DagsterRunStatus.FAILURE)
    _ran(asked, 2, DagsterRunStatus.FAILURE)
    (request,) = asked.requests("unfinished_epochs")
    assert request.partition_key == epoch_name(1)
    assert request.tags["affine/attempt"] == "1"


@pytest.mark.parametrize("status", [DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTED, DagsterRunStatus.STARTING])
def test_it_is_not_asked_for_while_a_run_is_under_way(asked: Watch, status: DagsterRunStatus) -> None:
    """Case D2."""
    _ran(asked, 0, DagsterRunStatus.FAILURE)
    _ran(asked, 0, status)
    assert asked.requests("unfinished_epochs") == []


def test_retries_end_and_the_operator_is_told(asked: Watch) -> None:
    attempts = []
    for _ in range(MAX_RETRIES + 3):
        _ran(asked, 0, DagsterRunStatus.FAILURE)
        data = asked.evaluate("unfinished_epochs")
        attempts += [request.run_key for request in data.run_requests or []]
    assert len(set(attempts)) == len(attempts) == MAX_RETRIES
    assert data.skip_message is not None
    assert "launch it by hand" in data.skip_message


def test_a_key_whose_run_never_came_is_asked_for(asked: Watch) -> None:
    """The daemon died between adding the keys and launching the runs."""
    (request,) = asked.requests("unfinished_epochs")
    assert (request.partition_key, request.tags["affine/attempt"]) == (epoch_name(0), "0")


def test_when_every_epoch_has_standings_nothing_is_asked_for(asked: Watch) -> None:
    for epoch in range(len(asked.epoch_keys())):
        _finished(asked, epoch)
    data = asked.evaluate("unfinished_epochs")
    assert not data.run_requests
    assert data.skip_message == "every epoch has its standings"
