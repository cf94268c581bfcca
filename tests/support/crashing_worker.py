"""A worker process over the fake engine that kills itself by a signal on one task: ``crashing_worker.py PROMPT JOB LEASE``.

The weights say by which signal (the skill ``crashes``); ``any`` as the prompt stands for all. Everything else is the real worker.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evaluation_parts import Digits, FakeEngine

from affine_dagster.environments.registry import environment
from affine_dagster.evaluation import worker
from affine_dagster.evaluation.job import EvaluationJob
from affine_dagster.serving.port import Completion, LoadedModel


@dataclass
class CrashingEngine(FakeEngine):
    """The fake engine, which dies when a model that crashes is asked the fatal prompt."""

    fatal: str = ""

    @contextmanager
    def open(self, folder: Path) -> Iterator[LoadedModel]:
        number = json.loads((folder / "model.safetensors").read_text())["skill"].get("crashes")

        def die(prompt: str, call: int) -> Completion | None:
            if number is not None and self.fatal in (prompt, "any"):
                if number != signal.SIGKILL:
                    signal.signal(number, signal.SIG_DFL)  # a signal that the launcher's own process ignores is inherited
                os.kill(os.getpid(), number)
            return None

        self.fault = die
        with super().open(folder) as model:
            yield model


def digits(name: str) -> Digits:
    return Digits(name, environment(name).version)


def worker_of(job: EvaluationJob, report: worker.Report) -> worker.Worker:
    made = REAL(job, report)
    made._engine = CrashingEngine(fatal=sys.argv[1])
    made._environments = {name: digits(name) for name in job.environments}
    return made


if __name__ == "__main__":
    REAL = worker.worker_of
    worker.worker_of = worker_of  # type: ignore[assignment]
    os._exit(worker.main(Path(sys.argv[2]), Path(sys.argv[3])))
