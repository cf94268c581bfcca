"""One batch of rollouts: tasks to prompts, prompts to completions, completions to graded rows with their receipt.

A failure is typed here, where it is met, and becomes data: whatever the engine or a grader does, each task of the batch gets a
row. Rows hold nothing that a second run would not repeat (no times, no places). What must not go in: which batches run
(``worker.py``) and where rows go (``ledger.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from affine_dagster.environments.port import Environment, Grade, Task
from affine_dagster.reasons import REASONS, AffineError, Fault
from affine_dagster.serving.port import Completion, LoadedModel, Receipt, Sampling
from affine_dagster.tables import ROLLOUTS, TASKS

__all__ = ["BatchContext", "answer_batch", "fault_batch", "grade_completions"]

_DETAIL_CHARACTERS = 300


@dataclass(frozen=True)
class BatchContext:
    """What all rows of a batch share. ``epoch`` is the run's; the tasks' own epoch is in their TASKS rows."""

    epoch: int
    weights_digest: str
    sampling: Sampling
    engine: str
    attempt: int


@dataclass(frozen=True)
class _Result:
    reward: float | None
    fault: str | None = None
    reason: str | None = None
    detail: str | None = None


def answer_batch(context: BatchContext, model: LoadedModel, environment: Environment, tasks: pl.DataFrame) -> pl.DataFrame:
    """Run a model on a batch (TASKS rows of one environment and purpose) and return its ROLLOUTS rows, one a task.

    A task or a grader that raises is ``grader_failed`` for that task; an engine that raises is ``no_answer`` for the batch.
    """
    rows = TASKS.check(tasks).to_dicts()
    made = [_made(environment, row["seed"]) for row in rows]
    asked = [(row["seed"], task) for row, task in zip(rows, made, strict=True) if isinstance(task, Task)]
    given = _complete(model, [task.prompt for _, task in asked], [seed for seed, _ in asked], context.sampling)
    results = iter(grade_completions(environment, [task for _, task in asked], given))
    completions = iter(given)
    answered: list[dict[str, Any]] = []
    for row, task in zip(rows, made, strict=True):
        if isinstance(task, Task):
            answered.append(_row(context, row, next(results), next(completions), model.receipt))
        else:
            answered.append(_row(context, row, task, None, model.receipt))
    return ROLLOUTS.frame(answered)


def fault_batch(context: BatchContext, tasks: pl.DataFrame, reason: str, detail: str) -> pl.DataFrame:
    """The ROLLOUTS rows of a batch that could not be asked at all, for one reason (a code with a fault)."""
    result = _fault(reason, detail)
    return ROLLOUTS.frame(_row(context, row, result, None, None) for row in TASKS.check(tasks).to_dicts())


def grade_completions(environment: Environment, tasks: Sequence[Task], completions: Sequence[Completion]) -> list[_Result]:
    """The reward or fault of each completion, in order; those that the engine gave are judged together."""
    judged = [(task, completion) for task, completion in zip(tasks, completions, strict=True) if not _unanswered(completion)]
    grades = iter(_grades(environment, [task for task, _ in judged], [completion.text for _, completion in judged]))
    return [
        _fault(completion.reason or "no_answer", completion.detail) if _unanswered(completion) else _result(next(grades))
        for completion in completions
    ]


def _unanswered(completion: Completion) -> bool:
    return completion.reason is not None or completion.finish_reason == "fault"


def _grades(environment: Environment, tasks: Sequence[Task], texts: Sequence[str]) -> list[Grade]:
    """All grades at once; where that raises, one by one, so that one text that breaks a grader costs no other its grade (case E4)."""
    try:
        grades = environment.grade_all(tasks, texts)
    except Exception:  # found again, typed and told below, by the text that it belongs to
        return [_grade(environment, task, text) for task, text in zip(tasks, texts, strict=True)]
    if len(grades) != len(tasks):
        return [Grade(None, "grader_failed", f"{len(grades)} grades for {len(tasks)} completions") for _ in tasks]
    return grades


def _grade(environment: Environment, task: Task, text: str) -> Grade:
    try:
        return environment.grade(task, text)
    except AffineError as error:
        return Grade(None, error.code, error.detail)
    except Exception as error:  # whatever a grader raises is its own fault and must not end the run (case E4)
        return Grade(None, "grader_failed", f"{type(error).__name__}: {error}")


def _result(grade: Grade) -> _Result:
    """Only a finite number in [0, 1] is a reward; anything else is the grader's fault."""
    if grade.reward is None:
        code = grade.reason or "grader_failed"
        known = code in REASONS and REASONS[code].fault is not None
        return _fault(code if known else "grader_failed", grade.detail)
    if isinstance(grade.reward, bool) or not isinstance(grade.reward, int | float) or not _is_reward(grade.reward):
        return _fault("grader_failed", f"the grader gave {grade.reward!r}")
    return _Result(float(grade.reward), detail=_short(grade.detail))


def _is_reward(value: float) -> bool:
    return math.isfinite(value) and 0.0 <= value <= 1.0


def _made(environment: Environment, seed: int) -> Task | _Result:
    try:
        return environment.task(seed)
    except Exception as error:  # the environment's fault, and only this task's
        return _fault("grader_failed", f"task of seed {seed}: {type(error).__name__}: {error}")


def _complete(model: LoadedModel, prompts: Sequence[str], seeds: Sequence[int], sampling: Sampling) -> list[Completion]:
    if not prompts:
        return []
    try:
        completions = model.complete(prompts, seeds, sampling)
    except Exception as error:  # an engine's errors have no common type; the batch is tried again and then shown (case E11)
        return [Completion("", "fault", 0, 0, "no_answer", f"{type(error).__name__}: {error}") for _ in prompts]
    if len(completions) != len(prompts):
        detail = f"{len(completions)} completions for {len(prompts)} prompts"
        return [Completion("", "fault", 0, 0, "no_answer", detail) for _ in prompts]
    return completions


def _fault(code: str, detail: str) -> _Result:
    fault = REASONS[code].fault
    return _Result(0.0 if fault is Fault.MODEL else None, None if fault is None else fault.value, code, _short(detail))


def _short(text: str) -> str | None:
    return _storable(text[:_DETAIL_CHARACTERS]) or None


def _storable(text: str) -> str:
    """The text without lone surrogates, which no UTF-8 column can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _row(
    context: BatchContext, task: Mapping[str, Any], result: _Result, completion: Completion | None, receipt: Receipt | None
) -> dict[str, Any]:
    answer = Completion("", "fault", 0, 0) if completion is None else completion
    return {
        "epoch": context.epoch, "environment": task["environment"], "environment_version": task["environment_version"],
        "purpose": task["purpose"], "task_epoch": task["epoch"], "index": task["index"], "seed": task["seed"],
        "weights_digest": context.weights_digest, "sampling_digest": context.sampling.digest, "attempt": context.attempt,
        "reward": result.reward, "fault": result.fault, "reason": result.reason, "detail": result.detail,
        "completion": _storable(answer.text), "finish_reason": answer.finish_reason,
        "prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens,
        **_loaded(receipt, context.engine),
    }


def _loaded(receipt: Receipt | None, engine: str) -> dict[str, str | None]:
    """What was loaded, and by what; nothing but the engine's name where nothing was loaded."""
    names = ("tensors_digest", "config_digest", "template_hash", "tokenizer_signature", "engine", "engine_version")
    found: dict[str, str | None] = {name: None if receipt is None else getattr(receipt, name) for name in names}
    return found | {
        "loaded_weights_digest": None if receipt is None else receipt.weights_digest,
        "engine": engine if receipt is None else receipt.engine,
    }
