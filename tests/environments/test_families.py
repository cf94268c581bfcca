"""Every family: the same task for a seed for ever, exact rewards, and a grader that nothing can break."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.environments.audit import MALFORMED, audit, measure_majority, seeds
from affine_dagster.environments.port import Environment, Task
from affine_dagster.environments.reasoning import ReasoningFamily
from affine_dagster.environments.registry import environment, names

FAMILIES = names()
GOLDEN = {
    "bit_count": ("1-rg0.1.25", 'How many 1 bits are there in the binary representation of the number 990?', '8'),
    "chain_sum": ("1-rg0.1.25", 'State the final answer to the following arithmetic problem: 0 + 5 =', '5'),
    "digit_product": ("1-rg0.1.25", 'Solve the following multiplication: 5 * 6. Give only the result as your final answer.', '30'),
    "number_sorting": ("1-rg0.1.25", 'Sort these numbers in ascending order: 6.0, 1.0', "['1.0', '6.0']"),
    "spell_backward": ("1-rg0.1.25", 'Spell this word backward (example: sun -> nus): Rinde', 'edniR'),
    "two_digit_sum": ("1-rg0.1.25", 'State the final answer to the following arithmetic problem: 1 + 8 =', '9'),
    "who_does": ("1-rg0.1.25", 'Kalen dislikes scooters. Sachkirat rejects playing guitar. ', 'Sachkirat'),
}
"""One task a family, pinned: a change here is a change of version."""

every_family = pytest.mark.parametrize("family", FAMILIES)
ANSWERS = tuple(name for name in FAMILIES if isinstance(environment(name), ReasoningFamily))
every_family_of_answers = pytest.mark.parametrize("family", ANSWERS)
"""Those whose right completions are one answer in several spellings; of programs see ``programs/``."""

_SEEDS = st.integers(0, 2**64 - 1)


def _drawn(family: str, n: int = 40) -> tuple[Environment, list[Task]]:
    made = environment(family)
    return made, [made.task(seed) for seed in seeds("test", n, 0)]


@every_family_of_answers
def test_a_pinned_seed_gives_the_pinned_task(family: str) -> None:
    task = environment(family).task(2**63 + 5)
    assert (task.version, task.prompt.split("\n")[0], task.answer) == GOLDEN[family]


def test_tasks_do_not_depend_on_the_process_or_its_hash_seed() -> None:
    program = (
        "import json; from affine_dagster.environments.registry import *; "
        "print(json.dumps([[environment(n).task(s).prompt for s in (0, 1, 2**64 - 1)] for n in names()]))"
    )
    here = [[environment(name).task(seed).prompt for seed in (0, 1, 2**64 - 1)] for name in FAMILIES]
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], env={**os.environ, "PYTHONHASHSEED": "12345"}, capture_output=True, check=True
    )
    assert json.loads(answer.stdout) == here


@every_family_of_answers
def test_the_right_answer_earns_one_in_every_fair_spelling(family: str) -> None:
    made, tasks = _drawn(family)
    for task in tasks:
        for text in (task.answer, f"  {task.answer}\n", task.answer.upper(), task.answer.replace(", ", ",")):
            assert made.grade(task, text).reward == 1.0


@every_family
@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_completions_earn_nothing_and_raise_nothing(family: str, text: str) -> None:
    made, tasks = _drawn(family, 10)
    assert {made.grade(task, text).reward for task in tasks} == {0.0}


@every_family
def test_a_printed_reward_earns_nothing(family: str) -> None:
    made, tasks = _drawn(family, 200)
    assert {made.grade(task, text).reward for task in tasks for text in ("reward: 1", "reward: 1.0", '{"reward": 1}')} == {0.0}


@every_family_of_answers
def test_a_right_answer_before_a_flood_earns_nothing(family: str) -> None:
    made, tasks = _drawn(family)
    for task in tasks:
        for flood in (" " * 3000, "x" * 3000, "\n" + task.answer * 3000):
            assert made.grade(task, task.answer + flood).reward == 0.0


@every_family_of_answers
def test_a_right_answer_with_something_behind_it_earns_nothing(family: str) -> None:
    made, tasks = _drawn(family)
    assert {made.grade(task, f"{task.answer} {other.answer}").reward for task, other in pairwise(tasks)} == {0.0}


@every_family
@given(seed=_SEEDS, text=st.text())
def test_the_grader_never_raises_and_gives_zero_or_one(family: str, seed: int, text: str) -> None:
    made = environment(family)
    assert made.grade(made.task(seed), text).reward in (0.0, 1.0)


@every_family_of_answers
def test_only_the_task_s_own_answer_is_right(family: str) -> None:
    made, tasks = _drawn(family, 60)
    for task in tasks:
        for other in tasks:
            assert made.grade(task, other.answer).reward == float(other.answer.lower() == task.answer.lower())


@every_family_of_answers
def test_what_we_call_right_the_library_calls_right(family: str) -> None:
    import reasoning_gym

    made, tasks = _drawn(family)
    dataset = reasoning_gym.create_dataset(made.generator, seed=0, size=1, **dict(made.level))  # type: ignore[attr-defined]
    for task in tasks:
        metadata = {"direction": task.facts.get("direction")}
        assert dataset.score_answer(task.answer, {"question": task.prompt, "answer": task.answer, "metadata": metadata}) >= 0.999


@every_family
def test_the_published_majority_rate_is_the_measured_one(family: str) -> None:
    made = environment(family)
    n = 20_000 if family in ANSWERS else 1500
    rate = made.majority_rate
    assert measure_majority(made, n, 7) == pytest.approx(rate, abs=4 * (rate * (1 - rate) / n) ** 0.5 + 3 / n)


@every_family
def test_the_audit_finds_nothing(family: str) -> None:
    assert [finding for finding in audit(environment(family), 300 if family in ANSWERS else 60, 0) if not finding.ok] == []


@every_family
def test_neighbouring_seeds_share_no_task(family: str) -> None:
    """A dataset seed plus an index overlaps its neighbours: task 1 of seed 0 would be task 0 of seed 1."""
    made = environment(family)
    with pytest.raises(ValueError, match="a task seed"):
        made.task(2**64)
    prompts = [made.task(seed).prompt for seed in range(400)]
    shift = sum(first == second for first, second in zip(prompts[1:], prompts, strict=False))
    chance = sum(first == second for first, second in zip(Random(0).sample(prompts, 400), prompts, strict=False))
    assert shift <= chance + 12


def test_the_task_set_follows_the_seeds_alone() -> None:
    """Case E17: a set is known to whoever knows its seeds and to no one else; other seeds give other tasks."""
    made = environment("spell_backward")
    first = [made.task(seed).prompt for seed in seeds("epoch|hash a", 200, 1)]
    assert first == [made.task(seed).prompt for seed in seeds("epoch|hash a", 200, 1)]
    assert len(set(first) & {made.task(seed).prompt for seed in seeds("epoch|hash b", 200, 1)}) < 20


@every_family_of_answers
def test_a_task_carries_the_facts_of_its_level(family: str) -> None:
    wanted = {
        "number_sorting": {"numbers", "direction"}, "spell_backward": {"letters"}, "chain_sum": {"terms", "operator", "expression"},
        "bit_count": {"number", "bits"}, "two_digit_sum": {"digits", "operator", "expression"}, "digit_product": {"expression"},
        "who_does": {"statements", "predicate"},
    }
    _, tasks = _drawn(family)
    assert {frozenset(task.facts) for task in tasks} == {frozenset(wanted[family])}


def test_a_task_of_another_environment_is_no_task_to_grade() -> None:
    """Case E4: the grader's fault is a fault of its own, never a wrong answer of the model's."""
    task = environment("chain_sum").task(1)
    grade = environment("bit_count").grade(task, task.answer)
    assert (grade.reward, grade.reason) == (None, "grader_failed")


@pytest.mark.parametrize("family", ["two_digit_sum", "digit_product", "who_does"])
def test_a_restated_task_is_judged_by_its_own_restatement(family: str) -> None:
    made, tasks = _drawn(family)
    restated = [
        f"{task.answer} {task.facts['predicate']}." if family == "who_does" else f"{task.facts['expression']} = {task.answer}"
        for task in tasks
    ]
    assert {made.grade(task, text).reward for task, text in zip(tasks, restated, strict=True)} == {1.0}
    pairs = [(task, text) for task, own, text in zip(tasks, restated, restated[1:], strict=False) if text != own]
    assert {made.grade(task, text).reward for task, text in pairs} == {0.0}, "the restatement of another task is no answer to this one"
