"""Recipes: what a league is, as data."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from affine_dagster.league.recipes import DEMO, TINY, LeagueRecipe, recipe_from_json


@pytest.mark.parametrize("recipe", [DEMO, TINY], ids=lambda recipe: recipe.name)
def test_a_recipe_survives_json(recipe: LeagueRecipe) -> None:
    assert recipe_from_json(json.dumps(asdict(recipe))) == recipe


@pytest.mark.parametrize("recipe", [DEMO, TINY], ids=lambda recipe: recipe.name)
def test_every_name_is_new_and_every_origin_comes_before(recipe: LeagueRecipe) -> None:
    known: set[str] = set()
    for member in recipe.members:
        assert member.parent is None or member.parent in known
        assert member.name not in known
        known.add(member.name)
    for match in recipe.matches:
        assert {match.member, match.target} <= known
    for other in (*recipe.copies, *recipe.broken):
        assert other.of in {member.name for member in recipe.members}
        assert other.name not in known
        known.add(other.name)


def test_any_change_of_a_recipe_changes_its_digest() -> None:
    base = DEMO.members[0]
    changed = [
        replace(DEMO, measured_tasks=999),
        replace(DEMO, copies=DEMO.copies[1:]),
        replace(DEMO, members=(replace(base, steps=base.steps + 1), *DEMO.members[1:])),
        replace(DEMO, members=(replace(base, lessons=base.lessons[::-1]), *DEMO.members[1:])),
    ]
    assert len({recipe.digest for recipe in (DEMO, *changed)}) == 1 + len(changed)
