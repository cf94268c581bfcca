"""What is said when a run fails: which epoch, which step, whose fault, what to do. A structured line in the daemon's log."""

from dagster import DagsterEvent, DefaultSensorStatus, RunFailureSensorContext, SensorDefinition, run_failure_sensor

__all__ = ["failure_sensors"]


def failure_sensors() -> list[SensorDefinition]:
    """The sensor ``run_failures``."""

    @run_failure_sensor(
        name="run_failures", default_status=DefaultSensorStatus.STOPPED,
        description="Log each failed run with its tags, its failed steps and each error's own reason, fault and next step.",
    )
    def run_failures(context: RunFailureSensorContext) -> None:
        tags = {name: value for name, value in context.dagster_run.tags.items() if name.startswith("affine/")}
        run = context.dagster_run
        why = "; ".join(map(_why, context.get_step_failure_events())) or context.failure_event.message
        context.log.error("run failed: run=%s job=%s tags=%s: %s", run.run_id, run.job_name, tags, why)

    return [run_failures]


def _why(event: DagsterEvent) -> str:
    """The step and what was raised in it, without Dagster's wrapping and without the stack."""
    error = event.step_failure_data.error
    while error is not None and error.cause is not None:
        error = error.cause
    return f"{event.step_key}: {'no error was recorded' if error is None else error.message.strip()}"
