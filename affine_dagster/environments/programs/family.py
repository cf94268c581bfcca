"""The environments of program synthesis: levels, prompts, and grades through the sandbox.

What must not go in: what a specification says (the builders) and how a program is held (``sandbox/``).
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from affine_dagster.environments.port import Grade, Task
from affine_dagster.environments.programs.expressions import condition, expression, two_steps
from affine_dagster.environments.programs.extraction import program_text
from affine_dagster.environments.programs.inputs import argument_lists, draw
from affine_dagster.environments.programs.judge import Examination, examine, result_of, varied, verdict
from affine_dagster.environments.programs.pipelines import number_pipeline, word_pipeline
from affine_dagster.environments.programs.specification import Builder, Specification
from affine_dagster.environments.programs.structures import structure
from affine_dagster.environments.sandbox.cache import JudgementCache, judgement_key
from affine_dagster.environments.sandbox.pool import default_sandbox
from affine_dagster.environments.sandbox.port import Limits, Sandbox
from affine_dagster.reasons import AffineError

__all__ = ["LEVELS", "PROGRAM_EXPRESSIONS", "PROGRAM_LOOPS", "PROGRAM_STRUCTURES", "ProgramFamily"]

LEVELS: Mapping[int, Builder] = {
    1: expression, 2: two_steps, 3: condition, 4: number_pipeline, 5: word_pipeline, 6: structure,
}
"""1 one expression, 2 two steps, 3 a condition, 4 lists of numbers, 5 words and rows, 6 recursion and data structures."""

_SHOWN = {1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3}
"""Examples in a prompt, by level."""

LIMITS = Limits(cpu_seconds=1.0, wall_seconds=5.0)
"""For all calls of a program together; a right one uses some milliseconds."""

_CANDIDATES = 24
"""Calls drawn with a specification, all of which are judged; the examples of a prompt are among the shorter ones."""

_SHOWN_TRIES = 8
_PANEL = 24
_UNJUDGED = Grade(0.0, detail="no program that defines f(…) was found in the answer")


@dataclass(frozen=True)
class _Specified:
    """What a seed gives: a specification, every call that was drawn with it, and which of them the prompt shows, with the results."""

    specification: Specification
    drawn: list[tuple[Any, ...]]
    shown: list[tuple[tuple[Any, ...], Any]]


@dataclass(frozen=True)
class ProgramFamily:
    """Specifications of some levels, each as likely as the others.

    ``majority_rate``: share of tasks that the commonest *behaviour* solves, measured (``audit.measure_majority``). ``revision`` counts
    our own changes of tasks or grades. ``sandbox``: gives the sandbox that programs run in, when the first one does.
    """

    name: str
    levels: tuple[int, ...]
    revision: int
    majority_rate: float
    sandbox: Callable[[], Sandbox] = default_sandbox
    cache: JudgementCache = field(default_factory=JudgementCache, compare=False, repr=False)

    @property
    def version(self) -> str:
        """Our revision and the Python that runs the programs; safe in paths."""
        return f"{self.revision}-py{sys.version_info.major}.{sys.version_info.minor}"

    def task(self, seed: int) -> Task:
        """The task of a seed in [0, 2**64). Facts: ``level``, ``operation``. Raises ValueError for a seed outside the range."""
        specified = self._specified(seed)
        specification = specified.specification
        names = ", ".join(parameter.name for parameter in specification.parameters)
        examples = [f"f({', '.join(map(repr, arguments))}) is {result!r}" for arguments, result in specified.shown]
        prompt = f"Write a Python function f({names}) that returns {specification.words}. For example, {', '.join(examples)}."
        facts = {"level": str(specification.level), "operation": specification.operation}
        return Task(self.name, self.version, seed, prompt, specification.source, facts)

    def grade(self, task: Task, completion: str) -> Grade:
        """Reward 1 if the program passes every call and relation, else 0 with the reason in the detail."""
        return self.grade_all([task], [completion])[0]

    def grade_all(self, tasks: Sequence[Task], completions: Sequence[str]) -> list[Grade]:
        """All programs in one batch; the same program for the same task runs once, and what was judged before not again."""
        keys = [judgement_key(task, completion) for task, completion in zip(tasks, completions, strict=True)]
        found: dict[bytes, Grade] = {}
        waiting: dict[bytes, tuple[Task, str, Examination, str]] = {}
        for key, task, completion in zip(keys, tasks, completions, strict=True):
            if key in found or key in waiting:
                continue
            known = self._known(task, completion)
            if isinstance(known, Grade):
                found[key] = known
            else:
                waiting[key] = (task, completion, self.examination(task.seed), known)
        found.update(zip(waiting, self._judged(list(waiting.values())), strict=True))
        return [found[key] for key in keys]

    def examination(self, seed: int) -> Examination:
        """The calls of a task."""
        specified = self._specified(seed)
        return examine(specified.specification, f"{self._label(seed)}|hidden", specified.drawn)

    def behaviour(self, task: Task) -> str:
        """A digest of what a right program does on a fixed panel of arguments: equal where the same program solves both tasks."""
        specification = self._specified(task.seed).specification
        dice = random.Random(f"{self.name}|panel|{[parameter.kind for parameter in specification.parameters]}")  # noqa: S311
        panel = argument_lists(specification.parameters, dice, (5,), _PANEL)
        results = [_tried(specification.source, arguments) for arguments in panel]
        return hashlib.blake2b(repr((specification.parameters, results)).encode(), digest_size=8).hexdigest()

    def _known(self, task: Task, completion: str) -> Grade | str:
        """A grade that needs no sandbox, or the program's source."""
        if (task.environment, task.version) != (self.name, self.version):
            detail = f"{self.name} {self.version} was given a task of {task.environment} {task.version}"
            return Grade(None, "grader_failed", detail)
        kept = self.cache.get(task, completion)
        if kept is not None:
            return kept
        return program_text(completion) or _UNJUDGED

    def _judged(self, waiting: Sequence[tuple[Task, str, Examination, str]]) -> list[Grade]:
        if not waiting:
            return []
        try:
            outcomes = self.sandbox().run([examination.program(source) for _, _, examination, source in waiting], LIMITS)
        except AffineError as error:
            return [Grade(None, error.code, error.detail) for _ in waiting]
        grades: list[Grade] = []
        for (task, completion, examination, _), outcome in zip(waiting, outcomes, strict=True):
            passed, why = verdict(examination, outcome)
            grades.append(Grade(1.0 if passed else 0.0, detail=why))
            self.cache.put(task, completion, grades[-1])
        return grades

    def _specified(self, seed: int) -> _Specified:
        """No constant solves all of the calls that are not shown.

        A level is drawn once, a specification of it again for as long as a constant solves it or its examples say nothing.
        """
        if not 0 <= seed < 2**64:
            raise ValueError(f"a task seed is in [0, 2**64), not {seed}")
        dice = random.Random(int.from_bytes(hashlib.blake2b(self._label(seed).encode(), digest_size=16).digest(), "big"))  # noqa: S311
        builder = LEVELS[dice.choice(self.levels)]
        while True:
            specification = builder(dice)
            drawn = {repr(one): one for one in (self._example(specification, dice) for _ in range(_CANDIDATES))}
            results = {text: result_of(specification.source, arguments) for text, arguments in drawn.items()}
            shown = _telling(results, _SHOWN[specification.level], dice)
            if shown and varied([result for text, result in results.items() if text not in shown]):
                return _Specified(specification, list(drawn.values()), [(drawn[text], results[text]) for text in shown])

    @staticmethod
    def _example(specification: Specification, dice: random.Random) -> tuple[Any, ...]:
        return tuple(draw(parameter.kind, dice, specification.constants) for parameter in specification.parameters)

    def _label(self, seed: int) -> str:
        return f"affine_dagster.environments|{self.name}|{self.version}|{seed}"


def _telling(results: Mapping[str, Any], count: int, dice: random.Random) -> list[str]:
    """Some of the calls, short ones if possible, that say something: not all with one result or with none; else no calls."""
    by_length = sorted(results, key=lambda text: (len(text), text))
    for pool in (by_length[: _CANDIDATES // 4], by_length):
        for _ in range(_SHOWN_TRIES):
            shown = dice.sample(pool, min(len(pool), count))
            different = {repr(results[text]) for text in shown}
            if any(results[text] for text in shown) and len(different) >= min(count, 2):
                return shown
    return []


def _tried(source: str, arguments: tuple[Any, ...]) -> object:
    try:
        return result_of(source, arguments)
    except (IndexError, KeyError, ValueError, TypeError) as error:  # the panel is not made for this specification's constants
        return type(error).__name__


PROGRAM_EXPRESSIONS = ProgramFamily("program_expressions", (1, 2, 3), revision=3, majority_rate=0.030)
PROGRAM_LOOPS = ProgramFamily("program_loops", (4, 5), revision=3, majority_rate=0.014)
PROGRAM_STRUCTURES = ProgramFamily("program_structures", (6,), revision=3, majority_rate=0.032)
