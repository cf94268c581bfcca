"""How much of a contest a child's training held, counted prompt by prompt.

Seeds of training and contest are drawn apart (``league/lessons.py``); in a family of few tasks they meet all the same. What must
not go in: a verdict on it.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import polars as pl

from affine_dagster.environments.registry import environment
from affine_dagster.tables import TASKS

__all__ = ["Overlap", "overlaps"]


@dataclass(frozen=True)
class Overlap:
    """Of ``tasks`` tasks of an environment, the prompts of ``held`` stood in the training."""

    environment: str
    tasks: int
    held: int


def overlaps(seen: Set[tuple[str, str]], tasks: pl.DataFrame) -> list[Overlap]:
    """One an environment of the TASKS rows, sorted by name; ``seen`` are (environment, prompt) of a training."""
    found: list[Overlap] = []
    for (name,), rows in sorted(TASKS.check(tasks).group_by(["environment"]), key=lambda group: str(group[0])):
        source = environment(str(name))
        prompts = [source.task(seed).prompt for seed in rows["seed"]]
        found.append(Overlap(source.name, len(prompts), sum((source.name, prompt) in seen for prompt in prompts)))
    return found
