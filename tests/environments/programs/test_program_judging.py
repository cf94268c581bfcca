"""A program is right if it does on hidden inputs what the words say; nothing else about it counts."""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.environments.audit import seeds
from affine_dagster.environments.port import Task
from affine_dagster.environments.programs.family import LEVELS, LIMITS, ProgramFamily
from affine_dagster.environments.programs.judge import examine, reference, result_of, same, verdict
from affine_dagster.environments.programs.specification import Specification
from affine_dagster.environments.sandbox.pool import default_sandbox
from affine_dagster.environments.sandbox.port import Limits, Outcome, Program, Returned
from affine_dagster.reasons import AffineError

FAMILY = {level: ProgramFamily(f"level_{level}", (level,), revision=1, majority_rate=0.1) for level in LEVELS}
every_level = pytest.mark.parametrize("level", sorted(LEVELS))


def drawn(level: int, count: int = 30) -> list[Task]:
    return [FAMILY[level].task(seed) for seed in seeds("programs", count, 0)]


@every_level
def test_every_reference_passes_its_own_examination(level: int) -> None:
    tasks = drawn(level, 60)
    grades = FAMILY[level].grade_all(tasks, [task.answer for task in tasks])
    assert [(task.prompt, grade) for task, grade in zip(tasks, grades, strict=True) if grade.reward != 1.0] == []


@every_level
def test_of_the_calls_that_are_not_shown_every_constant_is_wrong_on_three(level: int) -> None:
    for task in drawn(level, 400):
        examination = FAMILY[level].examination(task.seed)
        shown = {repr(arguments) for arguments, _ in _examples(task)}
        judged = zip(examination.calls, examination.expected, strict=False)
        results = Counter(repr(result) for arguments, result in judged if repr(list(arguments)) not in shown)
        assert results.total() - results.most_common(1)[0][1] >= 3, task.prompt


@every_level
def test_constants_pass_nowhere(level: int) -> None:
    tasks = drawn(level)
    for value in ("0", "1", "-1", "[]", "{}", "None", "''", "True"):
        completions = [f"def f(*a):\n    return {value}"] * len(tasks)
        assert {grade.reward for grade in FAMILY[level].grade_all(tasks, completions)} == {0.0}, value


@every_level
def test_a_table_of_the_shown_examples_passes_nowhere(level: int) -> None:
    tasks = drawn(level)
    completions = []
    for task in tasks:
        pairs = _examples(task)
        completions.append(f"TABLE = {pairs!r}\ndef f(*a):\n    return next((r for k, r in TABLE if k == list(a)), 0)")
    assert {grade.reward for grade in FAMILY[level].grade_all(tasks, completions)} == {0.0}


def _examples(task: Task) -> list[tuple[list[object], object]]:
    """The shown calls and results, read from the prompt."""
    text = task.prompt.partition("For example, ")[2].removesuffix(".")
    found = []
    for part in ("f(" + one for one in text.removeprefix("f(").split(", f(")):
        call, _, result = part.rpartition(" is ")
        arguments = [ast.literal_eval(node) for node in ast.parse(call, mode="eval").body.args]  # type: ignore[attr-defined]
        found.append((arguments, ast.literal_eval(result)))
    return found


@every_level
def test_the_shown_examples_are_true_and_are_judged(level: int) -> None:
    for task in drawn(level):
        examination = FAMILY[level].examination(task.seed)
        judged = {repr(list(call)): result for call, result in zip(examination.calls, examination.expected, strict=False)}
        for arguments, result in _examples(task):
            assert same(result, judged[repr(arguments)])


@every_level
def test_a_program_that_is_wrong_on_a_shown_example_alone_fails(level: int) -> None:
    tasks = drawn(level)
    completions = []
    for task in tasks:
        arguments, _ = _examples(task)[0]
        completions.append(f"{task.answer}\n\nright = f\n\ndef f(*a):\n    return 'wrong' if list(a) == {arguments!r} else right(*a)")
    assert {grade.reward for grade in FAMILY[level].grade_all(tasks, completions)} == {0.0}


