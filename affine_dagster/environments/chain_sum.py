"""Family ``chain_sum``: the sum or the difference of two digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affine_dagster.environments.answers import integer
from affine_dagster.environments.port import Task
from affine_dagster.environments.reasoning import ReasoningFamily

__all__ = ["CHAIN_SUM"]


def _facts(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    expression = metadata["expression"]
    return {"terms": str(metadata["num_terms"]), "operator": expression.split()[1], "expression": expression}


def _judge(task: Task, completion: str) -> bool:
    return integer(completion) == int(task.answer)


CHAIN_SUM = ReasoningFamily(
    name="chain_sum",
    generator="chain_sum",
    level=(("min_terms", 2), ("max_terms", 2), ("min_digits", 1), ("max_digits", 1)),
    revision=1,
    majority_rate=0.055,
    facts=_facts,
    judge=_judge,
)
"""Facts: ``operator`` + or -, ``terms``, ``expression``. The majority rate is exact: each of 0..9 answers 11 of 200 tasks."""
