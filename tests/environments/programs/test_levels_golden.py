"""Golden tasks of every level: what a seed gives is pinned, and programs written by hand from the prompt are judged in the real sandbox.

The goldens stand in ``golden_programs.toml``. ``TASKS`` pins all tasks and calls of the first seeds, level by level, so that a part
that no golden uses is noticed too. What must not go in: programs that another program made (see ``test_program_judging.py``).
"""

from __future__ import annotations

import ast
import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from affine_dagster.environments.port import Grade, Task
from affine_dagster.environments.programs.family import LEVELS, LIMITS, PROGRAM_EXPRESSIONS, PROGRAM_LOOPS, PROGRAM_STRUCTURES
from affine_dagster.environments.registry import environment
from affine_dagster.environments.sandbox.pool import default_sandbox
from affine_dagster.environments.sandbox.port import Program, Returned

VERSION = "3-py3.11"
CHANGED = (
    "what was pinned for this seed has changed, and the ledger's old rewards were earned on the old tasks. If the change is meant: raise "
    "`revision` of the family in affine_dagster/environments/programs/family.py, which makes a new version of the environment, and pin anew"
)


@dataclass(frozen=True)
class Golden:
    """One entry of ``golden_programs.toml``, which says what its fields are; ``shown`` as written."""

    level: int
    family: str
    seed: int
    prompt: str
    shown: list[list[str]]
    reference: str
    right: str
    near: str
    wrong: str

    @property
    def task(self) -> Task:
        return environment(self.family).task(self.seed)

    def graded(self, completion: str) -> Grade:
        return environment(self.family).grade(self.task, completion)


GOLDENS = [Golden(**entry) for entry in tomllib.loads((Path(__file__).parent / "golden_programs.toml").read_text())["golden"]]
FIRST = {golden.level: golden for golden in reversed(GOLDENS)}
every_golden = pytest.mark.parametrize("golden", GOLDENS, ids=[f"level {golden.level}, seed {golden.seed}" for golden in GOLDENS])
every_near_miss = pytest.mark.parametrize(
    "golden", GOLDENS, ids=[f"level {golden.level}, seed {golden.seed}, {golden.wrong}" for golden in GOLDENS]
)
every_level = pytest.mark.parametrize("level", sorted(LEVELS))

SEEDS = 300
TASKS = {
    1: "84d70f56aa5f1c7f",  # pragma: allowlist secret
    2: "337257f0636e5b91",  # pragma: allowlist secret
    3: "614feade1241b8dc",  # pragma: allowlist secret
    4: "a5ced39b75f0bc7f",  # pragma: allowlist secret
    5: "2bba58837caa66e7",  # pragma: allowlist secret
    6: "5f0f4d95b461b9c5",  # pragma: allowlist secret
}
"""A digest, by level, over prompts, references and calls of the seeds 0 to 299 of the three families."""

_FAMILIES = (PROGRAM_EXPRESSIONS, PROGRAM_LOOPS, PROGRAM_STRUCTURES)


@pytest.fixture(scope="module")
def digests() -> dict[int, str]:
    found: dict[int, Any] = {}
    for family in _FAMILIES:
        for seed in range(SEEDS):
            task, hidden = family.task(seed), family.examination(seed)
            digest = found.setdefault(int(task.facts["level"]), hashlib.blake2b(digest_size=8))
            digest.update(repr((task.prompt, task.answer, hidden.calls, hidden.expected, hidden.related)).encode())
    return {level: digest.hexdigest() for level, digest in found.items()}


def test_every_level_has_its_goldens() -> None:
    assert sorted({golden.level for golden in GOLDENS}) == sorted(LEVELS)


@pytest.mark.parametrize("family", [family.name for family in _FAMILIES])
def test_the_pins_are_of_this_version(family: str) -> None:
    assert environment(family).version == VERSION, "a new version has new tasks: pin them, and this version, anew"


@every_golden
def test_the_prompt_is_the_pinned_one(golden: Golden) -> None:
    assert golden.task.prompt == golden.prompt, CHANGED


@every_golden
def test_the_reference_is_the_pinned_one(golden: Golden) -> None:
    assert golden.task.answer + "\n" == golden.reference, CHANGED


