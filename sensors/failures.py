"""What is said when a run fails: which epoch, which step, whose fault, what to do. A structured line in the daemon's log."""

from dagster import DefaultSensorStatus, RunFailureSensorContext, SensorDefinition, run_failure_sensor

__all__ = ["failure_sensors"]


def failure_sensors() -> list[SensorDefinition]:
    """The sensor ``run_failures``."""

    @run_failure_sensor(name="run_failures", default_status=DefaultSensorStatus.STOPPED)
    def run_failures(context: RunFailureSensorContext) -> None:
        """Log each failed run with its tags and the error's own reason."""
        tags = {name: value for name, value in context.dagster_run.tags.items() if name.startswith("affine/")}
        run = context.dagster_run
        context.log.error("run failed: run=%s job=%s tags=%s: %s", run.run_id, run.job_name, tags, context.failure_event.message)

    return [run_failures]
