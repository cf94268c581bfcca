"""The worker: what is missing is run, once, on the model that was asked for, until the evidence decides."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest
from evaluation_parts import EPOCH, Digits, FakeEngine, World, make_world, no_answer, planned

from affine_dagster.evaluation.events import JobEvent
from affine_dagster.reasons import AffineError
from affine_dagster.serving.port import Completion, LoadedModel
from affine_dagster.tables import TASKS


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = make_world(tmp_path)
    made.freeze_tasks()
    return made


def run(world: World, row: dict[str, Any], engine: FakeEngine | None = None, **changes: Any) -> FakeEngine:
    engine = engine or FakeEngine()
    (job,) = world.jobs(row, **changes)
    world.worker(job, engine).run()
    return engine


def test_every_planned_task_is_run_once_in_batches_that_are_files(world: World) -> None:
    engine = run(world, planned(world.publish("a"), tasks=25))
    rows = world.ledger.rollouts(EPOCH)
    assert rows.group_by("environment").agg(pl.col("index").sort()).sort("environment")["index"].to_list() == [list(range(25))] * 2
    assert [name.batch for name in world.ledger.batches(EPOCH, ["chain_sum"])] == [0, 1, 2]
    assert [len(call) for call in engine.calls] == [10, 10, 10, 10, 5, 5]
    assert engine.loads == 1


def test_the_tasks_are_those_of_the_frozen_task_set(world: World) -> None:
    run(world, planned(world.publish("a")))
    key = ["environment", "index", "seed"]
    ran = world.ledger.rollouts(EPOCH).select(key).sort(key)
    contest = world.tables.need(TASKS, EPOCH).filter((pl.col("purpose") == "contest") & (pl.col("index") < 40))
    assert ran.equals(contest.select(key).sort(key))


def test_a_model_that_is_not_the_one_asked_for_writes_nothing(world: World) -> None:
    """Case V10: every score came from one wrong model directory."""
    right, wrong = world.publish("a"), world.publish("b")
    swapped = right | {"repo": wrong["repo"], "revision": wrong["revision"]}
    with pytest.raises(AffineError, match="wrong_weights"):
        run(world, planned(swapped))
    assert world.ledger.batches(EPOCH) == []


@dataclass
class Reconfigured(FakeEngine):
    """Loads the tensors that were asked for under another configuration."""

    @contextmanager
    def open(self, folder: Path) -> Iterator[LoadedModel]:
        with super().open(folder) as model:
            given = model.receipt
            other = replace(given, weights_digest="f" * 64, config_digest="other")
            yield cast("LoadedModel", SimpleNamespace(receipt=other, complete=model.complete))


def test_the_right_weights_under_another_config_write_nothing(world: World) -> None:
    """A score belongs to what was run: rope_theta is part of it as the tensors are."""
    (job,) = world.jobs(planned(world.publish("a"), tasks=10))
    with pytest.raises(AffineError, match=r"wrong_weights.*config other"):
        world.worker(job, Reconfigured()).run()
    assert world.ledger.batches(EPOCH) == []


def test_a_model_planned_before_configurations_counted_is_known_by_its_tensors(world: World) -> None:
    """Version 1 of FINGERPRINTS: its digest names the tensors alone, and its contests go on."""
    model = world.publish("a")
    old = model | {"weights_digest": model["weights_digest"][::-1]}
    run(world, planned(old, tasks=10))
    assert world.ledger.rewards(EPOCH)["weights_digest"].unique().to_list() == [old["weights_digest"]]


def test_a_run_that_starts_again_runs_only_what_is_missing(world: World) -> None:
    model = world.publish("a")
    run(world, planned(model, tasks=20))
    engine = run(world, planned(model, tasks=40))
    assert [len(call) for call in engine.calls] == [10] * 4
    assert world.ledger.rewards(EPOCH).height == 80


def test_a_crash_is_recorded_at_the_batch_that_a_worker_would_try_next(world: World) -> None:
    """Written by the launcher, without a model: the worker that starts again goes on as after any lost answer."""
    model = world.publish("a")
    run(world, planned(model, tasks=10))
    (job,) = world.jobs(planned(model, tasks=20))
    for attempt in range(3):
        assert world.worker(job, FakeEngine(load_error="not_loadable")).record_crash("ended by signal 11"), attempt
    rows = world.ledger.rollouts(EPOCH).filter(reason="engine_crashed")
    assert set(rows.select("environment", "index", "attempt").rows()) == {
        ("chain_sum", index, attempt) for index in range(10, 20) for attempt in range(3)
    }
    engine = run(world, planned(model, tasks=20))
    assert [call[0].split(":")[0] for call in engine.calls] == ["bit_count"]
    assert not world.worker(job, FakeEngine()).record_crash("")


def test_where_nothing_is_missing_nothing_is_loaded(world: World) -> None:
    model = world.publish("a")
    run(world, planned(model))
    assert run(world, planned(model)).loads == 0


def test_a_lost_answer_is_asked_again_with_its_whole_batch_as_a_new_attempt(world: World) -> None:
    """Case E13: no retry within a rollout; the same batch again, and the first result stands."""
    engine = run(world, planned(world.publish("a"), tasks=20), FakeEngine(fault=lambda prompt, call: no_answer() if call == 1 else None))
    assert engine.calls[0] == engine.calls[1]
    assert [(name.batch, name.attempt) for name in world.ledger.batches(EPOCH, ["chain_sum"])] == [(0, 0), (0, 1), (1, 0)]
    assert world.ledger.rewards(EPOCH)["fault"].null_count() == 40


def test_retries_are_bounded_and_the_fault_is_then_shown(world: World) -> None:
    """Case E11: one task that never gets an answer does not end the evaluation."""
    seed = world.tables.need(TASKS, EPOCH).filter(purpose="contest", environment="chain_sum", index=3)["seed"].item()
    engine = run(
        world, planned(world.publish("a"), tasks=20),
        FakeEngine(fault=lambda prompt, call: no_answer() if prompt == f"chain_sum:{seed}" else None),
    )
    rewards = world.ledger.rewards(EPOCH)
    assert rewards.filter(pl.col("reward").is_null()).select("environment", "index", "fault", "reason").rows() == [
        ("chain_sum", 3, "evaluator", "no_answer")
    ]
    assert sum(f"chain_sum:{seed}" in call for call in engine.calls) == 3
    assert run(world, planned(world.publish("c"), tasks=1)).loads == 1
    assert run(world, planned(world.publish("d") | {"weights_digest": rewards["weights_digest"][0]}, tasks=20)).loads == 0


def test_a_batch_is_complete_when_its_attempts_together_are(world: World) -> None:
    """Each call loses another task: no single attempt is whole, two together are."""
    def lose(prompt: str, call: int) -> Completion | None:
        return no_answer() if call in (1, 2) and int(prompt.split(":")[1]) % 2 == call % 2 else None

    engine = run(world, planned(world.publish("a"), tasks=10), FakeEngine(fault=lose), environments=["chain_sum"])
    assert len(engine.calls) == 2
    assert world.ledger.rewards(EPOCH)["reward"].null_count() == 0


def test_a_broken_grader_ends_no_run_and_costs_no_model_anything(tmp_path: Path) -> None:
    """Case E4: the environment is at fault, its rows say so, the other environment's count."""
    def broken(task: object) -> object:
        raise RuntimeError("broken")

    world = make_world(tmp_path, (Digits("chain_sum", broken=broken), Digits("bit_count")))
    world.freeze_tasks()
    run(world, planned(world.publish("a"), tasks=10))
    rewards = world.ledger.rewards(EPOCH)
    assert set(rewards.select("environment", "reason", pl.col("reward").is_null()).rows()) == {
        ("chain_sum", "grader_failed", True), ("bit_count", None, False),
    }