_SWAPS: dict[type, Sequence[type]] = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Add,), ast.Mod: (ast.FloorDiv,), ast.Pow: (ast.Mult,),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt,), ast.GtE: (ast.Gt,), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,), ast.And: (ast.Or,), ast.Or: (ast.And,),
}


def mutants(source: str) -> Iterator[str]:
    """Every program that differs by one operator, or by one in a constant."""
    count = sum(1 for _ in ast.walk(ast.parse(source)))
    for index in range(count):
        for choice in range(2):
            tree = ast.parse(source)
            node = list(ast.walk(tree))[index]
            if _mutated(node, choice):
                yield ast.unparse(tree)


def _mutated(node: ast.AST, choice: int) -> bool:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        node.value += (1, -1)[choice]
        return True
    for field in ("op", "ops"):
        held = getattr(node, field, None)
        operator = held[0] if isinstance(held, list) else held
        swaps = _SWAPS.get(type(operator), ())
        if choice < len(swaps):
            setattr(node, field, [swaps[choice](), *held[1:]] if isinstance(held, list) else swaps[choice]())
            return True
    return False


def _different(pairs: Sequence[tuple[Specification, str]]) -> list[bool]:
    """Whether each mutant really does something else: on a thousand inputs of other labels than any task's. One that hangs does."""
    panels = [[call for label in range(25) for call in examine(one, f"mutants|{label}").calls] for one, _ in pairs]
    programs = [Program(mutant, "f", tuple(panel)) for (_, mutant), panel in zip(pairs, panels, strict=True)]
    outcomes = default_sandbox().run(programs, Limits(cpu_seconds=4.0, wall_seconds=30.0, output_bytes=2**20))
    return [
        outcome.ending != "finished" or any(
            not (isinstance(result, Returned) and same(result.value, result_of(one.source, call)))
            for result, call in zip(outcome.results, panel, strict=True)
        )
        for (one, _), panel, outcome in zip(pairs, panels, outcomes, strict=True)
    ]


@every_level
def test_of_a_hundred_near_misses_at_most_one_passes(level: int) -> None:
    """One operator or one constant changed; those that do the same on a thousand other inputs are no misses."""
    pairs = [(task, mutant) for task in drawn(level, 12) for mutant in mutants(task.answer)]
    chosen = random.Random(5).sample(pairs, min(150, len(pairs)))
    different = _different([(FAMILY[level].examination(task.seed).specification, mutant) for task, mutant in chosen])
    missed = [pair for pair, differs in zip(chosen, different, strict=True) if differs]
    grades = FAMILY[level].grade_all([task for task, _ in missed], [mutant for _, mutant in missed])
    passed = [(task.prompt, mutant) for (task, mutant), grade in zip(missed, grades, strict=True) if grade.reward == 1.0]
    assert len(missed) >= 20
    assert len(passed) <= 0.01 * len(missed), passed


_EIGHT = "[(0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)]"
_FOUR = "[(0, 1), (1, 0), (0, -1), (-1, 0)]"


@pytest.mark.parametrize("operation", ["grid_steps", "grid_reach"])
@pytest.mark.parametrize("moves", [_FOUR, _EIGHT], ids=["four steps", "eight steps"])
def test_a_way_through_a_grid_that_knows_not_every_step_passes_nowhere(operation: str, moves: str) -> None:
    """The careless way, right and down, and each step missing by itself."""
    tasks = [task for task in drawn(6, 600) if task.facts["operation"] == operation and f"in {moves}:" in task.answer][:4]
    every: list[tuple[int, int]] = ast.literal_eval(moves)
    fewer = [[(0, 1), (1, 0)], *([step for step in every if step != missing] for missing in every)]
    pairs = [(task, task.answer.replace(moves, repr(some))) for task in tasks for some in fewer]
    grades = FAMILY[6].grade_all([task for task, _ in pairs], [mutant for _, mutant in pairs])
    assert len(tasks) == 4
    assert [mutant for (_, mutant), grade in zip(pairs, grades, strict=True) if grade.reward == 1.0] == []


