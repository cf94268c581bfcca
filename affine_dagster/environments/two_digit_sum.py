"""Family ``two_digit_sum``: the sum or the difference of two numbers of one or two digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affine_dagster.environments.answers import calculated
from affine_dagster.environments.port import Task
from affine_dagster.environments.reasoning import ReasoningFamily

__all__ = ["TWO_DIGIT_SUM"]


def _facts(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    expression = metadata["expression"]
    return {"digits": str(metadata["num_digits"]), "operator": expression.split()[1], "expression": expression}


def _judge(task: Task, completion: str) -> bool:
    return calculated(task.facts["expression"], completion) == int(task.answer)


TWO_DIGIT_SUM = ReasoningFamily(
    name="two_digit_sum",
    generator="chain_sum",
    level=(("min_terms", 2), ("max_terms", 2), ("min_digits", 1), ("max_digits", 2)),
    revision=1,
    majority_rate=0.0303,
    facts=_facts,
    judge=_judge,
)
"""Facts: ``digits`` 1 or 2 (both terms alike), ``operator`` + or -, ``expression``. Half of the tasks are :mod:`chain_sum`'s 200, half
one of 16,200 with two digits. The majority rate is exact: 109 in 3,600 give 0."""