@every_golden
def test_the_shown_examples_are_the_pinned_ones(golden: Golden) -> None:
    written = ", ".join(f"f({arguments[1:-1]}) is {result}" for arguments, result in golden.shown)
    assert golden.task.prompt.partition("For example, ")[2] == f"{written}.", CHANGED


@every_level
def test_the_tasks_and_calls_of_a_level_are_the_pinned_ones(digests: dict[int, str], level: int) -> None:
    assert digests[level] == TASKS[level], CHANGED


@every_golden
def test_the_pinned_reference_passes(golden: Golden) -> None:
    assert golden.graded(golden.reference) == Grade(1.0)


@every_golden
def test_a_right_program_of_another_hand_passes(golden: Golden) -> None:
    assert golden.graded(golden.right) == Grade(1.0)


@every_golden
def test_a_right_program_of_another_hand_is_not_the_reference(golden: Golden) -> None:
    assert ast.dump(ast.parse(golden.right)) != ast.dump(ast.parse(golden.reference))


@every_golden
def test_a_right_program_of_another_hand_does_what_the_prompt_shows(golden: Golden) -> None:
    calls = tuple(tuple(ast.literal_eval(arguments)) for arguments, _ in golden.shown)
    (outcome,) = default_sandbox().run([Program(golden.right, "f", calls)], LIMITS)
    assert outcome.results == tuple(Returned(ast.literal_eval(result)) for _, result in golden.shown)


@every_golden
def test_the_shown_result_as_a_constant_fails(golden: Golden) -> None:
    assert golden.graded(f"def f(*arguments):\n    return {golden.shown[0][1]}").reward == 0.0


@every_golden
def test_a_table_of_the_shown_examples_with_a_shown_result_for_all_others_fails(golden: Golden) -> None:
    table = ", ".join(f"({arguments}, {result})" for arguments, result in golden.shown)
    other = golden.shown[-1][1]
    program = f"TABLE = [{table}]\ndef f(*arguments):\n    return next((r for a, r in TABLE if a == list(arguments)), {other})"
    assert golden.graded(program).reward == 0.0


@every_near_miss
def test_a_program_that_is_wrong_on_one_edge_fails(golden: Golden) -> None:
    grade = golden.graded(golden.near)
    assert (grade.reward, grade.detail.partition(" ")[0]) == (0.0, "wrong")


ENDLESS = {
    1: """
def f(a, b):
    steps = 0
    while a != b:
        a, steps = a + 1, steps + 1
    return steps
""",
    2: """
def f(a, b):
    while b > a:
        a -= 1
    return a * 4
""",
    3: """
def f(a, b):
    while b < 7:
        b = max(b, 5)
    return max(a, b)
""",
    4: """
def f(numbers):
    found = []
    while numbers:
        if numbers[-1] % 2:
            found.append(8 * numbers.pop())
    return sorted(found, reverse=True)
""",
    5: """
def f(words):
    while words:
        if len(words[0]) < 5:
            words.remove(words[0])
    return None
""",
    6: """
def f(tree):
    leaves = 0
    while tree is not None:
        leaves += tree[1] is None and tree[2] is None and tree[0] > -1
    return leaves
""",
}
"""By level, for its first golden: a loop that somebody could mean, and that ends for some arguments only."""


@every_level
def test_a_program_that_does_not_halt_fails(level: int) -> None:
    grade = FIRST[level].graded(ENDLESS[level])
    assert (grade.reward, grade.detail.partition(" ")[0]) == (0.0, "cpu_limit")


PROSE = {
    1: "The function gives b - a: take b, and subtract a from it.",
    2: "First find the larger of the two, max(a, b). Then multiply it by 4.",
    3: "If b < 7, return max(b, 5).\nOtherwise, return max(a, b).",
    4: "1. Keep the numbers with x % 2 == 1.\n2. Multiply each by 8.\n3. Sort them with sorted(items, reverse=True).",
    5: "Use collections.Counter on the words with fewer than 5 letters, in upper case; take the smallest of the commonest, else None.",
    6: "`f(tree)` is 0 for None, and 1 for a leaf above -1.\n```\nf([3, None, None]) -> 1\n```\nElse it is f(left) + f(right).",
}
"""By level, for its first golden: what is right in words, without a program."""


@every_level
def test_prose_without_a_program_fails(level: int) -> None:
    assert FIRST[level].graded(PROSE[level]) == Grade(0.0, detail="no program that defines f(…) was found in the answer")