def duel(world: World, challenger: dict[str, int], incumbent: dict[str, int], tasks: int = 200) -> tuple[FakeEngine, list[JobEvent]]:
    one, other = world.publish("one", **challenger), world.publish("other", **incumbent)
    run(world, planned(other, tasks=tasks))
    (job,) = world.jobs(planned(one, "challenger", tasks=tasks, opponents=[other["weights_digest"]]))
    engine, events = FakeEngine(), []
    world.worker(job, engine, report=events.append).run()
    return engine, events


def tasks_run(engine: FakeEngine) -> int:
    return sum(len(call) for call in engine.calls) // 2


def test_a_challenger_that_is_much_better_stops_when_it_has_won(world: World) -> None:
    engine, events = duel(world, {"chain_sum": 90, "bit_count": 90}, {"chain_sum": 30, "bit_count": 30})
    assert 10 <= tasks_run(engine) < 200
    assert tasks_run(engine) % 10 == 0
    assert events[-1].event == "decided"


def test_a_challenger_that_is_worse_somewhere_stops(world: World) -> None:
    engine, _ = duel(world, {"chain_sum": 90, "bit_count": 5}, {"chain_sum": 30, "bit_count": 60})
    assert tasks_run(engine) < 200


def test_an_equal_challenger_runs_to_the_end_of_its_tasks(world: World) -> None:
    engine, events = duel(world, {}, {}, tasks=60)
    assert tasks_run(engine) == 60
    assert "decided" not in {event.event for event in events}


