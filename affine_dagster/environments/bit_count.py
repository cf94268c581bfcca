"""Family ``bit_count``: how many ones a number from 1 to 1023 has in binary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affine_dagster.environments.answers import integer
from affine_dagster.environments.port import Task
from affine_dagster.environments.reasoning import ReasoningFamily

__all__ = ["BIT_COUNT"]


def _facts(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    return {"number": str(metadata["number"]), "bits": str(len(metadata["binary"]))}


def _judge(task: Task, completion: str) -> bool:
    return integer(completion) == int(task.answer)


BIT_COUNT = ReasoningFamily(
    name="bit_count",
    generator="count_bits",
    level=(("min_n", 1), ("max_n", 1023)),
    revision=1,
    majority_rate=0.2464,
    facts=_facts,
    judge=_judge,
)
"""Facts: ``number`` 1..1023, ``bits`` its length in binary, 1..10. The majority rate is exact: 252 of the 1,023 numbers have five ones."""
