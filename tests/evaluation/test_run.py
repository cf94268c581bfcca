"""The evaluation of an epoch: the plan is run once, whole or in parts, and what is missing is counted as missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from evaluation_parts import EPOCH, NAMES, Digits, FakeEngine, InProcess, World, make_world, no_answer, planned

from affine_dagster.environments.port import Grade, Task
from affine_dagster.environments.registry import environment
from affine_dagster.evaluation.jobs import JobOutcome
from affine_dagster.evaluation.run import EvaluationSummary, ModelCount, evaluate
from affine_dagster.reasons import AffineError
from affine_dagster.tables import ADMISSIONS, CONTESTS, EVIDENCE, PLAN, TASKS


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = make_world(tmp_path, tuple(Digits(name, environment(name).version) for name in NAMES))
    made.freeze_tasks()
    return made


def run(world: World, jobs: InProcess, *environments: str) -> EvaluationSummary:
    return evaluate(world.tables, world.ledger, world.settings, EPOCH, environments or NAMES, jobs, lambda event: None)


def count(summary: EvaluationSummary, name: str, environment_name: str = "chain_sum") -> ModelCount:
    return next(one for one in summary.environment(environment_name).counts if one.submission_id == name)


def test_incumbents_and_assays_run_before_challengers(world: World) -> None:
    base, new, reference = world.publish("base"), world.publish("new"), world.publish("ref")
    world.plan(
        planned(new, "challenger", opponents=[base["weights_digest"]]), planned(base), planned(reference, "reference"),
        planned(base, "assayed"),
    )
    jobs = InProcess(world)
    run(world, jobs)
    assert [sorted(names) for names in jobs.ran] == [["sbase", "sref"], ["snew"]]
    assert jobs.engine.loads == 3


def test_a_model_that_is_not_planned_does_not_run(world: World) -> None:
    world.plan(planned(world.publish("a"), "challenger", planned=False, reason="waiting"))
    jobs = InProcess(world)
    summary = run(world, jobs)
    assert jobs.ran == [[], []]
    assert summary.environment("chain_sum").coverage is None


def test_an_epoch_with_an_empty_plan_has_an_empty_summary(world: World) -> None:
    world.tables.freeze(PLAN, EPOCH, PLAN.empty())
    summary = run(world, InProcess(world))
    assert (summary.counts, summary.environment("chain_sum").by_model.height) == ((), 0)


def test_without_a_plan_nothing_is_guessed(world: World) -> None:
    with pytest.raises(AffineError, match="missing_input"):
        run(world, InProcess(world))


def test_running_an_epoch_again_changes_nothing_and_loads_nothing(world: World) -> None:
    base, new = world.publish("base"), world.publish("new")
    world.plan(planned(base), planned(new, "challenger", opponents=[base["weights_digest"]]))
    first = run(world, InProcess(world))
    before = world.ledger.rollouts(EPOCH)
    again = InProcess(world)
    assert run(world, again).counts == first.counts
    assert again.engine.loads == 0
    assert world.ledger.rollouts(EPOCH).equals(before)


def test_a_subset_of_the_environments_runs_and_is_counted_alone(world: World) -> None:
    world.plan(planned(world.publish("a")))
    summary = run(world, InProcess(world), "bit_count")
    assert {one.environment for one in summary.counts} == {"bit_count"}
    assert world.ledger.rewards(EPOCH)["environment"].unique().to_list() == ["bit_count"]


def test_the_counts_tell_right_wrong_faults_and_missing_apart(tmp_path: Path) -> None:
    """Cases E10, E22, R1: what has no result stays in the denominator, and is never a zero in the mean."""
    def graded(task: Task) -> Grade | None:
        return {0: Grade(0.3), 1: Grade(None, "grader_failed"), 2: Grade(0.5), 3: Grade(0.0)}.get(order[task.seed])

    world = make_world(tmp_path, (Digits("chain_sum", environment("chain_sum").version, broken=graded),), environments=("chain_sum",))
    tasks = world.freeze_tasks().filter(purpose="contest")
    order = dict(tasks.select("seed", "index").iter_rows())
    invalid = f"chain_sum:{tasks['seed'][4]}"
    from affine_dagster.serving.port import Completion

    engine = FakeEngine(fault=lambda prompt, call: Completion("", "fault", 1, 0, "invalid_sample") if prompt == invalid else None)
    world.plan(planned(world.publish("a"), tasks=5))
    summary = run(world, InProcess(world, engine), "chain_sum")
    one = count(summary, "sa")
    assert (one.n_ok, one.n_wrong, one.n_model_fault, one.n_missing, one.due) == (2, 1, 1, 1, 5)
    assert one.mean == pytest.approx((0.3 + 0.5 + 0 + 0) / 4)
    assert summary.environment("chain_sum").coverage == pytest.approx(0.8)
    assert summary.environment("chain_sum").by_model["n_missing"].to_list() == [1]


def test_a_job_that_is_lost_counts_all_its_tasks_as_missing(world: World) -> None:
    """Case E10: no verdict is made of what did not run; it is shown."""
    base, new = world.publish("base"), world.publish("new")
    world.plan(planned(base), planned(new, "challenger", opponents=[base["weights_digest"]]))
    summary = run(world, InProcess(world, failing=frozenset({new["repo"]})))
    assert (count(summary, "snew").n_missing, count(summary, "snew").mean) == (40, None)
    assert count(summary, "sbase").n_missing == 0
    assert [outcome.reason for outcome in summary.outcomes] == [None, "worker_lost"]


def test_a_challenger_that_stopped_early_is_missing_nothing(world: World) -> None:
    base, new = world.publish("base", chain_sum=10, bit_count=10), world.publish("new", chain_sum=95, bit_count=95)
    world.plan(planned(base, tasks=200), planned(new, "challenger", tasks=200, opponents=[base["weights_digest"]]))
    one = count(run(world, InProcess(world)), "snew")
    assert one.due < 200
    assert one.n_missing == 0


def test_an_answer_that_only_one_model_never_gives_is_a_zero_in_the_end(world: World) -> None:
    seed = world.tables.need(TASKS, EPOCH).filter(purpose="contest", environment="chain_sum", index=3)["seed"].item()
    world.plan(planned(world.publish("bad"), tasks=10), planned(world.publish("good"), tasks=10))
    bad = FakeEngine(fault=lambda prompt, call: no_answer() if prompt == f"chain_sum:{seed}" else None)

    class Two(InProcess):
        def _run(self, job: Any, progress: Any) -> JobOutcome:
            self.engine = bad if job.submission_id == "sbad" else FakeEngine()
            return super()._run(job, progress)

    summary = run(world, Two(world))
    assert (count(summary, "sbad").n_model_fault, count(summary, "sbad").n_missing) == (1, 0)
    assert world.ledger.rewards(EPOCH).filter(reason="model_crashes_engine")["index"].to_list() == [3]
    before = world.ledger.rollouts(EPOCH)
    run(world, Two(world))
    assert world.ledger.rollouts(EPOCH).equals(before)


def before(world: World, new: dict[str, Any], base: dict[str, Any], state: str, bins: list[tuple[int, int]]) -> None:
    """What an earlier epoch knows of a pair, two tasks of it missing."""
    pair = {"epoch": 6, "challenger": new["weights_digest"], "incumbent": base["weights_digest"]}
    histogram = [{"bin": at, "count": number} for at, number in bins]
    evidence = [
        dict.fromkeys(EVIDENCE.schema.names()) | pair | {"environment": name, "tasks": 500, "missing": 2, "histogram": histogram}
        for name in NAMES
    ]
    contest = dict.fromkeys(CONTESTS.schema.names()) | pair | {
        "state": state, "reason": state, "strict": False, "tasks": 500, "epochs": 2, "alpha": 0.01, "discordance": 0.2,
    }
    world.tables.write(EVIDENCE, 6, EVIDENCE.frame(evidence), "s1")
    world.tables.write(CONTESTS, 6, CONTESTS.frame([contest]), "s1")


def test_a_win_of_an_earlier_epoch_stands(world: World) -> None:
    """The pair won before; what it would say now does not matter, and the challenger does not run for it."""
    base, new = world.publish("base"), world.publish("new")
    before(world, new, base, "won", [(0, 20)])
    row = planned(new, "challenger", opponents=[base["weights_digest"]], prior_epoch=6, scorer="s1")
    world.plan(planned(base, prior_epoch=6, scorer="s1"), row)
    run(world, InProcess(world))
    assert world.ledger.rewards(EPOCH).filter(weights_digest=new["weights_digest"]).height == 20


def test_a_challenger_goes_on_with_the_evidence_of_earlier_epochs(world: World) -> None:
    base, new = world.publish("base"), world.publish("new")
    before(world, new, base, "undecided", [(0, 400), (1000, 98)])
    row = planned(new, "challenger", opponents=[base["weights_digest"]], prior_epoch=6, scorer="s1")
    (job,) = world.jobs(row)
    assert job.contest is not None
    (opponent,) = job.contest.opponents
    assert (opponent.epochs, opponent.won, opponent.rule.alpha, opponent.rule.discordance) == (2, False, 0.01, 0.2)
    assert {name: (histogram.bins, histogram.missing) for name, histogram in opponent.histograms} == dict.fromkeys(
        NAMES, (((0, 400), (1000, 98)), 2)
    )
    engine = FakeEngine()
    world.plan(planned(base, prior_epoch=6, scorer="s1"), row)
    run(world, InProcess(world, engine))
    assert world.ledger.rewards(EPOCH).filter(weights_digest=new["weights_digest"]).height == 20


def test_the_files_that_were_admitted_are_the_files_that_are_loaded(world: World) -> None:
    model = world.publish("a")
    blank: dict[str, Any] = dict.fromkeys(ADMISSIONS.schema.names())
    files = [{"name": "model.safetensors", "bytes": 1, "blake3": "0"}]
    place = {"repo": model["repo"], "revision": model["revision"]}
    row = blank | {"epoch": 6, "submission_id": "sa", "state": "admitted", "files": files} | place
    world.tables.write(ADMISSIONS, 6, ADMISSIONS.frame([row]))
    assert [job.files for job in world.jobs(planned(model))] == [("model.safetensors",)]
    owned_by_another = planned(model | {"submission_id": "s-origin"})
    assert [job.files for job in world.jobs(owned_by_another)] == [("model.safetensors",)], "the repository that runs has its own files"
    world.plan(planned(model))
    run(world, InProcess(world))
    assert world.ledger.rewards(EPOCH).height == 80


def test_another_version_of_an_environment_stops_the_run_before_anything_runs(world: World) -> None:
    tasks = world.tables.need(TASKS, EPOCH)
    world.tables.write(TASKS, EPOCH, tasks.with_columns(environment_version=pl.lit("0")))
    world.plan(planned(world.publish("a")))
    jobs = InProcess(world)
    with pytest.raises(AffineError, match="other_environment_version"):
        run(world, jobs)
    assert jobs.ran == []


def test_late_rows_change_no_result_that_stands(world: World) -> None:
    """Case E23: a worker that writes late, for a model that was done, changes nothing."""
    world.plan(planned(world.publish("a"), tasks=10))
    run(world, InProcess(world))
    before = world.ledger.rewards(EPOCH)
    late = world.ledger.rollouts(EPOCH, ["chain_sum"]).with_columns(attempt=pl.lit(5, pl.Int64), reward=1 - pl.col("reward"))
    world.ledger.append(late, 0)
    assert world.ledger.rewards(EPOCH).equals(before)
