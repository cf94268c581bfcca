"""The adapter to reasoning-gym: a configured generator of that library as an environment of ours.

Only its *tasks* are used. Its graders are not: they give up to .25 for a printed "reward: 1" and .02 to .05 for nonsense,
accept a list whose numbers are off by one, and one calls ``eval``. What must not go in: any family's configuration
(one file each beside this one).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from affine_dagster.environments.port import Grade, Task
from affine_dagster.reasons import AffineError

__all__ = ["LIBRARY_VERSION", "ReasoningFamily"]

LIBRARY_VERSION = "0.1.25"
"""The reasoning-gym whose tasks these are. Part of every version string; another installed version is refused."""

Level = tuple[tuple[str, int | float | bool], ...]


@dataclass(frozen=True)
class ReasoningFamily:
    """One reasoning-gym generator at one level.

    ``revision`` counts our own changes of level or grader. ``facts`` turns the library's item into the level facts of the task;
    ``judge`` says whether a completion gives the task's answer. ``majority_rate`` is measured (``audit.measure_majority``).
    """

    name: str
    generator: str
    level: Level
    revision: int
    majority_rate: float
    facts: Callable[[Mapping[str, Any]], Mapping[str, str]]
    judge: Callable[[Task, str], bool]

    @property
    def version(self) -> str:
        """Our revision and the library's version; safe in paths."""
        return f"{self.revision}-rg{LIBRARY_VERSION}"

    def task(self, seed: int) -> Task:
        """The task of a seed in [0, 2**64).

        The seed is hashed into the generator's own seed: reasoning-gym adds an item's index to its seed, so neighbouring seeds
        used as they are would share tasks. Raises ValueError for a seed outside the range, AffineError ``bad_settings`` if
        another reasoning-gym is installed.
        """
        if not 0 <= seed < 2**64:
            raise ValueError(f"a task seed is in [0, 2**64), not {seed}")
        text = f"affine_dagster.environments|{self.name}|{self.version}|{seed}"
        hashed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
        item = _generator(self.generator, self.level)[hashed]  # the generator's seed is 0, so the item's is the hash
        return Task(
            environment=self.name, version=self.version, seed=seed,
            prompt=item["question"], answer=item["answer"], facts=self.facts(item["metadata"]),
        )

    def behaviour(self, task: Task) -> str:
        """The answer: grades compare with it."""
        return task.answer

    def grade(self, task: Task, completion: str) -> Grade:
        """Reward 1 or 0. A task of another environment or version is ``grader_failed``: its answer means something else here."""
        if (task.environment, task.version) != (self.name, self.version):
            return Grade(None, "grader_failed", f"{self.name} {self.version} was given a task of {task.environment} {task.version}")
        return Grade(1.0 if self.judge(task, completion) else 0.0)

    def grade_all(self, tasks: Sequence[Task], completions: Sequence[str]) -> list[Grade]:
        """One by one: comparing costs microseconds."""
        return [self.grade(task, completion) for task, completion in zip(tasks, completions, strict=True)]


@lru_cache(maxsize=64)
def _generator(name: str, level: Level) -> Any:
    """The library's dataset object, kept: making one costs up to 25 ms (a word list) and a task 10 microseconds."""
    import reasoning_gym

    if (installed := version("reasoning-gym")) != LIBRARY_VERSION:
        raise AffineError("bad_settings", f"reasoning-gym {installed} is installed; these tasks are those of {LIBRARY_VERSION}")
    return reasoning_gym.create_dataset(name, seed=0, size=1, **dict(level))
