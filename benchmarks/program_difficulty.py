"""Share of program tasks solved, level by level: by the league's models, by SmolLM2-135M-Instruct where it is installed, and by rote.

``rote`` answers each level's commonest program of a hundred other tasks; ``constant`` a function that returns 0. What must not go in: how a
program is judged. SmolLM2 comes with ``make demo-real``; where it is not installed its column says so.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from affine_dagster.cli.main import default_cache
from affine_dagster.environments.audit import seeds
from affine_dagster.environments.programs.family import LEVELS, ProgramFamily
from affine_dagster.league.make import make_league
from affine_dagster.league.real.source import check_packages, unpack
from affine_dagster.league.recipes import DEMO
from affine_dagster.league.skills import wilson
from affine_dagster.reasons import AffineError
from affine_dagster.serving.port import Sampling
from affine_dagster.settings import ServingSettings
from benchmarks._figures import Figure

if TYPE_CHECKING:
    from affine_dagster.environments.port import Task

__all__ = ["run"]

TASKS = 200
REAL_TASKS = 48
_FAMILIES = {level: ProgramFamily("program_difficulty", (level,), revision=1, majority_rate=0.1) for level in LEVELS}

Answers = Callable[[Sequence["Task"]], list[str]]


def run(tasks: int = TASKS, real_tasks: int = REAL_TASKS) -> list[Figure]:
    """One figure a level and answerer, with Wilson's 95 % interval; and what judging costs."""
    print("  level" + "".join(f"{name:>28}" for name in ("constant", "rote", "league base", "league strong", "SmolLM2-135M")), flush=True)
    league = make_league(default_cache() / "league", DEMO)
    answerers: dict[str, tuple[int, Answers]] = {
        "constant": (tasks, lambda drawn: ["def f(*a):\n    return 0"] * len(drawn)),
        "rote": (tasks, _by_rote),
    }
    for name in ("base", "strong"):
        answerers[f"league {name}"] = (tasks, _model(league.models[name], ServingSettings(max_new_tokens=48)))
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        real = _real(Path(folder))
        if real is not None:
            answerers["SmolLM2-135M"] = (real_tasks, real)
        for level, family in _FAMILIES.items():
            found = {name: _solved(family, count, answers) for name, (count, answers) in answerers.items()}
            print(f"  {level:5d}" + "".join(f"{_cell(solved, count):>28}" for solved, count in found.values()), flush=True)
            figures += [
                Figure(f"level {level}, {name}", solved / count, "share", *wilson(solved, count), note=f"{solved} of {count} tasks")
                for name, (solved, count) in found.items()
            ]
    return [*figures, _judging(tasks)]


def _solved(family: ProgramFamily, count: int, answers: Answers) -> tuple[int, int]:
    drawn = [family.task(seed) for seed in seeds("difficulty", count, 0)]
    grades = family.grade_all(drawn, answers(drawn))
    missing = [grade for grade in grades if grade.reward is None]
    if missing:
        raise AffineError(missing[0].reason or "grader_failed", missing[0].detail)
    return round(sum(grade.reward or 0.0 for grade in grades)), count


def _cell(solved: int, count: int) -> str:
    low, high = wilson(solved, count)
    return f"{solved / count:.3f} ({low:.2f} to {high:.2f}) n={count}"


def _by_rote(drawn: Sequence[Task]) -> list[str]:
    """The program that solves most of a hundred other tasks of the level."""
    family = _FAMILIES[int(drawn[0].facts["level"])]
    others = [family.task(seed) for seed in seeds("difficulty rote", 100, 0)]
    common = Counter(family.behaviour(task) for task in others).most_common(1)[0][0]
    answer = next(task.answer for task in others if family.behaviour(task) == common)
    return [answer] * len(drawn)


def _model(folder: Path, settings: ServingSettings) -> Answers:
    """A model's greedy answers."""

    def answers(drawn: Sequence[Task]) -> list[str]:
        from affine_dagster.serving.transformers import TransformersEngine

        sampling = Sampling(settings.temperature, settings.top_p, settings.max_new_tokens, settings.max_model_length)
        with TransformersEngine(settings).open(folder) as loaded:
            completions = loaded.complete([task.prompt for task in drawn], [task.seed for task in drawn], sampling)
        return [completion.text for completion in completions]

    return answers


def _real(folder: Path) -> Answers | None:
    try:
        check_packages()
    except AffineError as error:
        print(f"  SmolLM2-135M: {error.detail}", flush=True)
        return None
    unpack(folder / "smollm2")
    settings = ServingSettings(dtype="float32", batch_size=24, max_new_tokens=96, max_model_length=1024)
    return _model(folder / "smollm2", settings)


def _judging(tasks: int) -> Figure:
    """Programs a second through the judge, all right and none judged before."""
    family = ProgramFamily("program_judging", (1, 2, 3), revision=1, majority_rate=0.1)
    drawn = [family.task(seed) for seed in seeds("judging", tasks, 0)]
    family.grade_all(drawn[:2], [task.answer for task in drawn[:2]])
    began = time.perf_counter()
    family.grade_all(drawn[2:], [task.answer for task in drawn[2:]])
    return Figure("right programs of levels 1 to 3 judged", (tasks - 2) / (time.perf_counter() - began), "programs/s", note="measured once")
