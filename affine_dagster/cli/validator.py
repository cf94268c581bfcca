"""The validator on a world, in this process: the sensors are ticked and what they ask for is run, until they ask for nothing more.

For the demo, the tests and the benchmarks; an installation runs Dagster's daemon on the same sensors. Only the chain and the
hub are seen here: who plays their other side stands in ``league/world.py``. What must not go in: any step of the job.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dagster import DagsterInstance

from affine_dagster.cli.runs import Ticker
from affine_dagster.cli.serve import dagster_environment, prepare_home
from affine_dagster.evaluation.lease import lease
from affine_dagster.league.world import World
from affine_dagster.reasons import AffineError

__all__ = ["run_epochs", "validator"]


def run_epochs(world: World, said: Callable[[str], None] = lambda _: None) -> None:
    """Run every epoch that has closed on the world's chain and is not finished, and send the newest weights."""
    with validator(world, said) as catch_up:
        catch_up()


@contextmanager
def validator(world: World, said: Callable[[str], None] = lambda _: None) -> Iterator[Callable[[], None]]:
    """While inside, be the world's one validator; the function that is given runs all that is due.

    Runs that a killed validator left under way are marked as failed. Raises ``validator_runs`` where another one is at work.
    """
    prepare_home(world)
    os.environ.update(dagster_environment(world))
    from affine_dagster.definitions import EPOCH_JOB, SEND_JOB, build_defs

    with lease(world.home / "validator.lease") as alone, DagsterInstance.get() as instance:
        if not alone:
            raise AffineError("validator_runs", f"on {world.home}")
        ticker = Ticker(build_defs(str(world.settings_path)), instance, said)
        for run_id in ticker.fail_dead_runs():
            said(f"run {run_id} was left by a process that is gone")
        ticks = (("unfinished_epochs", EPOCH_JOB), ("epochs", EPOCH_JOB), ("weights_due", SEND_JOB))

        def catch_up() -> None:
            while sum(len(ticker.tick(sensor, job)) for sensor, job in ticks):
                pass

        yield catch_up
