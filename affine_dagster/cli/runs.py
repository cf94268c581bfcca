"""Ticking a sensor and running what it asks for, in this process, on a real Dagster instance: for the demo and the tests.

The daemon does the same with a process a run. What must not go in: which epochs there are (the sensors say so).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dagster import DagsterEventType, DagsterInstance, Definitions, EventLogEntry, RunRequest, SensorEvaluationContext
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

__all__ = ["Ticker"]

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass
class Ticker:
    """Holds the sensors' cursors and the run keys that were asked for, as the daemon does."""

    definitions: Definitions
    instance: DagsterInstance
    said: Callable[[str], None] = lambda _: None
    cursors: dict[str, str | None] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def tick(self, sensor_name: str, job_name: str) -> list[ExecuteInProcessResult]:
        """Evaluate a sensor once and run every request with a new run key, in order. A failed run raises its error."""
        requests = self._requests(sensor_name)
        results = []
        for request in requests:
            if request.run_key is not None and request.run_key in self.asked:
                continue
            self.asked.add(request.run_key or uuid.uuid4().hex)
            results.append(self.run(job_name, request))
        return results

    def run(self, job_name: str, request: RunRequest) -> ExecuteInProcessResult:
        """Run a job for a request, in this process, recorded on the instance."""
        run_id = str(uuid.uuid4())
        with self._progress(run_id):
            return self.definitions.resolve_job_def(job_name).execute_in_process(
                instance=self.instance,
                partition_key=request.partition_key,
                tags=dict(request.tags),
                run_id=run_id,
                run_config=QUIET,
            )

    def _requests(self, name: str) -> list[RunRequest]:
        repository = self.definitions.get_repository_def()
        sensor = repository.get_sensor_def(name)
        with SensorEvaluationContext(
            instance_ref=self.instance.get_ref(),
            last_tick_completion_time=None,
            last_run_key=None,
            cursor=self.cursors.get(name),
            log_key=None,
            repository_name=repository.name,
            repository_def=repository,
            sensor_name=name,
            resources=repository.get_top_level_resources(),
        ) as context:
            data = sensor.evaluate_tick(context)
        self.cursors[name] = data.cursor if data.cursor is not None else self.cursors.get(name)
        for request in data.dynamic_partitions_requests or []:
            self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        if data.skip_message:
            self.said(f"{name}: {data.skip_message}")
        return list(data.run_requests or [])

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


def _short(message: str) -> str:
    try:
        return " ".join(f"{name}={value}" for name, value in json.loads(message).items())
    except ValueError:
        return message
