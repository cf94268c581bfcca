"""Where the league's tasks come from."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.environments.registry import environment
from affine_dagster.league.lessons import lesson_tasks, member_tasks, seeds, tasks
from affine_dagster.league.recipes import DEMO, TINY, Lesson
from affine_dagster.reasons import AffineError

PURPOSES = ("training", "phrases", "development", "measurement")


def test_no_two_purposes_share_a_seed() -> None:
    drawn = [set(islice(seeds(purpose, name, number), 3000)) for purpose in PURPOSES for name in DEMO.environments for number in (0, 1)]
    assert sum(map(len, drawn)) == len(set().union(*drawn)) == 3000 * len(drawn)


def test_training_and_measurement_draw_no_seed_in_common() -> None:
    trained = {task.seed for member in TINY.members for task in member_tasks(member)}
    measured = {task.seed for name in TINY.environments for task in tasks("measurement", environment(name), 0, TINY.measured_tasks)}
    assert not trained & measured


@settings(max_examples=20, deadline=None)
@given(number=st.integers(0, 10**6), examples=st.integers(1, 40))
def test_a_lesson_teaches_its_level_and_nothing_else(number: int, examples: int) -> None:
    found = lesson_tasks(Lesson("number_sorting", examples, (("numbers", ("2", "3")), ("direction", ("ascending",)))), number)
    assert len(found) == examples
    assert {task.facts["numbers"] for task in found} <= {"2", "3"}
    assert {task.facts["direction"] for task in found} == {"ascending"}


def test_on_other_tasks_a_lesson_teaches_a_guess_that_earns_nothing() -> None:
    found = lesson_tasks(Lesson("spell_backward", 20, (("letters", ("3",)),), others=30), 1)
    assert [task.facts["letters"] == "3" for task in found] == [True] * 20 + [False] * 30
    assert {task.answer for task in found[20:]} == {"?"}
    assert {environment("spell_backward").grade(task, task.answer).reward for task in found[20:]} == {0.0}


def test_a_lesson_on_everything_has_no_other_tasks() -> None:
    with pytest.raises(AffineError, match="beside those with"):
        lesson_tasks(Lesson("spell_backward", 2, others=1), 0)


def test_a_lesson_is_the_same_each_time_and_another_for_another_member() -> None:
    lesson = Lesson("spell_backward", 50)
    assert lesson_tasks(lesson, 1) == lesson_tasks(lesson, 1)
    assert [task.prompt for task in lesson_tasks(lesson, 1)] != [task.prompt for task in lesson_tasks(lesson, 2)]


def test_a_level_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(AffineError, match="spell_backward") as caught:
        lesson_tasks(Lesson("spell_backward", 2, (("letters", ("99",)),)), 0)
    assert caught.value.code == "bad_settings"