def test_without_the_opponents_results_nothing_is_decided(world: World) -> None:
    """Missing data never helps: an opponent without rows cannot be beaten."""
    one, other = world.publish("one", chain_sum=100, bit_count=100), world.publish("other", chain_sum=0, bit_count=0)
    engine = run(world, planned(one, "challenger", tasks=100, opponents=[other["weights_digest"]]))
    assert tasks_run(engine) == 100


def test_a_run_that_starts_again_stops_where_an_undisturbed_one_stops(world: World, tmp_path: Path) -> None:
    skills: dict[str, dict[str, int]] = {"challenger": {"chain_sum": 90, "bit_count": 90}, "incumbent": {"chain_sum": 30, "bit_count": 30}}
    engine, _ = duel(world, skills["challenger"], skills["incumbent"], tasks=150)
    assert tasks_run(engine) < 150
    again = make_world(tmp_path / "again")
    again.freeze_tasks()
    one, other = again.publish("one", **skills["challenger"]), again.publish("other", **skills["incumbent"])
    run(again, planned(other, tasks=150))
    row = planned(one, "challenger", tasks=150, opponents=[other["weights_digest"]])
    run(again, row, environments=["chain_sum"])
    assert again.ledger.rewards(EPOCH, ["chain_sum"]).filter(weights_digest=one["weights_digest"]).height >= tasks_run(engine)
    run(again, row)
    assert again.ledger.rewards(EPOCH, ["bit_count"]).filter(weights_digest=one["weights_digest"]).height == tasks_run(engine)


def test_one_environment_of_a_past_epoch_runs_alone(world: World) -> None:
    model = world.publish("a")
    engine = run(world, planned(model), environments=["bit_count"])
    assert {prompt.split(":")[0] for call in engine.calls for prompt in call} == {"bit_count"}
    run(world, planned(model), environments=["chain_sum"])
    assert world.ledger.rewards(EPOCH).height == 80


def test_an_environment_that_is_newer_than_the_epoch_gets_the_seeds_of_its_beacon(world: World, tmp_path: Path) -> None:
    old = world.tables.need(TASKS, EPOCH)
    world.tables.write(TASKS, EPOCH, old.filter(pl.col("environment") != "bit_count"))
    run(world, planned(world.publish("a")), environments=["bit_count"])
    expected = old.filter(environment="bit_count", purpose="contest").filter(pl.col("index") < 40)["seed"]
    assert world.ledger.rollouts(EPOCH)["seed"].to_list() == expected.to_list()


def test_tasks_that_were_drawn_for_another_version_are_not_run(world: World) -> None:
    world.environments["chain_sum"] = Digits("chain_sum", version="2")
    with pytest.raises(AffineError, match="other_environment_version"):
        run(world, planned(world.publish("a")))
    assert world.ledger.batches(EPOCH) == []


def test_a_model_that_does_not_load_has_a_zero_for_its_first_batch(world: World) -> None:
    model = world.publish("a")
    for _ in range(2):
        run(world, planned(model), FakeEngine(load_error="not_loadable"))
    rewards = world.ledger.rewards(EPOCH)
    assert set(rewards.select("reward", "fault", "reason").rows()) == {(0.0, "model", "not_loadable")}
    assert sorted(rewards["index"].unique()) == list(range(10))
    assert world.ledger.rollouts(EPOCH)["attempt"].unique().to_list() == [0]


def test_a_model_that_we_cannot_load_costs_it_nothing_and_is_tried_again(world: World) -> None:
    """Case E14: it is missing, never zero; and V8: what is ours does not blame the model."""
    model = world.publish("a")
    for _ in range(4):
        with pytest.raises(AffineError, match="unloadable_here"):
            run(world, planned(model), FakeEngine(load_error="unloadable_here"))
    assert world.ledger.rewards(EPOCH)["reward"].null_count() == 20
    assert world.ledger.rollouts(EPOCH)["attempt"].max() == 2
    run(world, planned(model, tasks=20))
    assert world.ledger.rewards(EPOCH).filter(pl.col("index") >= 10)["reward"].null_count() == 0


