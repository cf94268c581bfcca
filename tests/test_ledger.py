"""The ledger: what is committed stays, counts once, and a malformed result is never a zero."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from affine_dagster.ledger import BatchName, Ledger, rewards_of_rollouts
from affine_dagster.reasons import AffineError
from affine_dagster.store import Store, parquet_bytes
from affine_dagster.tables import REWARDS, ROLLOUTS

MODEL = "ab" * 32
OTHER = "cd" * 32


def row(
    index: int, *, reward: float | None = 1.0, reason: str | None = None, fault: str | None = None, **changes: object
) -> dict[str, object]:
    return {
        "epoch": 3, "environment": "sums", "environment_version": "1", "purpose": "contest", "task_epoch": 3,
        "index": index, "seed": 2**63 + index, "weights_digest": MODEL, "sampling_digest": "5a", "attempt": 0,
        "reward": reward, "fault": fault, "reason": reason, "detail": None, "completion": f"answer {index}", "finish_reason": "stop",
        "prompt_tokens": 5, "completion_tokens": 2, "loaded_weights_digest": MODEL, "template_hash": "t", "tokenizer_signature": "k",
        "tensors_digest": "d", "config_digest": "c",
        "engine": "e", "engine_version": "1",
    } | changes


def lost(index: int, **changes: object) -> dict[str, object]:
    return row(index, reward=None, fault="evaluator", reason="no_answer", **changes)


def frame(*rows: dict[str, object]) -> pl.DataFrame:
    return ROLLOUTS.frame(rows)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(Store(str(tmp_path / "store")))


def test_a_batch_is_read_as_it_was_written(ledger: Ledger) -> None:
    batch = frame(row(0), row(1, reward=0.5), row(2, reward=0.0, fault="model", reason="invalid_sample"), lost(3))
    assert ledger.append(batch, 0)
    assert ledger.rollouts(3).equals(batch.sort(ROLLOUTS.key))
    assert ledger.rewards(3).equals(batch.select(REWARDS.schema.names()).sort(REWARDS.key))


def test_the_name_says_epoch_environment_model_purpose_task_epoch_batch_and_attempt(ledger: Ledger) -> None:
    ledger.append(frame(row(100, task_epoch=2, purpose="assay", attempt=1)), 2)
    (name,) = ledger.batches(3)
    assert name.key == "ledger/e0000003/sums/abababababababab-assay-e0000002-00002-1.parquet"
    assert BatchName.parse(name.key) == name


def test_the_first_write_of_a_name_stands_and_the_conflict_is_logged(ledger: Ledger) -> None:
    """Case E16: two workers finish the same task with different samples."""
    ledger.append(frame(row(0, reward=1.0)), 0)
    with capture_logs() as logs:
        assert not ledger.append(frame(row(0, reward=0.0)), 0)
    assert [(log["event"], log["columns"]) for log in logs] == [("conflicting_write", ["reward"])]
    assert ledger.rewards(3)["reward"].to_list() == [1.0]


def test_the_same_content_twice_is_silent(ledger: Ledger) -> None:
    ledger.append(frame(row(0), lost(1)), 0)
    with capture_logs() as logs:
        assert not ledger.append(frame(lost(1), row(0)), 0)
    assert logs == []


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -0.1, 1.5, None])
def test_a_reward_that_is_none_of_ours_is_refused_at_the_write(ledger: Ledger, reward: float | None) -> None:
    """Cases E7, S5: nan, inf and 1.5 came from a file that the agent could write."""
    with pytest.raises(AffineError, match="bad_table"):
        ledger.append(frame(row(0), row(1, reward=reward)), 0)
    assert ledger.batches(3) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"reward": 1.0, "fault": "model", "reason": "invalid_sample"},
        {"reward": None, "fault": "model", "reason": "invalid_sample"},
        {"reward": 0.0, "fault": "evaluator", "reason": "no_answer"},
        {"reward": None, "fault": "evaluator", "reason": "invalid_sample"},
        {"reward": None, "fault": "nobody", "reason": "no_answer"},
        {"reward": None, "fault": "evaluator", "reason": None},
    ],
)
def test_a_fault_must_agree_with_its_reason_and_its_reward(ledger: Ledger, changes: dict[str, object]) -> None:
    """Case E14: an infrastructure error is never stored as a zero."""
    with pytest.raises(AffineError, match="bad_table"):
        ledger.append(frame(row(0, **changes)), 0)


@pytest.mark.parametrize(
    "change", [{"environment": "other"}, {"attempt": 1}, {"epoch": 4}, {"weights_digest": OTHER}, {"sampling_digest": "00"}]
)
def test_one_file_is_one_batch(ledger: Ledger, change: dict[str, object]) -> None:
    with pytest.raises(AffineError, match="one value of"):
        ledger.append(frame(row(0), row(1, **change)), 0)


def test_an_empty_batch_is_refused(ledger: Ledger) -> None:
    with pytest.raises(AffineError, match="without rows"):
        ledger.append(ROLLOUTS.empty(), 0)


def test_a_malformed_row_that_is_already_stored_is_missing_and_no_zero(ledger: Ledger) -> None:
    """Case E14, E10: another writer's nan must not become a number, nor leave the denominator unseen."""
    name = BatchName(3, "sums", MODEL[:16], "contest", 3, 0, 0)
    ledger.store.create(name.key, parquet_bytes(frame(row(0, reward=float("nan")), row(1, reward=7.0), row(2)), 1))
    rewards = ledger.rewards(3)
    assert rewards["reward"].to_list() == [None, None, 1.0]
    assert rewards["reason"].to_list() == ["malformed_result", "malformed_result", None]
    assert rewards["fault"].to_list() == ["evaluator", "evaluator", None]


