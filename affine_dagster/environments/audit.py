"""What every environment has to show before its rewards are believed: five checks, as data.

The tests run it on every family, the command line shows it to an operator, and a new family is written against it.
What must not go in: knowledge of any single family.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

from affine_dagster.environments.port import Environment, Task

__all__ = ["MALFORMED", "NONSENSE", "Finding", "audit", "measure_majority", "seeds"]

NONSENSE = ("xyzzy blorp", "reward: 1", "1.0", '{"reward": 1}', "I do not know.", "[]", "['']", "None", "nan", "inf", "-", "answer: ")
"""Completions that say nothing about the task."""

MALFORMED = (
    "", " \n\t", "\0\0\0", "9" * 100_000, "a b " * 25_000, "[" * 100_000, "['1', " * 10_000, "answer is " * 199, "9" * 2000,
    "\ud800", "\u202e1", "1e999",
)
"""Completions that break careless graders: empty, 100 kB, NUL bytes, deep brackets, a lone surrogate, a float overflow."""

_NONSENSE_RATE = 0.02
"""Nonsense may hit by chance ("1.0" is a number), and must not by more than this over all of it."""


@dataclass(frozen=True)
class Finding:
    """One check of one environment: ``value`` is a rate in [0, 1], ``detail`` names the first offender."""

    environment: str
    check: str
    ok: bool
    value: float
    detail: str = ""


def seeds(label: str, n: int, seed: int) -> list[int]:
    """``n`` task seeds in [0, 2**64), each hashed by itself from the label, the seed and its index."""
    return [
        int.from_bytes(hashlib.blake2b(f"{label}|{seed}|{index}".encode(), digest_size=8).digest(), "big") for index in range(n)
    ]


def measure_majority(environment: Environment, n: int, seed: int) -> float:
    """Share of ``n`` tasks, drawn from ``seed``, that the most common behaviour solves: what a constant completion earns."""
    answers = Counter(environment.behaviour(environment.task(task_seed)) for task_seed in seeds("majority", n, seed))
    return answers.most_common(1)[0][1] / n


def audit(environment: Environment, n: int, seed: int) -> list[Finding]:
    """Five findings on ``n`` tasks: determinism, gold, nonsense, malformed, majority. Raises nothing that a grader raises."""
    drawn = [environment.task(task_seed) for task_seed in seeds("audit", n, seed)]
    again = [environment.task(task.seed) for task in reversed(drawn)][::-1]
    same = [first == second for first, second in zip(drawn, again, strict=True)]
    gold = [_reward(environment, task, task.answer)[0] == 1.0 for task in drawn]
    rewards = [_reward(environment, task, text)[0] for task in drawn for text in NONSENSE]
    nonsense = sum(1.0 if reward is None else reward for reward in rewards) / len(rewards)
    judged = [(task, _reward(environment, task, text)) for task in drawn[: max(1, n // 10)] for text in MALFORMED]
    bad = [f"seed {task.seed}: {why or reward}" for task, (reward, why) in judged if reward != 0.0]
    majority = measure_majority(environment, n, seed)
    name = environment.name
    slack = 4 * (environment.majority_rate * (1 - environment.majority_rate) / n) ** 0.5 + 3 / n
    return [
        Finding(name, "determinism", all(same), sum(same) / n),
        Finding(name, "gold", all(gold), sum(gold) / n, _first(drawn, gold)),
        Finding(name, "nonsense", nonsense <= _NONSENSE_RATE, nonsense),
        Finding(name, "malformed", not bad, len(bad) / len(judged), bad[0] if bad else ""),
        Finding(name, "majority", abs(majority - environment.majority_rate) <= slack, majority, f"published {environment.majority_rate}"),
    ]


def _first(tasks: list[Task], passed: list[bool]) -> str:
    return next((f"seed {task.seed}" for task, ok in zip(tasks, passed, strict=True) if not ok), "")


def _reward(environment: Environment, task: Task, completion: str) -> tuple[float | None, str]:
    try:
        return environment.grade(task, completion).reward, ""
    except Exception as error:  # a grader that raises is the finding
        return None, f"raised {type(error).__name__}: {error}"
