"""Family ``number_sorting``: two to five numbers from 0 to 9, to be put in order and printed as a list of strings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affine_dagster.environments.answers import integer_list
from affine_dagster.environments.port import Task
from affine_dagster.environments.reasoning import ReasoningFamily

__all__ = ["NUMBER_SORTING"]


def _facts(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    return {"numbers": str(metadata["numbers"]), "direction": metadata["direction"]}


def _judge(task: Task, completion: str) -> bool:
    given = integer_list(completion)
    return given is not None and given == integer_list(task.answer)


NUMBER_SORTING = ReasoningFamily(
    name="number_sorting",
    generator="number_sorting",
    level=(("min_numbers", 2), ("max_numbers", 5), ("min_decimals", 0), ("max_decimals", 0), ("min_value", 0), ("max_value", 9)),
    revision=1,
    majority_rate=0.004,
    facts=_facts,
    judge=_judge,
)
"""Facts: ``numbers`` 2..5, ``direction`` ascending or descending. Right: the same values in the same order, as a list."""