def test_a_sound_later_attempt_replaces_a_malformed_one(ledger: Ledger) -> None:
    name = BatchName(3, "sums", MODEL[:16], "contest", 3, 0, 0)
    ledger.store.create(name.key, parquet_bytes(frame(row(0, reward=float("nan"))), 1))
    ledger.append(frame(row(0, reward=0.25, attempt=1)), 0)
    assert ledger.rewards(3)["reward"].to_list() == [0.25]


def test_the_first_result_without_a_fault_of_ours_counts(ledger: Ledger) -> None:
    for attempt, result in enumerate([lost(0), row(0, reward=0.25), row(0, reward=1.0)]):
        ledger.append(frame(result | {"attempt": attempt}), 0)
    assert ledger.rewards(3)["reward"].to_list() == [0.25]


def test_a_fault_of_the_model_is_a_result(ledger: Ledger) -> None:
    ledger.append(frame(row(0, reward=0.0, fault="model", reason="context_overflow")), 0)
    ledger.append(frame(row(0, attempt=1)), 0)
    assert ledger.rewards(3).select("reward", "reason").rows() == [(0.0, "context_overflow")]


def test_without_a_result_the_last_fault_is_shown(ledger: Ledger) -> None:
    ledger.append(frame(lost(0)), 0)
    ledger.append(frame(lost(0, attempt=1) | {"reason": "grader_failed"}), 0)
    assert ledger.rewards(3).select("reward", "reason").rows() == [(None, "grader_failed")]


results = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 2), st.sampled_from([0.0, 0.125, 1.0, None, "model"])),
    min_size=1, max_size=24, unique_by=lambda item: (item[0], item[1]),
)


Item = tuple[int, int, float | str | None]


def made(item: Item) -> dict[str, object]:
    index, attempt, result = item
    if result is None:
        return lost(index, attempt=attempt)
    if result == "model":
        return row(index, reward=0.0, fault="model", reason="invalid_sample", attempt=attempt)
    return row(index, reward=result, attempt=attempt)


def expected(items: list[Item]) -> dict[int, float | None]:
    """The rule in plain Python: the lowest attempt with a result, else nothing."""
    found: dict[int, float | None] = {}
    for index, _, result in sorted(items, key=lambda item: item[1]):
        value = 0.0 if result == "model" else result
        if found.get(index) is None:
            found[index] = value  # type: ignore[assignment]
    return found


@given(results, st.randoms(use_true_random=False), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_duplication_and_order_of_rows_change_no_reward(items: list[Item], shuffle: random.Random, copies: int) -> None:
    rows = [made(item) for item in items]
    many = rows * copies
    shuffle.shuffle(many)
    rewards = rewards_of_rollouts(pl.DataFrame(many, schema=ROLLOUTS.schema, orient="row"))
    assert rewards.equals(rewards_of_rollouts(frame(*rows)))
    assert dict(rewards.select("index", "reward").iter_rows()) == expected(items)


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=12), st.data())
@settings(max_examples=60, deadline=None)
def test_splitting_the_same_results_over_attempts_changes_no_reward(rewards: list[float], data: st.DataObject) -> None:
    whole = frame(*(row(index, reward=reward) for index, reward in enumerate(rewards)))
    pieces: list[dict[str, object]] = []
    for index, reward in enumerate(rewards):
        faults = data.draw(st.integers(0, 2))
        repeats = data.draw(st.integers(1, 2))
        pieces += [lost(index, attempt=attempt) for attempt in range(faults)]
        pieces += [row(index, reward=reward, attempt=faults + extra) for extra in range(repeats)]
    assert rewards_of_rollouts(frame(*data.draw(st.permutations(pieces)))).equals(rewards_of_rollouts(whole))


@given(results)
@settings(max_examples=40, deadline=None)
def test_every_task_that_was_tried_is_counted(items: list[Item]) -> None:
    """Case E10: an errored sample stays in the denominator."""
    rewards = rewards_of_rollouts(frame(*(made(item) for item in items)))
    assert set(rewards["index"]) == {item[0] for item in items}


