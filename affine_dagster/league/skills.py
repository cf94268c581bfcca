"""Measured skill: how often a model solves an environment's tasks, on tasks that neither training nor tuning drew.

Measured with the engine and the graders of a contest, so that a verdict can be held against it. What must not go in: a hoped-for
skill. See ``lessons.py`` for what "never seen" can mean in a family of few tasks; here it is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from affine_dagster.environments.port import Environment, Task
from affine_dagster.reasons import AffineError
from affine_dagster.serving.port import LoadedModel, Sampling

__all__ = ["CONFIDENCE", "Skill", "rewards", "skill", "wilson"]

CONFIDENCE = 0.95
"""Two-sided coverage of a skill's interval, one model and environment at a time."""

_Z = 1.959963984540054
"""The normal quantile of (1 + CONFIDENCE) / 2."""


@dataclass(frozen=True)
class Skill:
    """One model in one environment.

    ``mean``, ``low``, ``high``: reward in [0, 1] over ``tasks`` tasks, with Wilson's interval. ``seen``: share of these tasks whose
    prompt the model's training (its parents' included) or its choice held. ``unseen_mean``: the mean over the others; None without others.
    """

    model: str
    environment: str
    tasks: int
    mean: float
    low: float
    high: float
    seen: float
    unseen_mean: float | None


def wilson(successes: int, tasks: int) -> tuple[float, float]:
    """Wilson's score interval (1927) of a share, two-sided at :data:`CONFIDENCE`. Raises ValueError without tasks."""
    if tasks < 1 or not 0 <= successes <= tasks:
        raise ValueError(f"{successes} of {tasks} tasks")
    share = successes / tasks
    spread = 1 + _Z**2 / tasks
    middle = (share + _Z**2 / (2 * tasks)) / spread
    half = _Z * sqrt(share * (1 - share) / tasks + _Z**2 / (4 * tasks**2)) / spread
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))  # rounding must not part them at 0 and 1


def rewards(loaded: LoadedModel, source: Environment, tasks: Sequence[Task], sampling: Sampling) -> list[float]:
    """The reward of every task, in order.

    Raises AffineError with the fault's own code if engine or grader give none: a league is not made from gaps.
    """
    completions = loaded.complete([task.prompt for task in tasks], [task.seed for task in tasks], sampling)
    for completion in completions:
        if completion.reason is not None:
            raise AffineError(completion.reason, f"{source.name}: {completion.detail}")
    found: list[float] = []
    for grade in source.grade_all(tasks, [completion.text for completion in completions]):
        if grade.reward is None:
            raise AffineError(grade.reason or "grader_failed", f"{source.name}: {grade.detail}")
        found.append(grade.reward)
    return found


def skill(model: str, environment: str, given: Sequence[float], seen: Sequence[bool]) -> Skill:
    """The skill that rewards of 0 and 1 show; ``seen`` says of each task whether training held its prompt."""
    low, high = wilson(round(sum(given)), len(given))
    unseen = [reward for reward, known in zip(given, seen, strict=True) if not known]
    return Skill(
        model, environment, len(given), sum(given) / len(given), low, high,
        seen=1 - len(unseen) / len(given), unseen_mean=sum(unseen) / len(unseen) if unseen else None,
    )
