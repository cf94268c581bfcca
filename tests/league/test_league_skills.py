"""Measured skill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.environments.registry import environment
from affine_dagster.league.lessons import tasks
from affine_dagster.league.skills import rewards, skill, wilson
from affine_dagster.reasons import AffineError
from affine_dagster.serving.port import Completion, Receipt, Sampling


@dataclass(frozen=True)
class Recited:
    """A model whose completions are written down beforehand."""

    completions: tuple[Completion, ...]

    @property
    def receipt(self) -> Receipt:
        return Receipt("", "", "", "", "", "", "")

    def complete(self, prompts: Sequence[str], seeds: Sequence[int], sampling: Sampling) -> list[Completion]:
        assert len(prompts) == len(seeds) == len(self.completions)
        return list(self.completions)


@pytest.mark.parametrize(("successes", "tasks", "low", "high"), [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (1, 1000, 0.0002, 0.0056)])
def test_wilsons_interval_has_its_published_values(successes: int, tasks: int, low: float, high: float) -> None:
    assert wilson(successes, tasks) == pytest.approx((low, high), abs=1e-4)


@settings(deadline=None)
@given(tasks=st.integers(1, 5000), share=st.floats(0, 1))
def test_an_interval_holds_its_mean_and_mirrors(tasks: int, share: float) -> None:
    successes = round(share * tasks)
    low, high = wilson(successes, tasks)
    assert 0 <= low <= successes / tasks <= high <= 1
    assert wilson(tasks - successes, tasks) == pytest.approx((1 - high, 1 - low))


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.booleans()), min_size=1, max_size=50))
def test_a_skill_counts_what_training_held_apart(rows: list[tuple[float, bool]]) -> None:
    found = skill("m", "e", [reward for reward, _ in rows], [seen for _, seen in rows])
    fresh = [reward for reward, seen in rows if not seen]
    assert found.seen == pytest.approx(1 - len(fresh) / len(rows))
    assert found.unseen_mean == (sum(fresh) / len(fresh) if fresh else None)
    assert found.mean == pytest.approx(sum(reward for reward, _ in rows) / len(rows))


def test_right_answers_are_rewarded_task_by_task() -> None:
    source = environment("chain_sum")
    drawn = tasks("measurement", source, 0, 3)
    answers = [drawn[0].answer, "no idea", drawn[2].answer]
    model = Recited(tuple(Completion(text, "stop", 1, 1) for text in answers))
    assert rewards(model, source, drawn, Sampling()) == [1.0, 0.0, 1.0]


def test_a_fault_is_raised_and_never_becomes_a_skill() -> None:
    source = environment("chain_sum")
    drawn = tasks("measurement", source, 0, 2)
    model = Recited((Completion(drawn[0].answer, "stop", 1, 1), Completion("", "fault", 1, 0, "invalid_sample")))
    with pytest.raises(AffineError) as caught:
        rewards(model, source, drawn, Sampling())
    assert caught.value.code == "invalid_sample"
