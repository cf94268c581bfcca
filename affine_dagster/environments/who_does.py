"""Family ``who_does``: of two to four statements about people, the name in the one that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affine_dagster.environments.answers import named
from affine_dagster.environments.port import Task
from affine_dagster.environments.reasoning import ReasoningFamily

__all__ = ["WHO_DOES"]


def _facts(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    predicate = metadata["question"].removeprefix("Who ").removesuffix("? Reply only with a name.")
    return {"statements": str(metadata["num_statements"]), "predicate": predicate}


def _judge(task: Task, completion: str) -> bool:
    given = named(task.facts["predicate"], completion)
    return given is not None and given == task.answer.lower()


WHO_DOES = ReasoningFamily(
    name="who_does",
    generator="needle_haystack",
    level=(("min_num_statements", 2), ("max_num_statements", 4)),
    revision=1,
    majority_rate=0.00037,
    facts=_facts,
    judge=_judge,
)
"""Facts: ``statements`` 2..4, ``predicate`` of the question. Right: the name alone, or the statement itself; any of 2,738 names."""