@every_level
def test_the_shown_examples_say_something(level: int) -> None:
    for task in drawn(level, 200):
        results = [result for _, result in _examples(task)]
        assert any(results), task.prompt
        assert len(results) == 1 or len({repr(result) for result in results}) > 1, task.prompt


def test_a_condition_is_between_two_different_expressions() -> None:
    for task in drawn(3, 300):
        one, _, other = task.answer.partition("return ")[2].partition(" else ")
        first, second = (reference(f"def f(a, b):\n    return {code}") for code in (one.partition(" if ")[0], other))
        assert any(first(a, b) != second(a, b) for a in range(-30, 31) for b in range(-30, 31)), task.prompt


CHEATS = {
    "prints it": "def f(*a):\n    print(5)",
    "exits well": "def f(*a):\n    raise SystemExit(0)",
    "exits the process": "import os\ndef f(*a):\n    os._exit(0)",
    "is equal to everything": "class L(int):\n    def __eq__(self, o): return True\ndef f(*a):\n    return L()",
    "gives a float": "def f(a, b):\n    return float(a + b)",
    "gives a text": "def f(a, b):\n    return str(a + b)",
    "gives a truth": "def f(a, b):\n    return a + b if a else bool(b)",
    "reads the tests": "import os\ndef f(a, b):\n    return [open('/' + n).read() for n in os.listdir('/')]",
    "asks the caller": "import sys\ndef f(a, b):\n    return sys._getframe(1).f_locals.get('expected')",
    "writes a verdict":
        "import os\ndef f(a, b):\n    for n in range(32):\n        try: os.write(n, b'reward: 1')\n        except OSError: pass",
    "is right on the first call only": "seen = []\ndef f(a, b):\n    seen.append(1)\n    return a + b if len(seen) < 5 else 0",
    "is empty": "def f(a, b):\n    pass",
    "calls itself": "def f(a, b):\n    return f(a, b)",
    "does not compile": "def f(a, b):\n    return a +",
    "has another name": "def g(a, b):\n    return a + b",
}


def a_sum() -> Task:
    """A task whose words are "the sum of a and b"."""
    return next(task for task in drawn(1, 200) if task.answer == "def f(a, b):\n    return a + b")


@pytest.mark.parametrize("name", sorted(CHEATS))
def test_what_only_looks_right_earns_nothing(name: str) -> None:
    grade = FAMILY[1].grade(a_sum(), CHEATS[name])
    assert grade.reward == 0.0
    assert grade.detail


def test_a_program_that_edits_its_arguments_is_judged_by_what_it_returns() -> None:
    task = next(task for task in drawn(4, 200) if "sorted(items)" in task.answer)
    head, items, last = task.answer.split("\n")
    program = "\n".join([head, items, "    numbers.clear()", last])
    assert FAMILY[4].grade(task, program).reward == 1.0


def test_an_endless_program_ends_at_its_own_limit() -> None:
    grade = FAMILY[1].grade(a_sum(), "def f(a, b):\n    while True: pass")
    assert (grade.reward, grade.detail.partition(" ")[0]) == (0.0, "cpu_limit")


def test_a_detail_gives_no_hidden_argument_and_no_result() -> None:
    task = a_sum()
    examination = FAMILY[1].examination(task.seed)
    detail = FAMILY[1].grade(task, "def f(a, b):\n    raise ValueError(a)").detail
    assert detail == f"wrong on {len(examination.expected)} of {len(examination.expected)} calls, first error ValueError"


TELLERS = {
    "the name of an error": "def f(a, b):\n    raise type(f'told{a}', (Exception,), {})()",
    "an error's message while loading": "raise ValueError('told')\ndef f(a, b): pass",
    "a name while loading": "raise type('told', (Exception,), {})()\ndef f(a, b): pass",
    "the callers' arguments": "import sys\nraise NameError(f\"told {sys._getframe(2).f_locals['request']['calls']}\")\ndef f(a, b): pass",
    "a builtin's name, to the eye": "class ValueError(Exception):\n    __name__ = 'told'\ndef f(a, b):\n    raise ValueError('told')",
}


