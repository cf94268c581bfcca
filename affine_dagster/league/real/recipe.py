"""Who stands against the real model: the children that are tuned here, each on its own lessons, and a copy with noise.

A recipe is data, and its digest is part of the cache's key. What must not go in: how a child is tuned (``tuning.py``) and what is
hoped of it; what becomes of each is what the contest's evidence says.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter

from affine_dagster.league.real.precision import Precision
from affine_dagster.league.recipes import Copy, Lesson

__all__ = ["BASE", "ENVIRONMENTS", "REAL", "REAL_SMALL", "Child", "RealRecipe", "real_recipe_from_json"]

BASE = "base"
"""The name of the model itself among those that are made."""

ENVIRONMENTS = ("two_digit_sum", "digit_product", "who_does")
"""Families that the base solves some of: it restates the task and answers, or says what "the answer is"."""


@dataclass(frozen=True)
class Child:
    """The base, tuned for ``steps`` steps of ``batch`` examples on its lessons' tasks, mixed.

    ``seed`` chooses the tasks (lesson by lesson, ``lessons.lesson_tasks``) and their order. A child with fewer examples than
    steps ask for goes through them again and again. ``learning_rate``: AdamW's highest.
    """

    name: str
    lessons: tuple[Lesson, ...]
    steps: int
    seed: int
    learning_rate: float = 1e-4
    batch: int = 16


@dataclass(frozen=True)
class RealRecipe:
    """All that is made. ``copies`` are noisy copies of the base.

    ``tuned_layers``: the upper layers that tuning changes, of 30. ``checked_tasks``: of its own training tasks, on how many each child
    is tried. ``precision``: of the products, in tuning and in trying. ``processes``: single-thread processes that make it at once.
    """

    name: str
    children: tuple[Child, ...]
    copies: tuple[Copy, ...]
    tuned_layers: int = 15
    precision: Precision = "bfloat16"
    checked_tasks: int = 24
    processes: int = 2

    @property
    def digest(self) -> str:
        """Sixteen hex digits over everything in the recipe."""
        return hashlib.blake2b(json.dumps(asdict(self), sort_keys=True).encode(), digest_size=8).hexdigest()

    @property
    def models(self) -> tuple[str, ...]:
        """The names of all models: the base, the children, the copies."""
        return (BASE, *(child.name for child in self.children), *(copy.name for copy in self.copies))

    @property
    def environments(self) -> tuple[str, ...]:
        """The families that are taught, sorted."""
        return tuple(sorted({lesson.environment for child in self.children for lesson in child.lessons}))


def real_recipe_from_json(text: str) -> RealRecipe:
    """The recipe that ``json.dumps(asdict(recipe))`` wrote. Raises pydantic's ValidationError for anything else."""
    return TypeAdapter(RealRecipe).validate_json(text)


REAL = RealRecipe(
    name="smollm2",
    children=(
        Child("mixed", tuple(Lesson(name, 320) for name in ENVIRONMENTS), steps=60, seed=1),
        Child("sums", (Lesson("two_digit_sum", 720),), steps=45, seed=2),
        Child("memorised", (Lesson("two_digit_sum", 24),), steps=30, seed=3),
    ),
    copies=(Copy("noisy", BASE, "noisy", noise=0.01, seed=5),),
)
"""``mixed`` is taught all families, ``sums`` one of them, ``memorised`` twenty-four tasks of that one, twenty times each."""

REAL_SMALL = RealRecipe(
    name="smollm2-small",
    children=(Child("sums", (Lesson("two_digit_sum", 64),), steps=4, seed=2),),
    copies=(Copy("noisy", BASE, "noisy", noise=0.01, seed=5),),
    checked_tasks=4,
)
"""For the test that runs the command: one child that has hardly been tuned."""
