"""A judgement is kept for its task and its completion, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

from affine_dagster.environments.port import Grade, Task
from affine_dagster.environments.sandbox.cache import JudgementCache

TASK = Task("programs", "1", 7, "prompt", "answer")
GRADE = Grade(1.0)


def test_what_was_judged_is_found_again() -> None:
    cache = JudgementCache()
    cache.put(TASK, "x", GRADE)
    assert cache.get(TASK, "x") == GRADE


def test_another_task_version_or_completion_is_another_judgement() -> None:
    cache = JudgementCache()
    cache.put(TASK, "x", GRADE)
    others = [(replace(TASK, seed=8), "x"), (replace(TASK, version="2"), "x"), (replace(TASK, environment="other"), "x"), (TASK, "x ")]
    assert [cache.get(*other) for other in others] == [None] * 4


def test_parts_do_not_run_into_each_other() -> None:
    cache = JudgementCache()
    cache.put(replace(TASK, version="1", seed=23), "x", GRADE)
    assert cache.get(replace(TASK, version="12", seed=3), "x") is None


def test_a_fault_is_not_kept() -> None:
    cache = JudgementCache()
    cache.put(TASK, "x", Grade(None, "sandbox_failed"))
    assert cache.get(TASK, "x") is None


def test_the_oldest_unused_goes_first() -> None:
    cache = JudgementCache(2)
    for text in ("a", "b"):
        cache.put(TASK, text, GRADE)
    cache.get(TASK, "a")
    cache.put(TASK, "c", GRADE)
    assert [cache.get(TASK, text) is not None for text in ("a", "b", "c")] == [True, False, True]


def test_lone_surrogates_have_a_key_too() -> None:
    cache = JudgementCache()
    cache.put(TASK, "\ud800", GRADE)
    assert cache.get(TASK, "\ud800") == GRADE
