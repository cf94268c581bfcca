"""CPU seconds to make the demo's league from nothing, and tasks a CPU-second that one of its models answers.

The league is made in a fresh cache folder. What must not go in: how well its models are (the league measures that itself).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from affine_dagster.environments.port import Task
from affine_dagster.environments.registry import environments
from affine_dagster.league.make import League, make_league
from affine_dagster.league.recipes import DEMO
from affine_dagster.serving.port import LoadedModel, Sampling
from affine_dagster.serving.transformers import TransformersEngine
from affine_dagster.settings import EvaluationSettings, ServingSettings
from benchmarks._figures import Figure, median_of

__all__ = ["run"]

LEAGUES = 2
REPEATS = 5
TASKS = 500
"""Tasks an environment that are answered in one repeat."""

MODEL = "strong"
FIRST_SEED = 9_000_000_000
BOUND_SECONDS = 100.0
"""CPU seconds that a league may take (the project's issue 3)."""


def run() -> list[Figure]:
    """Making, then serving."""
    with tempfile.TemporaryDirectory() as folder:
        made = [make_league(Path(folder) / f"cache{number}", DEMO) for number in range(LEAGUES)]
        return [
            median_of(
                "a cold league, CPU", [league.cpu_seconds for league in made], "s", other=[BOUND_SECONDS], against="the bound",
                note=f"{DEMO.processes} processes of one thread; {len(made[0].models)} repositories, measured skills included",
            ),
            median_of("a cold league, wall", [league.wall_seconds for league in made], "s"),
            *_serving(made[0]),
        ]


def _serving(league: League) -> list[Figure]:
    serving, batch = ServingSettings(), EvaluationSettings().batch_tasks
    sampling = Sampling(serving.temperature, serving.top_p, serving.max_new_tokens, serving.max_model_length)
    families = environments(DEMO.environments)
    tasks = [[family.task(FIRST_SEED + number) for number in range(TASKS)] for family in families]
    asked = [calls for family in tasks for calls in _calls(family, batch)]
    at_once = [calls for family in tasks for calls in _calls(family, serving.batch_size)]
    by_family: dict[str, list[float]] = {family.name: [] for family in families}
    small, large = [], []
    with TransformersEngine(serving).open(league.models[MODEL]) as model:
        _rate(model, asked[:1], sampling)
        for _ in range(REPEATS):
            small.append(_rate(model, asked, sampling))
            large.append(_rate(model, at_once, sampling))
            for family, own in zip(families, tasks, strict=True):
                by_family[family.name].append(_rate(model, _calls(own, batch), sampling))
    total = median_of(
        f"tasks a CPU-second of a league model, {batch} prompts a call (the defaults)", small, "tasks", other=large,
        against=f"{serving.batch_size} prompts a call", note=f"{MODEL}, four environments alike, one thread; without loading and grading",
    )
    return [total, *(median_of(f"  {name}", rates, "tasks") for name, rates in by_family.items())]


def _calls(tasks: Sequence[Task], size: int) -> list[Sequence[Task]]:
    return [tasks[first : first + size] for first in range(0, len(tasks), size)]


def _rate(model: LoadedModel, calls: Sequence[Sequence[Task]], sampling: Sampling) -> float:
    began = time.process_time()
    answers = sum(len(model.complete([one.prompt for one in call], [one.seed for one in call], sampling)) for call in calls)
    return answers / (time.process_time() - began)
