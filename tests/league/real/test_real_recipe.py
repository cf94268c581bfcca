"""The real league as data: what is taught, what the world holds, and that one shapes the cache's key and the other is valid."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from affine_dagster.environments.registry import environments
from affine_dagster.league.lessons import lesson_tasks, seeds
from affine_dagster.league.real.overlap import Overlap, overlaps
from affine_dagster.league.real.recipe import BASE, ENVIRONMENTS, REAL, REAL_SMALL, RealRecipe, real_recipe_from_json
from affine_dagster.league.real.scenario import real_scenario, real_small_scenario
from affine_dagster.league.real.worker import child_tasks
from affine_dagster.league.recipes import Lesson
from affine_dagster.league.world import Scenario, make_world
from affine_dagster.tables import TASKS

every_world = pytest.mark.parametrize(
    ("recipe", "scenario"), [(REAL, real_scenario("float32")), (REAL_SMALL, real_small_scenario("bfloat16"))]
)


@pytest.mark.parametrize("recipe", [REAL, REAL_SMALL])
def test_a_recipe_survives_json(recipe: RealRecipe) -> None:
    again = real_recipe_from_json(json.dumps(asdict(recipe)))
    assert again == recipe
    assert again.digest == recipe.digest


def test_whatever_a_recipe_says_is_in_its_digest() -> None:
    child = REAL.children[0]
    others = [
        replace(REAL, tuned_layers=14),
        replace(REAL, precision="float32"),
        replace(REAL, copies=(replace(REAL.copies[0], noise=0.02),)),
        *(
            replace(REAL, children=(changed, *REAL.children[1:]))
            for changed in (replace(child, seed=9), replace(child, steps=7), replace(child, lessons=child.lessons[:1]))
        ),
    ]
    assert len({REAL.digest, *(other.digest for other in others)}) == len(others) + 1


@every_world
def test_a_world_names_only_what_is_made_and_its_settings_are_valid(
    recipe: RealRecipe, scenario: Scenario, tmp_path: Path, write_checkpoint: object
) -> None:
    assert {entry.model for entry in scenario.entries} | {scenario.genesis} <= set(recipe.models)
    source = write_checkpoint(tmp_path / "source")  # type: ignore[operator]
    world = make_world(tmp_path / "world", dict.fromkeys(recipe.models, source), scenario)
    settings = world.settings()
    assert settings.evaluation.environments == ENVIRONMENTS
    assert [made.name for made in environments(settings.evaluation.environments)] == list(ENVIRONMENTS)
    assert settings.serving.max_new_tokens == 32
    assert settings.evaluation.tasks_per_epoch % settings.evaluation.batch_tasks == 0
    assert settings.scoring.owner_slots >= len(scenario.miners) - 1, "an exact copy is no try; every other first try has a slot of alpha"
    assert scenario.genesis == BASE


def test_the_mixed_child_is_taught_everything_and_the_other_two_one_family() -> None:
    taught = {child.name: {lesson.environment for lesson in child.lessons} for child in REAL.children}
    assert taught["mixed"] == set(ENVIRONMENTS)
    assert taught["sums"] == taught["memorised"] == {"two_digit_sum"}


def test_the_memorising_child_sees_the_same_few_tasks_again_and_again() -> None:
    tasks = {child.name: child_tasks(child) for child in REAL.children}
    shown = {child.name: child.steps * child.batch for child in REAL.children}
    assert shown["memorised"] >= 15 * len(tasks["memorised"])
    assert shown["sums"] <= len(tasks["sums"])
    assert shown["mixed"] <= len(tasks["mixed"])


def test_training_and_contest_seeds_are_drawn_apart() -> None:
    drawn = {task.seed for child in REAL.children for task in child_tasks(child)}
    for purpose in ("measurement", "development"):
        for name in ENVIRONMENTS:
            stream = seeds(purpose, name, 1)
            assert not drawn & {next(stream) for _ in range(500)}


def test_what_training_held_of_a_contest_is_counted_by_prompt() -> None:
    trained = lesson_tasks(Lesson("digit_product", 200), 1)
    seen = {(task.environment, task.prompt) for task in trained if task.facts["expression"] != "7 * 8"}
    stream = seeds("measurement", "digit_product", 0)
    chosen = [next(stream) for _ in range(60)]
    rows = [
        {"epoch": 0, "environment": "digit_product", "environment_version": trained[0].version, "purpose": "contest", "index": index,
         "seed": seed}
        for index, seed in enumerate(chosen)
    ]
    source = environments(["digit_product"])[0]
    held = sum(("digit_product", source.task(seed).prompt) in seen for seed in chosen)
    assert 0 < held < 60
    assert overlaps(seen, TASKS.frame(rows)) == [Overlap("digit_product", 60, held)]
    assert overlaps(frozenset(), TASKS.frame(rows)) == [Overlap("digit_product", 60, 0)]
