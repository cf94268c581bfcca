"""A hundred epochs in one file: read for what they are, and never for what they were."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from affine_dagster.ledger import Ledger
from affine_dagster.sealed import EPOCHS_A_FILE
from affine_dagster.store import Store
from affine_dagster.tables import REWARDS, ROLLOUTS

MODEL = "ab" * 32
EPOCHS = (3, 4, 99, 100)


def batch(epoch: int, *rewards: float, attempt: int = 0) -> pl.DataFrame:
    row = {
        "epoch": epoch, "environment": "sums", "environment_version": "1", "purpose": "contest", "task_epoch": epoch, "seed": 1,
        "weights_digest": MODEL, "sampling_digest": "5a", "attempt": attempt, "fault": None, "reason": None, "detail": None,
        "completion": "x", "finish_reason": "stop", "prompt_tokens": 5, "completion_tokens": 2, "loaded_weights_digest": MODEL,
        "template_hash": "t", "tokenizer_signature": "k", "tensors_digest": "d", "config_digest": "c", "engine": "e", "engine_version": "1",
    }
    return ROLLOUTS.frame(row | {"index": index, "reward": reward} for index, reward in enumerate(rewards))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(Store(str(tmp_path / "store")))
    for epoch in EPOCHS:
        made.append(batch(epoch, 0.0, 1.0), 0)
    return made


def rewards(ledger: Ledger) -> dict[int, pl.DataFrame]:
    return {epoch: ledger.rewards(epoch) for epoch in range(2, 102)}


def test_sealed_epochs_read_as_they_did_before(ledger: Ledger) -> None:
    before = rewards(ledger)
    assert ledger.seal_before(2 * EPOCHS_A_FILE) == ["sealed/h00000/0001.parquet"]
    after = rewards(ledger)
    assert all(before[epoch].equals(after[epoch]) for epoch in before)
    assert ledger.sealed.rewards(4) is not None
    assert ledger.sealed.rewards(100) is None


@pytest.mark.parametrize(("epoch", "sealed"), [(99, 0), (109, 0), (110, 1), (150, 1), (210, 2)])
def test_a_hundred_is_sealed_when_its_epochs_are_ten_back(ledger: Ledger, epoch: int, sealed: int) -> None:
    assert len(ledger.seal_before(epoch)) == sealed


def test_what_is_sealed_is_not_sealed_again(ledger: Ledger) -> None:
    ledger.seal_before(210)
    assert ledger.seal_before(210) == []
    assert ledger.sealed.hundreds() == [0, 1]


def test_a_later_batch_opens_the_seal_and_the_next_sealing_has_it(ledger: Ledger) -> None:
    ledger.seal_before(150)
    ledger.append(batch(4, 0.5), 1)
    assert ledger.sealed.hundreds() == []
    assert ledger.rewards(4).height == 3 - 1  # tasks 0 and 1; the first result of a task counts
    ledger.append(batch(50, 0.5), 0)
    assert ledger.rewards(50)["reward"].to_list() == [0.5]
    assert ledger.seal_before(150) == ["sealed/h00000/0002.parquet"]
    assert ledger.sealed.rewards(50).equals(ledger.rewards(50))  # type: ignore[union-attr]


def test_other_hundreds_stay_sealed(ledger: Ledger) -> None:
    ledger.seal_before(210)
    ledger.append(batch(100, 0.5), 1)
    assert ledger.sealed.hundreds() == [0]


class Interrupted(Ledger):
    """A ledger into which another process writes a batch at the worst moment of sealing."""

    late: pl.DataFrame

    def rewards(self, epoch: int, environments: object = None) -> pl.DataFrame:
        found = super().rewards(epoch)
        if epoch == 99:
            Ledger(self.store).append(self.late, 1)
        return found


def test_a_batch_that_is_written_while_sealing_opens_the_seal(ledger: Ledger) -> None:
    other = Interrupted(ledger.store)
    other.late = batch(3, 0.0, 0.0, 0.0)
    other.seal_before(150)
    assert ledger.sealed.hundreds() == []
    assert ledger.rewards(3).height == 3


def test_a_batch_whose_writer_was_killed_before_it_opened_the_seal_is_found_by_the_run_that_takes_over(ledger: Ledger) -> None:
    ledger.seal_before(150)
    program = (
        "import os, sys; from affine_dagster.ledger import Ledger; from affine_dagster.store import Store; import test_sealed as t\n"
        "ledger = Ledger(Store(sys.argv[1])); ledger.sealed.open = lambda hundred: None\n"
        "ledger.append(t.batch(3, 0.0, 0.0, 0.0), 1); os.kill(os.getpid(), 9)"
    )
    root = ledger.store.url
    ran = subprocess.run([sys.executable, "-c", program, root], check=False, env={"PYTHONPATH": str(Path(__file__).parent)})
    assert ran.returncode == -9
    assert ledger.rewards(3).height == 2
    ledger.completed_batches(3, MODEL, 2)
    assert ledger.rewards(3).height == 3


def test_rewards_that_come_without_rollouts_are_read(tmp_path: Path, ledger: Ledger) -> None:
    """An auditor has the published rewards and no completions."""
    archive = Ledger(Store(str(tmp_path / "archive")))
    archive.sealed.seal(0, pl.concat([ledger.rewards(epoch) for epoch in (3, 4, 99)]), {})
    assert archive.rewards(4).equals(ledger.rewards(4))
    assert archive.rewards(5).equals(REWARDS.empty())
    assert archive.completed_batches(3, MODEL, 2) == frozenset()
    assert archive.sealed.hundreds() == [0]
