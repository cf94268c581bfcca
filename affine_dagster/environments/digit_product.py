"""Family ``digit_product``: the product of two digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affine_dagster.environments.answers import calculated
from affine_dagster.environments.port import Task
from affine_dagster.environments.reasoning import ReasoningFamily

__all__ = ["DIGIT_PRODUCT"]


def _facts(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    return {"expression": metadata["expression"]}


def _judge(task: Task, completion: str) -> bool:
    return calculated(task.facts["expression"], completion) == int(task.answer)


DIGIT_PRODUCT = ReasoningFamily(
    name="digit_product",
    generator="products",
    level=(("min_terms", 2), ("max_terms", 2), ("min_digits", 1), ("max_digits", 1)),
    revision=1,
    majority_rate=0.19,
    facts=_facts,
    judge=_judge,
)
"""Facts: ``expression``. There are 100 tasks, so that whoever trains on the family has seen them all; the majority rate is exact: 19 of
them give 0."""
