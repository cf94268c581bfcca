"""Ticking a sensor and running what it asks for, in this process, on a real Dagster instance: for the demo and the tests.

The daemon does the same with a process a run, and as the daemon's, what was asked for survives the process: cursors and run keys
stand on the instance. What must not go in: which epochs there are (the sensors say so).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dagster import (
    DagsterEventType,
    DagsterInstance,
    DagsterRunStatus,
    Definitions,
    EventLogEntry,
    RunRequest,
    RunsFilter,
    SensorEvaluationContext,
)
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult
from dagster._core.storage.tags import REPOSITORY_LABEL_TAG, RUN_KEY_TAG

__all__ = ["LOCATION", "Ticker"]

LOCATION = "affine_dagster"
"""The code location of workspace.yaml: by it the UI finds a run on its job's page and on the timeline, as it finds the daemon's."""

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


UNDER_WAY = [DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]


@dataclass(frozen=True)
class Ticker:
    """Ticks the sensors of ``definitions`` and runs what they ask for. One ticker at a time may work on an instance."""

    definitions: Definitions
    instance: DagsterInstance
    said: Callable[[str], None] = lambda _: None

    def tick(self, sensor_name: str, job_name: str) -> list[ExecuteInProcessResult]:
        """Evaluate a sensor once and run every request with a new run key, in order. A failed run raises its error.

        The cursor moves after the runs: a tick that was killed is repeated, and the run keys that have a run are passed over.
        """
        requests, cursor = self._evaluate(sensor_name)
        results = [self.run(job_name, request) for request in requests if not self._has_run(request)]
        if cursor is not None:
            self.instance.daemon_cursor_storage.set_cursor_values({_cursor_key(sensor_name): cursor})
        return results

    def fail_dead_runs(self) -> list[str]:
        """Mark the runs that an earlier ticker's process left under way as failed, and return their ids.

        Only for a caller that knows that no other process runs jobs on this instance: the runs' own processes are gone.
        """
        dead = self.instance.get_runs(RunsFilter(statuses=UNDER_WAY))
        for run in dead:
            self.instance.report_run_failed(run, message="the process that ran it is gone; what it finished stands, the rest is run again")
        return [run.run_id for run in dead]

    @property
    def _label(self) -> str:
        return f"{self.definitions.get_repository_def().name}@{LOCATION}"

    def _has_run(self, request: RunRequest) -> bool:
        return request.run_key is not None and self.instance.get_runs_count(RunsFilter(tags={RUN_KEY_TAG: request.run_key})) > 0

    def run(self, job_name: str, request: RunRequest) -> ExecuteInProcessResult:
        """Run a job for a request, in this process, recorded on the instance."""
        run_id = str(uuid.uuid4())
        with self._progress(run_id):
            return self.definitions.resolve_job_def(job_name).execute_in_process(
                instance=self.instance,
                partition_key=request.partition_key,
                tags={**request.tags, RUN_KEY_TAG: request.run_key or run_id, REPOSITORY_LABEL_TAG: self._label},
                run_id=run_id,
                run_config=QUIET,
            )

    def _evaluate(self, name: str) -> tuple[list[RunRequest], str | None]:
        """What a sensor asks for, and its new cursor (None: it stays). The partition keys that it asks for are added."""
        repository = self.definitions.get_repository_def()
        sensor = repository.get_sensor_def(name)
        with SensorEvaluationContext(
            instance_ref=self.instance.get_ref(),
            last_tick_completion_time=None,
            last_run_key=None,
            cursor=self.instance.daemon_cursor_storage.get_cursor_values({_cursor_key(name)}).get(_cursor_key(name)),
            log_key=None,
            repository_name=repository.name,
            repository_def=repository,
            sensor_name=name,
            resources=repository.get_top_level_resources(),
        ) as context:
            data = sensor.evaluate_tick(context)
        for request in data.dynamic_partitions_requests or []:
            self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        if data.skip_message:
            self.said(f"{name}: {data.skip_message}")
        return list(data.run_requests or []), data.cursor

    @contextmanager
    def _progress(self, run_id: str) -> Iterator[None]:
        def seen(entry: EventLogEntry) -> None:
            event = entry.dagster_event
            if event is not None and event.event_type is DagsterEventType.STEP_SUCCESS:
                self.said(f"  {event.step_key}: {event.step_success_data.duration_ms / 1000:.1f} s")
            elif event is None and entry.step_key == "evaluations":
                self.said(f"    {_short(entry.user_message)}")

        self.instance.add_event_listener(run_id, seen)
        yield


def _cursor_key(sensor_name: str) -> str:
    return f"affine/ticker/{sensor_name}"


def _short(message: str) -> str:
    try:
        return " ".join(f"{name}={value}" for name, value in json.loads(message).items())
    except ValueError:
        return message
