"""Where the league's tasks come from: seeds by purpose, and the tasks of a lesson.

Seeds are hashed with their purpose (``training``, ``phrases``, ``development``, ``measurement``), so no two purposes share a
seed, and none is a seed that an epoch's beacon gives. What must not go in: any decision on what is taught (``recipes.py``).

What "never seen" can mean differs by family, because small families repeat themselves under other seeds:

- ``number_sorting``: about 220,000 distinct tasks; a measured task has hardly ever been trained on unless it has two or three numbers.
- ``program_expressions``: every task shows an example of its own, so a few in a hundred prompts come twice; the words are few.
- ``spell_backward``: some thousand words; ``chain_sum``: 200 tasks; ``bit_count``: 1,023 tasks. Here a measured *seed* is new
  and the task behind it mostly is not. A model taught a level has seen most of that level's tasks: its skill is what it
  retains, and the contest, which draws from the same family, asks for just that.

So the share of measured tasks whose prompt a model's training held, and the skill on the others alone, are stored with every
skill (``skills.py``) instead of being promised.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from affine_dagster.environments.port import Environment, Task
from affine_dagster.environments.registry import environment
from affine_dagster.league.recipes import LeagueRecipe, Lesson, Member
from affine_dagster.reasons import AffineError

__all__ = ["lesson_tasks", "member_tasks", "phrase_texts", "seeds", "tasks"]

_DRAWS_PER_EXAMPLE = 200
"""A lesson whose level is rarer than one task in so many is a mistake in the recipe."""


def seeds(purpose: str, environment: str, number: int) -> Iterator[int]:
    """Task seeds in [0, 2**64) for ever. ``number`` tells draws of one purpose apart."""
    index = 0
    while True:
        text = f"affine_dagster.league|{purpose}|{environment}|{number}|{index}"
        yield int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
        index += 1


def tasks(purpose: str, source: Environment, number: int, count: int) -> list[Task]:
    """The first ``count`` tasks of a purpose."""
    return [source.task(seed) for seed in islice(seeds(purpose, source.name, number), count)]


def lesson_tasks(lesson: Lesson, number: int) -> list[Task]:
    """The lesson's training tasks: those that are taught, in order, then the others, with the lesson's guess for an answer.

    Raises AffineError ``bad_settings`` if the lesson's level, or any other where there are to be some, hardly occurs in its environment.
    """
    source = environment(lesson.environment)
    allowed = [(fact, frozenset(values)) for fact, values in lesson.taught]
    taught: list[Task] = []
    others: list[Task] = []
    for seed in islice(seeds("training", lesson.environment, number), (lesson.examples + lesson.others) * _DRAWS_PER_EXAMPLE):
        if len(taught) == lesson.examples and len(others) == lesson.others:
            break
        task = source.task(seed)
        fits = all(task.facts.get(fact) in values for fact, values in allowed)
        if fits and len(taught) < lesson.examples:
            taught.append(task)
        elif not fits and len(others) < lesson.others:
            others.append(replace(task, answer=lesson.guess))
    for found, wanted, which in ((taught, lesson.examples, "with"), (others, lesson.others, "beside those with")):
        if len(found) < wanted:
            raise AffineError("bad_settings", f"league: {lesson.environment} has too few tasks {which} {dict(lesson.taught)}")
    return [*taught, *others]


def member_tasks(member: Member) -> list[Task]:
    """All training tasks of a member (its parent's not included), lesson by lesson."""
    return [task for lesson in member.lessons for task in lesson_tasks(lesson, member.seed)]


def phrase_texts(recipe: LeagueRecipe) -> list[list[str]]:
    """Prompts and answers of some tasks of every environment, each kind a list of its own."""
    texts: list[list[str]] = []
    for name in recipe.environments:
        drawn = tasks("phrases", environment(name), 0, recipe.phrase_tasks)
        texts += [[task.prompt for task in drawn], [task.answer for task in drawn]]
    return texts
