"""The registry: names lead to environments, wrong ones to one clear error, and a guessable family is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from affine_dagster.environments.audit import Finding, audit
from affine_dagster.environments.bit_count import BIT_COUNT
from affine_dagster.environments.port import Grade, Task
from affine_dagster.environments.reasoning import ReasoningFamily
from affine_dagster.environments.registry import accepted, environments, names
from affine_dagster.reasons import AffineError
from affine_dagster.settings import EvaluationSettings


def test_the_default_settings_name_only_environments_that_exist() -> None:
    wanted = EvaluationSettings().environments
    assert [made.name for made in environments(wanted)] == list(wanted)


@pytest.mark.parametrize("wanted", [("chain_sum", "no_such"), ("chain_sum", "chain_sum")])
def test_a_wrong_name_is_one_error_that_names_the_field(wanted: tuple[str, ...]) -> None:
    with pytest.raises(AffineError, match=r"evaluation\.environments") as caught:
        environments(wanted)
    assert caught.value.code == "bad_settings"


@pytest.mark.parametrize("rate", [0.3001, 1.0, float("nan"), -0.1])
def test_a_family_that_one_answer_solves_is_refused(rate: float) -> None:
    with pytest.raises(AffineError, match="bit_count is refused"):
        accepted(replace(BIT_COUNT, majority_rate=rate))


def test_names_are_safe_in_paths() -> None:
    assert all(name.replace("_", "").isalnum() and name == name.lower() for name in names())


class _Sloppy(ReasoningFamily):
    """Gives a reward to whatever holds the answer, and breaks on NUL."""

    def grade(self, task: Task, completion: str) -> Grade:
        if "\0" in completion:
            raise RuntimeError("NUL")
        return Grade(1.0 if task.answer in completion else 0.0)


def _failed(findings: list[Finding]) -> set[str]:
    return {finding.check for finding in findings if not finding.ok}


def test_the_audit_finds_a_grader_that_raises_and_one_that_searches_the_text() -> None:
    fields = ("name", "generator", "level", "revision", "majority_rate", "facts", "judge")
    sloppy = _Sloppy(**{field: getattr(BIT_COUNT, field) for field in fields})
    assert _failed(audit(sloppy, 100, 0)) == {"malformed"}
    generous = replace(BIT_COUNT, judge=lambda task, completion: bool(completion))
    assert _failed(audit(generous, 100, 0)) == {"nonsense", "malformed"}


def test_the_audit_finds_a_majority_rate_that_is_not_the_published_one() -> None:
    assert _failed(audit(replace(BIT_COUNT, majority_rate=0.1), 300, 0)) == {"majority"}


def test_the_audit_finds_a_grader_that_refuses_the_right_answer() -> None:
    assert "gold" in _failed(audit(replace(BIT_COUNT, judge=lambda task, completion: False), 100, 0))
