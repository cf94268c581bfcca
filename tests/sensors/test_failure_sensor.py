"""Laws of the failures' sensor: a failed run is logged with what it was and the error's own reason."""

from __future__ import annotations

import pytest
from dagster import DagsterInstance, build_run_status_sensor_context, job, op

from affine_dagster.definitions import build_defs
from affine_dagster.reasons import AffineError


@op
def falls() -> None:
    raise AffineError("chain_unavailable", "block 150")


@job
def falling() -> None:
    falls()


def test_a_failed_run_is_logged_with_its_tags_and_reason(capfd: pytest.CaptureFixture[str]) -> None:
    sensor = build_defs("").get_repository_def().get_sensor_def("run_failures")
    with DagsterInstance.ephemeral() as instance:
        ran = falling.execute_in_process(instance=instance, raise_on_error=False, tags={"affine/epoch": "7", "other": "x"})
        (event,) = [entry for entry in ran.all_events if entry.is_run_failure]
        context = build_run_status_sensor_context("run_failures", event, instance, ran.dagster_run).for_run_failure()
        sensor(context)
    (said,) = [line for line in capfd.readouterr().err.split("\n") if "run failed:" in line]
    assert ran.run_id in said
    assert "'affine/epoch': '7'" in said
    assert "other" not in said
    assert "falls: affine_dagster.reasons.AffineError: chain_unavailable: block 150 (fault: chain; next: check the endpoint)" in said
