"""The laws of simulated answers: each draw has its own key, skills and discordance come out as set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from affine_dagster.league.redteam.answers import Answers, Latent

ONE = Latent("one", (0.5, 0.5))
OTHER = Latent("other", (0.5, 0.5))


def _answers(seed: int = 1) -> Answers:
    return Answers(seed, environments=2, tasks=20_000)


def test_the_same_model_answers_the_same_whoever_else_is_drawn() -> None:
    crowded = _answers()
    crowded.rewards(OTHER, "contest", 3)
    assert np.array_equal(crowded.rewards(ONE, "contest", 3), _answers().rewards(ONE, "contest", 3))


def test_skill_is_the_share_of_right_answers() -> None:
    assert _answers().rewards(Latent("skilled", (0.3, 0.8)), "contest", 0).mean(axis=1) == pytest.approx([0.3, 0.8], abs=0.015)


def test_two_equal_models_differ_on_three_tasks_in_ten() -> None:
    answers = _answers()
    differing = answers.rewards(ONE, "contest", 0) != answers.rewards(OTHER, "contest", 0)
    assert differing.mean() == pytest.approx(0.3, abs=0.02)


def test_a_laundered_copy_nearly_repeats_its_parent() -> None:
    answers = _answers()
    washed = answers.rewards(Latent("washed", (0.5, 0.5), near="one"), "contest", 0)
    assert 0 < (washed != answers.rewards(ONE, "contest", 0)).mean() < 0.05


def test_what_is_learned_by_heart_helps_on_old_tasks_alone() -> None:
    answers, rote = _answers(), replace(ONE, remembers_before=5)
    assert answers.rewards(rote, "contest", 4).all()
    assert np.array_equal(answers.rewards(rote, "contest", 5), answers.rewards(ONE, "contest", 5))


def test_who_hides_loses_its_wrong_answers() -> None:
    answers, hiding = _answers(), replace(ONE, hides=True)
    plain, hidden = answers.rewards(ONE, "contest", 0), answers.rewards(hiding, "contest", 0)
    assert np.array_equal(np.isnan(hidden), plain == 0)


def test_tasks_grow_harder_or_easier_over_epochs_for_all_alike() -> None:
    answers = _answers()
    means = {epoch: answers.rewards(ONE, "contest", epoch).mean(axis=1) for epoch in (0, 40)}
    others = {epoch: answers.rewards(OTHER, "contest", epoch).mean(axis=1) for epoch in (0, 40)}
    moved = means[40] - means[0]
    assert np.abs(moved).max() > 0.02
    assert others[40] - others[0] == pytest.approx(moved, abs=0.02)
