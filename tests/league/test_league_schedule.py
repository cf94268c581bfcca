"""The order in which a league is made."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.league.jobs import Job, Schedule, plan
from affine_dagster.league.recipes import DEMO, TINY, LeagueRecipe


@settings(deadline=None)
@given(recipe=st.sampled_from([DEMO, TINY]), seed=st.integers(0, 10**6), takers=st.integers(1, 4))
def test_every_job_is_taken_once_and_after_what_it_needs(recipe: LeagueRecipe, seed: int, takers: int) -> None:
    jobs, schedule, chance = plan(recipe), Schedule(plan(recipe)), random.Random(seed)
    done: list[str] = []
    running: list[Job] = []
    while len(done) < len(jobs):
        ready = [job for job in jobs if job.needs <= set(done) and job.key not in done and job not in running]
        if ready and len(running) < takers:
            taken = schedule.take()
            assert taken == ready[0]
            running.append(taken)
        else:
            finished = running.pop(chance.randrange(len(running)))
            schedule.finish(finished)
            done.append(finished.key)
    assert schedule.take() is None
    assert sorted(done) == sorted(job.key for job in jobs)


def test_a_model_that_is_chosen_is_copied_and_measured_after_the_choice() -> None:
    jobs = {job.key: job for job in plan(DEMO)}
    assert jobs["measure:independent"].needs == {"choose:independent"}
    assert jobs["choose:independent"].needs == {"train:independent", "train:base"}


def test_a_taker_that_waits_gets_a_job_when_it_becomes_ready() -> None:
    first, second = Job("train", "a"), Job("train", "b", frozenset({"train:a"}))
    schedule = Schedule([first, second])
    assert schedule.take() == first
    found: list[Job | None] = []
    waiter = threading.Thread(target=lambda: found.append(schedule.take()))
    waiter.start()
    schedule.finish(first)
    waiter.join(10)
    assert found == [second]


def test_after_a_failure_nobody_gets_a_job_and_the_first_failure_is_raised() -> None:
    schedule = Schedule([Job("train", "a"), Job("train", "b", frozenset({"train:a"}))])
    schedule.take()
    found: list[Job | None] = []
    waiter = threading.Thread(target=lambda: found.append(schedule.take()))
    waiter.start()
    schedule.fail(ValueError("first"))
    schedule.fail(ValueError("second"))
    waiter.join(10)
    assert found == [None]
    with pytest.raises(ValueError, match="first"):
        schedule.raise_failure()