@pytest.mark.parametrize("way", sorted(TELLERS))
def test_a_detail_holds_no_word_of_the_programs_own(way: str) -> None:
    grade = FAMILY[1].grade(a_sum(), TELLERS[way])
    assert grade.reward == 0.0
    assert "told" not in grade.detail
    assert "[" not in grade.detail


def test_a_relation_refuses_what_the_expected_results_let_through() -> None:
    """The property is judged by itself: here all expected results are the program's own."""
    examination = FAMILY[1].examination(a_sum().seed)
    (outcome,) = default_sandbox().run([Program("def f(a, b):\n    return a - b", "f", examination.calls)], LIMITS)
    own = tuple(result.value for result in outcome.results[: len(examination.expected)])  # type: ignore[union-attr]
    assert verdict(replace(examination, expected=own), outcome) == (False, "not so: it is the same with a and b exchanged")


class Absent:
    """A sandbox that cannot start."""

    def run(self, programs: Sequence[Program], limits: Limits) -> list[Outcome]:
        raise AffineError("sandbox_unavailable", "there is no bwrap")

    def close(self) -> None:
        pass


def test_without_a_sandbox_nobody_is_judged() -> None:
    family = replace(FAMILY[1], sandbox=Absent)
    task = a_sum()
    grades = family.grade_all([task, task], ["def f(a, b):\n    return 1", "no program"])
    assert [(grade.reward, grade.reason) for grade in grades] == [(None, "sandbox_unavailable"), (0.0, None)]


class Counting:
    """The real sandbox, and how many programs it was given."""

    given = 0

    def run(self, programs: Sequence[Program], limits: Limits) -> list[Outcome]:
        Counting.given += len(programs)
        return default_sandbox().run(programs, limits)

    def close(self) -> None:
        pass


def test_the_same_program_for_the_same_task_runs_once() -> None:
    family = ProgramFamily("counted", (1,), 1, 0.1, sandbox=Counting)
    tasks = [family.task(1), family.task(1), family.task(2)]
    answers = [task.answer for task in tasks]
    first = family.grade_all(tasks, answers)
    assert (first, Counting.given) == (family.grade_all(tasks, answers), 2)


def test_another_familys_task_is_no_task_to_grade() -> None:
    grade = FAMILY[2].grade(a_sum(), a_sum().answer)
    assert (grade.reward, grade.reason) == (None, "grader_failed")


def test_two_tasks_of_one_seed_and_completion_are_two() -> None:
    task = a_sum()
    grades = FAMILY[1].grade_all([task, replace(task, version="0-py3.11")], [task.answer] * 2)
    assert [grade.reason for grade in grades] == [None, "grader_failed"]


@every_level
@settings(max_examples=15)
@given(seed=st.integers(0, 2**64 - 1))
def test_a_seed_gives_the_same_examination_every_time(level: int, seed: int) -> None:
    assert FAMILY[level].task(seed) == FAMILY[level].task(seed)
    assert FAMILY[level].examination(seed) == FAMILY[level].examination(seed)
    assert len(FAMILY[level].examination(seed).expected) >= 15


@every_level
def test_a_level_has_many_behaviours(level: int) -> None:
    tasks = drawn(level, 300)
    commonest = Counter(FAMILY[level].behaviour(task) for task in tasks).most_common(1)[0][1]
    assert commonest <= 0.15 * len(tasks)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [(1, True, False), (1, 1.0, False), (float("nan"), float("nan"), True), ([1], (1,), False),
     ({1: 2}, {True: 2}, False), ({1: [2]}, {1: [2]}, True), ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
     ("1", 1, False), ([[1, [2]]], [[1, [2]]], True), (None, 0, False),
     (0.0, -0.0, True), ([1, 2], [2, 1], False)],
)
def test_results_are_compared_by_exact_type(one: object, other: object, equal: bool) -> None:
    assert same(one, other) is equal
