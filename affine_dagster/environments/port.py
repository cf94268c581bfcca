"""What an environment is: a seed gives a task, a task and a completion give a reward in [0, 1] or a fault.

What must not go in: how tasks are drawn (``evaluation/``), how a model is run (``serving/``), or any family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Environment", "Grade", "Task"]


@dataclass(frozen=True)
class Task:
    """One task. ``prompt`` is the user's message; ``answer`` is for the grader alone; ``facts`` say what it was made from."""

    environment: str
    version: str
    seed: int
    prompt: str
    answer: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Grade:
    """A reward in [0, 1], or None with a reason code (a fault that is not the model's)."""

    reward: float | None
    reason: str | None = None
    detail: str = ""


class Environment(Protocol):
    """A source of seeded, verifiable tasks. The same (name, version, seed) gives the same task for ever."""

    @property
    def name(self) -> str:
        """Safe in paths and asset keys: ``[a-z0-9_]``."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever a task or a grade would."""
        ...

    @property
    def majority_rate(self) -> float:
        """Share of tasks that the single most common answer solves; published, and refused above 0.3."""
        ...

    def task(self, seed: int) -> Task:
        """The task of a seed in [0, 2**64). Deterministic across processes."""
        ...

    def behaviour(self, task: Task) -> str:
        """What tasks have in common that one completion solves: the answer, or for programs what a right one does."""
        ...

    def grade(self, task: Task, completion: str) -> Grade:
        """Judge a completion. Never raises on a completion, whatever it holds."""
        ...

    def grade_all(self, tasks: Sequence[Task], completions: Sequence[str]) -> list[Grade]:
        """Judge each completion on its task, together where that is cheaper; the same grades as one by one.

        Raises ValueError where there are not as many completions as tasks.
        """
        ...