def test_a_closed_epoch_reads_the_same(ledger: Ledger) -> None:
    ledger.append(frame(row(0), lost(1)), 0)
    ledger.append(frame(lost(1, attempt=1), row(0, attempt=1)), 0)
    before = ledger.rewards(3)
    key = ledger.close_epoch(3)
    assert key is not None
    assert "completion" not in pl.read_parquet(ledger.store.get(key)).columns
    assert ledger.rewards(3).equals(before)
    assert ledger.close_epoch(3) == key


def test_a_closed_epoch_is_read_from_the_compacted_file(ledger: Ledger) -> None:
    ledger.append(frame(row(0)), 0)
    key = ledger.close_epoch(3)
    marked = ledger.rewards(3).with_columns(completion_tokens=pl.lit(77, pl.Int64))
    ledger.store.put(str(key), parquet_bytes(marked, 1))
    assert ledger.rewards(3)["completion_tokens"].to_list() == [77]


def test_a_batch_after_the_closing_is_not_lost(ledger: Ledger) -> None:
    ledger.append(frame(row(0)), 0)
    ledger.close_epoch(3)
    ledger.append(frame(row(50)), 1)
    assert ledger.rewards(3)["index"].to_list() == [0, 50]


def test_an_epoch_without_rollouts_is_empty_and_has_nothing_to_close(ledger: Ledger) -> None:
    assert ledger.rewards(9).equals(REWARDS.empty())
    assert ledger.rollouts(9).equals(ROLLOUTS.empty())
    assert ledger.close_epoch(9) is None


def test_epochs_environments_and_models_are_apart(ledger: Ledger) -> None:
    ledger.append(frame(row(0)), 0)
    ledger.append(frame(row(0, environment="words")), 0)
    ledger.append(frame(row(0, weights_digest=OTHER)), 0)
    ledger.append(frame(row(0, epoch=4)), 0)
    assert ledger.rollouts(3).height == 3
    assert ledger.rollouts(3, ["words"])["environment"].to_list() == ["words"]
    assert ledger.rollouts(3, weights_digest=OTHER)["weights_digest"].to_list() == [OTHER]
    assert ledger.rewards(3, ["sums"]).height == 2
    assert ledger.rewards_between(3, 4)["epoch"].to_list() == [3, 3, 3, 4]


def test_digests_with_the_same_first_digits_are_told_apart(ledger: Ledger) -> None:
    near = MODEL[:16] + "00" * 24
    ledger.append(frame(row(0)), 0)
    assert ledger.rollouts(3, weights_digest=near).is_empty()
    assert ledger.completed_batches(3, near, 3) == frozenset()


def test_a_batch_is_complete_with_results_or_when_its_attempts_are_used_up(ledger: Ledger) -> None:
    ledger.append(frame(row(0), lost(1)), 0)
    assert ledger.completed_batches(3, MODEL, 2) == frozenset()
    ledger.append(frame(row(50), row(51, reward=0.0, fault="model", reason="invalid_sample")), 1)
    assert ledger.completed_batches(3, MODEL, 2) == {("sums", "contest", 3, 1)}
    ledger.append(frame(row(0, attempt=1), lost(1, attempt=1)), 0)
    assert ledger.completed_batches(3, MODEL, 2) == {("sums", "contest", 3, 0), ("sums", "contest", 3, 1)}
    assert ledger.completed_batches(3, MODEL, 3) == {("sums", "contest", 3, 1)}


WRITER = """
import os, sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[2])))
from test_ledger import frame, row
from affine_dagster.ledger import Ledger
from affine_dagster.store import Store
ledger = Ledger(Store(sys.argv[1]))
print("ready", flush=True)
batch = 0
while True:
    ledger.append(frame(*(row(index) for index in range(5 * batch, 5 * batch + 5))), batch)
    print(batch, flush=True)
    batch += 1
"""


@pytest.mark.parametrize("survived", [1, 7, 23])
def test_kill_9_loses_no_committed_row_and_counts_none_twice(tmp_path: Path, survived: int) -> None:
    """DESIGN section 6: a crash anywhere, ``kill -9`` included. What was announced as committed is there, and all of it is whole."""
    root = str(tmp_path / "store")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", WRITER, root, str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout is not None
        announced = [line for line, _ in zip(writer.stdout, range(survived + 1), strict=False)][1:]
        writer.kill()
    ledger = Ledger(Store(root))
    indexes = ledger.rewards(3)["index"].to_list()
    assert indexes == list(range(len(indexes)))
    assert len(indexes) % 5 == 0
    assert len(indexes) >= 5 * len(announced)
    again = frame(*(row(index) for index in range(5)))
    assert not ledger.append(again, 0)
    assert ledger.rewards(3)["index"].to_list() == indexes
