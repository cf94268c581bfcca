"""Judgements that are kept: the same completion of the same task is not run again.

Greedy models repeat themselves, copies repeat each other, and a task that is run again after a crash repeats its whole batch. Only final
judgements are kept, never a fault. What must not go in: where judgements come from.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

from affine_dagster.environments.port import Grade, Task

__all__ = ["JudgementCache", "judgement_key"]


class JudgementCache:
    """The newest ``size`` judgements by (environment, version, task, completion). Safe under threads."""

    def __init__(self, size: int = 100_000) -> None:
        """``size``: judgements kept; about 300 bytes each."""
        self._size = size
        self._kept: OrderedDict[bytes, Grade] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, task: Task, completion: str) -> Grade | None:
        """The judgement, or None."""
        key = judgement_key(task, completion)
        with self._lock:
            grade = self._kept.get(key)
            if grade is not None:
                self._kept.move_to_end(key)
            return grade

    def put(self, task: Task, completion: str, grade: Grade) -> None:
        """Keep a judgement; one without a reward (a fault) is not kept."""
        if grade.reward is None:
            return
        key = judgement_key(task, completion)
        with self._lock:
            self._kept[key] = grade
            self._kept.move_to_end(key)
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)


def judgement_key(task: Task, completion: str) -> bytes:
    """Which judgement it is: a digest over environment, version, seed and completion, each with its length, so that no two run together."""
    digest = hashlib.blake2b(digest_size=20)
    for part in (task.environment, task.version, str(task.seed), completion):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()