def test_an_assay_that_goes_on_runs_only_what_earlier_epochs_lack(world: World) -> None:
    model = world.publish("a")
    run(world, planned(model, "assayed", tasks=20))
    (job,) = world.jobs(planned(model, "assayed", tasks=40))
    engine = FakeEngine()
    world.worker(replace(job, epoch=EPOCH + 1), engine).run()
    assert [len(call) for call in engine.calls] == [10] * 4
    later = world.ledger.rewards(EPOCH + 1)
    assert (later["task_epoch"].unique().to_list(), sorted(later["index"].unique())) == ([EPOCH], list(range(20, 40)))


def test_an_assay_that_lost_tasks_tries_them_again_in_a_later_epoch(world: World) -> None:
    model = world.publish("a")
    run(world, planned(model, "assayed", tasks=10), FakeEngine(fault=lambda prompt, call: no_answer()))
    (job,) = world.jobs(planned(model, "assayed", tasks=10))
    world.worker(replace(job, epoch=EPOCH + 1), FakeEngine()).run()
    later = world.ledger.rewards(EPOCH + 1)
    assert (later.height, later["reward"].null_count()) == (20, 0)


def test_progress_says_model_environment_and_n_of_n(world: World) -> None:
    (job,) = world.jobs(planned(world.publish("a"), tasks=20))
    events: list[JobEvent] = []
    world.worker(job, FakeEngine(), report=events.append).run()
    assert [str(event) for event in events[:2]] == ["loaded: sa", "batch: sa chain_sum contest 10 of 20"]
    assert JobEvent.from_line(events[1].to_line()) == events[1]


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from evaluation_parts import FakeEngine, make_world, EPOCH
from affine_dagster.evaluation.job import EvaluationJob
world = make_world(Path(sys.argv[2]))
job = EvaluationJob.from_json(Path(sys.argv[3]).read_bytes())
print("ready", flush=True)
world.worker(job, FakeEngine(), report=lambda event: print(event, flush=True)).run()
"""


@pytest.mark.parametrize("lines", random.Random(3).sample(range(2, 30), 3))
def test_kill_9_and_a_new_start_give_the_rows_of_an_undisturbed_run(tmp_path: Path, lines: int) -> None:
    """DESIGN section 6. Killed at a random point, begun again: the same rows in every column but the attempt."""
    worlds = [make_world(tmp_path / name) for name in ("undisturbed", "killed")]
    jobs = []
    for world in worlds:
        world.freeze_tasks()
        jobs += world.jobs(planned(world.publish("a"), tasks=160))
    worlds[0].worker(jobs[0], FakeEngine()).run()
    file = tmp_path / "job.json"
    file.write_bytes(jobs[1].to_json())
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parents[1] / "support"), str(worlds[1].root), str(file)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONHASHSEED": str(lines)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.kill()
    assert 0 < len(worlds[1].ledger.batches(EPOCH)) < len(worlds[0].ledger.batches(EPOCH))
    worlds[1].worker(jobs[1], FakeEngine()).run()
    assert worlds[1].rows().equals(worlds[0].rows())
    assert worlds[1].ledger.rewards(EPOCH).equals(worlds[0].ledger.rewards(EPOCH))


def test_a_job_file_of_another_version_is_refused(world: World) -> None:
    (job,) = world.jobs(planned(world.publish("a")))
    with pytest.raises(AffineError, match="other_job_version"):
        type(job).from_json(replace(job, version=2).to_json())
    with pytest.raises(AffineError, match="other_job_version"):
        type(job).from_json(b"{}")


@pytest.mark.parametrize(("first", "tasks", "size"), [(0, 40, 10), (0, 45, 10), (5, 20, 10), (0, 3, 50), (0, 0, 10)])
def test_batches_cover_each_task_once_and_are_cut_at_multiples(world: World, first: int, tasks: int, size: int) -> None:
    (job,) = world.jobs(planned(world.publish("a"), first_task=first, tasks=tasks))
    batches = list(job.assignments[0].batches(size))
    assert [index for batch in batches for index in range(batch.first, batch.stop)] == list(range(first, first + tasks))
    assert all(batch.number * size <= batch.first < batch.stop <= (batch.number + 1) * size for batch in batches)


