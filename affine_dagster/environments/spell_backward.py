"""Family ``spell_backward``: an English word of three to five letters, to be spelled from its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affine_dagster.environments.answers import word
from affine_dagster.environments.port import Task
from affine_dagster.environments.reasoning import ReasoningFamily

__all__ = ["SPELL_BACKWARD"]


def _facts(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    return {"letters": str(metadata["word_len"])}


def _judge(task: Task, completion: str) -> bool:
    given = word(completion)
    return given is not None and given == word(task.answer)


SPELL_BACKWARD = ReasoningFamily(
    name="spell_backward",
    generator="spell_backward",
    level=(("min_word_len", 3), ("max_word_len", 5)),
    revision=1,
    majority_rate=0.0003,
    facts=_facts,
    judge=_judge,
)
"""Facts: ``letters`` 3..5. Right: the reversed word alone, in any case."""
