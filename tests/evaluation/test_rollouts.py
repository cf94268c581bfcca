"""A batch of rollouts: every task gets a row, and every failure its owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from evaluation_parts import Digits, FakeEngine, epochs_row, no_answer

from affine_dagster.environments.port import Grade, Task
from affine_dagster.evaluation.rollouts import BatchContext, answer_batch, fault_batch
from affine_dagster.evaluation.tasksets import task_seeds
from affine_dagster.ledger import Ledger
from affine_dagster.serving.port import Completion, Sampling
from affine_dagster.store import Store
from affine_dagster.tables import ROLLOUTS

SAMPLING = Sampling()
CONTEXT = BatchContext(epoch=7, weights_digest="ab" * 32, sampling=SAMPLING, engine="fake", attempt=0)


def tasks(count: int = 6) -> pl.DataFrame:
    return task_seeds(epochs_row(7), "chain_sum", "1", "contest", count)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.safetensors").write_text('{"skill": {"chain_sum": 60}}')
    return tmp_path


def answered(folder: Path, engine: FakeEngine | None = None, environment: Digits | None = None) -> pl.DataFrame:
    with (engine or FakeEngine()).open(folder) as model:
        return answer_batch(CONTEXT, model, environment or Digits("chain_sum"), tasks())


def outcomes(rows: pl.DataFrame) -> set[tuple[float | None, str | None, str | None]]:
    return set(rows.select("reward", "fault", "reason").rows())


def test_each_task_has_one_row_with_its_seed_and_its_receipt(folder: Path) -> None:
    rows = answered(folder)
    assert rows.select("index", "seed").equals(tasks().select("index", "seed"))
    assert set(rows["reward"].to_list()) == {0.0, 1.0}
    receipt = rows.select("engine", "engine_version", "template_hash", "tokenizer_signature", "sampling_digest").unique().row(0)
    assert receipt == ("fake", "1", "template", "tokenizer", SAMPLING.digest)
    assert rows["loaded_weights_digest"].n_unique() == 1


def test_a_second_run_gives_the_same_rows(folder: Path) -> None:
    assert answered(folder).equals(answered(folder))


def raising(task: Task) -> Grade:
    raise RuntimeError("the grader is broken")


def test_a_grader_that_always_raises_is_at_fault_and_no_model_is(folder: Path) -> None:
    """Case E4: one task broke, and every model was refused."""
    rows = answered(folder, environment=Digits("chain_sum", broken=raising))
    assert outcomes(rows) == {(None, "evaluator", "grader_failed")}
    assert rows["detail"].unique().to_list() == ["RuntimeError: the grader is broken"]


def test_a_text_that_breaks_a_grader_costs_no_other_its_grade(folder: Path) -> None:
    """Case E4, where all are judged together."""
    bad = tasks()["seed"][2]
    rows = answered(folder, environment=Digits("chain_sum", broken=lambda task: raising(task) if task.seed == bad else None))
    assert rows.filter(pl.col("reason") == "grader_failed")["seed"].to_list() == [bad]
    assert rows.filter(pl.col("seed") != bad)["reward"].is_in([0.0, 1.0]).all()


@dataclass(frozen=True)
class _Short(Digits):
    def grade_all(self, tasks: Sequence[Task], completions: Sequence[str]) -> list[Grade]:
        return super().grade_all(tasks, completions)[1:]


def test_fewer_grades_than_completions_are_nobodys(folder: Path) -> None:
    rows = answered(folder, environment=_Short("chain_sum"))
    assert outcomes(rows) == {(None, "evaluator", "grader_failed")}


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -float("inf"), 1.5, -0.01, True, "1.0", "false"])
def test_what_is_not_a_number_in_0_to_1_is_no_reward(folder: Path, reward: object) -> None:
    """Cases E7, E14: neither a one nor a zero is made of it."""
    rows = answered(folder, environment=Digits("chain_sum", broken=lambda task: Grade(reward)))  # type: ignore[arg-type]
    assert outcomes(rows) == {(None, "evaluator", "grader_failed")}


@pytest.mark.parametrize("reason", [None, "no such code", "won"])
def test_a_grade_without_reward_and_without_a_fault_is_the_graders(folder: Path, reason: str | None) -> None:
    rows = answered(folder, environment=Digits("chain_sum", broken=lambda task: Grade(None, reason)))
    assert outcomes(rows) == {(None, "evaluator", "grader_failed")}


def test_one_lost_answer_of_many_is_recorded_and_the_batch_goes_on(folder: Path) -> None:
    """Case E11."""
    lost = f"chain_sum:{tasks()['seed'][2]}"
    rows = answered(folder, FakeEngine(fault=lambda prompt, call: no_answer("gone") if prompt == lost else None))
    assert rows.height == 6
    faults = rows.filter(pl.col("reason").is_not_null())
    assert faults.select("index", "reward", "reason", "detail").rows() == [(2, None, "no_answer", "gone")]


def test_an_engine_that_raises_gives_no_answer_to_the_batch(folder: Path) -> None:
    def explode(prompt: str, call: int) -> Completion | None:
        raise MemoryError("out of memory")

    assert outcomes(answered(folder, FakeEngine(fault=explode))) == {(None, "evaluator", "no_answer")}


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("invalid_sample", (0.0, "model", "invalid_sample")), ("context_overflow", (0.0, "model", "context_overflow")),
        ("prompt_too_long", (None, "operator", "prompt_too_long")), (None, (None, "evaluator", "no_answer")),
    ],
)
def test_only_a_fault_of_the_model_costs_a_zero(folder: Path, reason: str | None, outcome: tuple[float | None, str, str]) -> None:
    """Cases E14, V5, V7."""
    rows = answered(folder, FakeEngine(fault=lambda prompt, call: Completion("", "fault", 5, 0, reason)))
    assert outcomes(rows) == {outcome}


def test_a_task_that_cannot_be_made_is_the_environments_fault_and_the_others_are_asked(folder: Path) -> None:
    class Gap(Digits):
        def task(self, seed: int) -> Task:
            if seed == tasks()["seed"][0]:
                raise ValueError("no such task")
            return super().task(seed)

    rows = answered(folder, environment=Gap("chain_sum"))
    assert rows["reason"].to_list() == ["grader_failed"] + [None] * 5


def test_any_text_can_be_stored(folder: Path, tmp_path: Path) -> None:
    text = "\ud800 \x00 reward: 1 \u202e" + "x" * 100_000
    grade = Digits("chain_sum", broken=lambda task: Grade(0.0))
    rows = answered(folder, FakeEngine(fault=lambda prompt, call: Completion(text, "length", 1, 24)), grade)
    ledger = Ledger(Store(str(tmp_path / "store")))
    ledger.append(rows, 0)
    assert ledger.rollouts(7)["completion"][0] == text.replace("\ud800", "?")


def test_a_model_that_was_never_loaded_has_rows_without_a_receipt() -> None:
    rows = fault_batch(CONTEXT, tasks(3), "not_loadable", "bad tensor")
    assert outcomes(rows) == {(0.0, "model", "not_loadable")}
    assert rows.select("loaded_weights_digest", "engine_version").null_count().row(0) == (3, 3)
    assert rows.equals(ROLLOUTS.check(rows))
