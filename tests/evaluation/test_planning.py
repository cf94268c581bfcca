"""The plan: who runs, who does not and why, and what alpha each try gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from affine_dagster.evaluation.planning import PlanInputs, make_plan
from affine_dagster.scoring.bets import try_alpha
from affine_dagster.scoring.contest import ContestRule, ContestState, judge
from affine_dagster.scoring.histogram import Histogram
from affine_dagster.settings import EvaluationSettings, ScoringSettings, Settings, scorer_version
from affine_dagster.tables import (
    ADMISSIONS,
    CONTESTS,
    EPOCHS,
    EVIDENCE,
    FINGERPRINTS,
    FRONTIER,
    KINSHIP,
    PLAN,
    SUBMISSIONS,
    SWAPS,
    Table,
)

EPOCH = 5


def table(of: Table, rows: list[dict[str, Any]]) -> pl.DataFrame:
    blank: dict[str, Any] = dict.fromkeys(of.schema.names())
    return pl.DataFrame([blank | row for row in rows], schema=of.schema, orient="row")


def digest(name: str) -> str:
    return (name.encode().hex() * 64)[:64]


def genesis(rank: int = 0) -> dict[str, Any]:
    name = f"genesis-{rank}"
    return {
        "submission_id": name, "hotkey": None, "repo": "base/model", "revision": "0" * 40, "block": -1, "extrinsic_index": rank,
        "weights_digest": digest(name), "tensor_set_digest": digest(name), "genesis": True, "epoch": 0,
    }


def model(name: str, block: int, **changes: Any) -> dict[str, Any]:
    return {
        "submission_id": f"s{name}", "hotkey": f"hot-{name}", "coldkey": f"cold-{name}", "repo": f"miner/{name}", "revision": "1" * 40,
        "block": block, "extrinsic_index": 0, "weights_digest": digest(name), "tensor_set_digest": digest(name), "genesis": False,
        "epoch": 4, "verdict": "origin", "state": "admitted",
    } | changes


def columns(of: Table, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return table(of, [{key: value for key, value in row.items() if key in of.schema.names()} for row in rows])


def inputs(*models: dict[str, Any], **changes: Any) -> PlanInputs:
    admitted = [row for row in models if row["state"] == "admitted"]
    given_inputs = PlanInputs(
        epoch=EPOCH, prior_epoch=None, epochs=table(EPOCHS, [{"epoch": epoch, "boundary_block": 1000 * epoch} for epoch in range(12)]),
        submissions=columns(SUBMISSIONS, [row | {"state": "submitted"} for row in models]),
        swaps=SWAPS.empty(), admissions=columns(ADMISSIONS, list(models)),
        fingerprints=columns(FINGERPRINTS, [genesis(), *admitted]),
        kinship=columns(KINSHIP, admitted), frontier=None, contests=CONTESTS.empty(), evidence=EVIDENCE.empty(), plans=PLAN.empty(),
    )
    return replace(given_inputs, **changes)


def member(row: dict[str, Any], **changes: Any) -> dict[str, Any]:
    kept = {key: value for key, value in row.items() if key in FRONTIER.schema.names()}
    return kept | {"epoch": 4, "incumbent": True, "assay_complete": True, "assay_epoch": 1, "accepted_epoch": 1} | changes


def contest(challenger: str, incumbent: str, state: str, **changes: Any) -> dict[str, Any]:
    return {"epoch": 4, "challenger": digest(challenger), "incumbent": digest(incumbent), "state": state, "tasks": 0, "epochs": 1} | changes


SETTINGS = Settings()


def with_settings(**changes: Any) -> Settings:
    evaluation = {key: value for key, value in changes.items() if key in EvaluationSettings.model_fields}
    scoring = {key: value for key, value in changes.items() if key in ScoringSettings.model_fields}
    return Settings(evaluation=EvaluationSettings(**evaluation), scoring=ScoringSettings(**scoring))


def rows(plan: pl.DataFrame, **equal: Any) -> list[dict[str, Any]]:
    return plan.filter(**equal).to_dicts()


def states(plan: pl.DataFrame) -> dict[str, str]:
    chosen = plan.filter(role="challenger")
    return {row["submission_id"]: "runs" if row["planned"] else row["reason"] for row in chosen.iter_rows(named=True)}


def test_a_model_without_a_fingerprint_is_not_planned() -> None:
    """Nobody knows whose copy it is, and a model that cannot be read supersedes none of its hotkey's."""
    unread = model("b", 20, hotkey="hot-a")
    known = inputs(model("a", 10), unread)
    prints = known.fingerprints.filter(pl.col("submission_id") != "sb")
    kin = known.kinship.filter(pl.col("submission_id") != "sb")
    assert states(make_plan(replace(known, fingerprints=prints, kinship=kin), SETTINGS)) == {"sa": "runs"}
    assert states(make_plan(replace(known, fingerprints=prints), SETTINGS)) == {"sa": "runs"}


def test_in_the_first_epoch_genesis_is_the_incumbent_and_is_assayed() -> None:
    plan = make_plan(inputs(model("a", 10)), SETTINGS)
    assert [(row["submission_id"], row["role"], row["purpose"]) for row in plan.iter_rows(named=True)] == [
        ("genesis-0", "incumbent", "contest"), ("sa", "challenger", "contest"), ("genesis-0", "assayed", "assay"),
    ]
    (challenger,) = rows(plan, role="challenger")
    assert challenger["opponents"] == [digest("genesis-0")]
    assert (challenger["first_task"], challenger["tasks"], challenger["task_epoch"]) == (0, 1000, EPOCH)
    assert plan["scorer"].unique().to_list() == [scorer_version(SETTINGS)]


def test_without_a_challenger_no_incumbent_runs() -> None:
    plan = make_plan(inputs(), SETTINGS)
    assert plan["role"].to_list() == ["assayed"]


def test_without_anything_the_plan_is_empty_and_stands() -> None:
    plan = make_plan(inputs(fingerprints=FINGERPRINTS.empty()), SETTINGS)
    assert plan.equals(PLAN.empty())


def test_a_copy_never_runs() -> None:
    copy = model("b", 20, weights_digest=digest("a"), tensor_set_digest=digest("a"), verdict="exact_copy")
    assert states(make_plan(inputs(model("a", 10), copy), SETTINGS)) == {"sa": "runs"}


def test_the_newest_verdict_on_a_submission_counts() -> None:
    late = model("early", 5, weights_digest=digest("a"), tensor_set_digest=digest("a"), epoch=5)
    kinship = columns(KINSHIP, [model("a", 10), late, model("a", 10, epoch=5, verdict="exact_copy")])
    assert states(make_plan(inputs(model("a", 10), late, kinship=kinship), SETTINGS)) == {"searly": "runs"}


def test_only_admitted_models_run() -> None:
    deferred = model("b", 20, state="deferred")
    assert states(make_plan(inputs(model("a", 10), deferred), SETTINGS)) == {"sa": "runs"}


def test_the_newer_model_of_a_hotkey_supersedes_the_older_one() -> None:
    plan = make_plan(inputs(model("a", 10, hotkey="h"), model("b", 20, hotkey="h")), SETTINGS)
    assert states(plan) == {"sa": "superseded", "sb": "runs"}


def test_a_hotkey_that_commits_its_own_weights_again_keeps_its_place() -> None:
    again = model("a2", 20, hotkey="h", weights_digest=digest("a"), tensor_set_digest=digest("a"), verdict="exact_copy")
    assert states(make_plan(inputs(model("a", 10, hotkey="h"), again), SETTINGS)) == {"sa": "runs"}


def test_an_accepted_model_keeps_its_standing_when_its_hotkey_commits_again() -> None:
    """Case O5."""
    old, new = model("a", 10, hotkey="h"), model("b", 20, hotkey="h")
    frontier = table(FRONTIER, [member(genesis()), member(old)])
    plan = make_plan(inputs(old, new, frontier=frontier, prior_epoch=4), SETTINGS)
    assert [row["submission_id"] for row in rows(plan, role="incumbent")] == ["genesis-0", "sa"]
    assert states(plan) == {"sb": "runs"}


def test_a_redundant_member_is_no_incumbent() -> None:
    first, second = model("a", 10), model("b", 20)
    frontier = table(FRONTIER, [member(genesis(), incumbent=False), member(first)])
    plan = make_plan(inputs(first, second, frontier=frontier, prior_epoch=4), SETTINGS)
    assert [row["submission_id"] for row in rows(plan, role="incumbent")] == ["sa"]
    assert rows(plan, role="challenger")[0]["opponents"] == [digest("a")]


@pytest.mark.parametrize(("state", "reason"), [("futile", "futile"), ("regressed", "regressed"), ("expired", "expired_undecided")])
def test_an_ended_contest_with_a_present_incumbent_ends_the_challenge(state: str, reason: str) -> None:
    frontier = table(FRONTIER, [member(genesis())])
    contests = table(CONTESTS, [contest("a", "genesis-0", state)])
    plan = make_plan(inputs(model("a", 10), frontier=frontier, contests=contests, prior_epoch=4), SETTINGS)
    assert states(plan) == {"sa": reason}
    assert not plan["planned"].any()


def test_an_ended_contest_with_a_former_incumbent_is_dropped() -> None:
    frontier = table(FRONTIER, [member(genesis(), incumbent=False), member(model("b", 5))])
    contests = table(CONTESTS, [contest("a", "genesis-0", "futile")])
    plan = make_plan(inputs(model("b", 5), model("a", 10), frontier=frontier, contests=contests, prior_epoch=4), SETTINGS)
    assert states(plan) == {"sa": "runs"}


def test_an_undecided_challenger_goes_on_with_its_alpha_and_its_discordance() -> None:
    frontier = table(FRONTIER, [member(genesis())])
    earlier = {"role": "challenger", "planned": True, "alpha": 0.007, "discordance": 0.21, "purpose": "contest", "epoch": 4}
    first = columns(PLAN, [model("a", 10) | earlier])
    contests = table(CONTESTS, [contest("a", "genesis-0", "undecided", tasks=600, epochs=1)])
    plan = make_plan(inputs(model("a", 10), frontier=frontier, contests=contests, plans=first, prior_epoch=4), SETTINGS)
    (row,) = rows(plan, role="challenger")
    assert (row["alpha"], row["discordance"], row["tasks_before"], row["epochs_before"]) == (0.007, 0.21, 600, 1)


def test_a_pair_gets_no_more_tasks_than_it_may_still_use() -> None:
    frontier = table(FRONTIER, [member(genesis())])
    contests = table(CONTESTS, [contest("a", "genesis-0", "undecided", tasks=1900)])
    plan = make_plan(inputs(model("a", 10), frontier=frontier, contests=contests, prior_epoch=4), with_settings(max_tasks=2000))
    assert [row["tasks"] for row in rows(plan, role="challenger")] == [100]


def test_a_model_that_was_tried_costs_no_further_try() -> None:
    """The same weights get alpha once: a second model of the owner on the next day starts anew, on the same day it is a second try."""
    first = columns(PLAN, [model("a", 10) | {"role": "challenger", "planned": True, "alpha": 0.5, "discordance": 0.3, "epoch": 4}])
    second = model("b", 20, coldkey="cold-a")
    chosen = with_settings(day_blocks=7200)
    plan = make_plan(inputs(model("a", 10), second, plans=first), chosen)
    assert {row["submission_id"]: row["alpha"] for row in rows(plan, role="challenger")} == {
        "sa": 0.5, "sb": pytest.approx(try_alpha(chosen.scoring, 2)),
    }
    next_day = make_plan(inputs(model("a", 10), second, plans=first), with_settings(day_blocks=1000))
    assert [row["alpha"] for row in rows(next_day, submission_id="sb")] == [pytest.approx(try_alpha(chosen.scoring, 1))]


def test_tries_are_counted_by_owner_and_not_by_hotkey() -> None:
    cold = "one-owner"
    plan = make_plan(inputs(*(model(name, 10 + at, coldkey=cold) for at, name in enumerate("abc"))), SETTINGS)
    alphas = [row["alpha"] for row in rows(plan, role="challenger")]
    assert alphas == [pytest.approx(try_alpha(SETTINGS.scoring, number)) for number in (1, 2, 3)]


def test_a_swapped_hotkey_is_no_new_owner() -> None:
    """The chain knows no coldkey of a hotkey that was swapped away; its tries are its owner's all the same."""
    swaps = table(SWAPS, [{"epoch": 5, "block": 15, "coldkey": "c", "old_hotkey": "hot-a", "new_hotkey": "hot-b"}])
    models = [model("a", 10, coldkey=None), model("b", 20, coldkey="c"), model("d", 30, coldkey="c")]
    plan = make_plan(inputs(*models, swaps=swaps), SETTINGS)
    alphas = {row["submission_id"]: row["alpha"] for row in rows(plan, role="challenger")}
    assert alphas == {name: pytest.approx(try_alpha(SETTINGS.scoring, number)) for number, name in enumerate(("sa", "sb", "sd"), 1)}


def test_a_try_before_a_swap_counts_after_it() -> None:
    """One slot a day is left and the owner has it: after the swap it still is that owner's, and no second one."""
    first = columns(PLAN, [model("a", 10, coldkey="c") | {"role": "challenger", "planned": True, "alpha": 0.5, "discordance": 0.3}])
    swaps = table(SWAPS, [{"epoch": 5, "block": 15, "coldkey": "c", "old_hotkey": "hot-a", "new_hotkey": "hot-b"}])
    models = [model("a", 10, coldkey=None), model("b", 20, coldkey="c")]
    chosen = with_settings(owner_slots=1)
    plan = make_plan(inputs(*models, plans=first, swaps=swaps), chosen)
    assert states(plan) == {"sa": "runs", "sb": "runs"}
    assert [row["alpha"] for row in rows(plan, submission_id="sb")] == [pytest.approx(try_alpha(chosen.scoring, 2))]


def test_owners_beyond_the_slots_of_the_day_are_deferred() -> None:
    chosen = with_settings(owner_slots=2)
    models = [model("a", 10, coldkey="x"), model("b", 11, coldkey="x"), model("c", 12, coldkey="y"), model("d", 13, coldkey="z")]
    assert states(make_plan(inputs(*models), chosen)) == {"sa": "runs", "sb": "runs", "sc": "runs", "sd": "owner_deferred"}


def test_nobody_with_a_slot_overtakes_an_older_model_that_has_none() -> None:
    """Else the owner of a slot runs a noisy copy of it today, and the original must beat its own copy tomorrow."""
    chosen = with_settings(owner_slots=1)
    models = [model("a", 10, coldkey="x"), model("original", 11, coldkey="y"), model("copy", 12, coldkey="x")]
    assert states(make_plan(inputs(*models), chosen)) == {"sa": "runs", "soriginal": "owner_deferred", "scopy": "owner_deferred"}


def test_a_pair_that_runs_already_goes_on_while_older_models_are_held_back() -> None:
    chosen = with_settings(owner_slots=1)
    first = columns(PLAN, [model("b", 20, coldkey="x") | {"role": "challenger", "planned": True, "alpha": 0.5, "discordance": 0.3}])
    models = [model("a", 10, coldkey="y"), model("b", 20, coldkey="x"), model("c", 30, coldkey="x")]
    assert states(make_plan(inputs(*models, plans=first), chosen)) == {"sa": "owner_deferred", "sb": "runs", "sc": "owner_deferred"}


@given(st.lists(st.sampled_from("wxyz"), min_size=1, max_size=10), st.integers(1, 8), st.integers(1, 3))
@examples(max_examples=40, deadline=None)
def test_first_tries_begin_in_the_order_of_age(owners: list[str], room: int, slots: int) -> None:
    """Whatever holds models back, slots or room: those that begin are the oldest ones."""
    digests = [{"tensor_set_digest": f"{at:064x}", "weights_digest": f"{at:064x}"} for at in range(len(owners))]
    models = [model(f"{at}", 10 + at, coldkey=owner, **digests[at]) for at, owner in enumerate(owners)]
    plan = make_plan(inputs(*models), with_settings(max_models_per_epoch=room, owner_slots=slots)).filter(role="challenger")
    begun = plan.sort("block")["planned"].to_list()
    assert begun == sorted(begun, reverse=True)


def test_slots_taken_earlier_on_the_same_day_count() -> None:
    chosen = with_settings(owner_slots=1)
    first = columns(PLAN, [model("a", 10, coldkey="x") | {"role": "challenger", "planned": True, "alpha": 0.5, "discordance": 0.3}])
    plan = make_plan(inputs(model("a", 10, coldkey="x"), model("b", 20, coldkey="y"), plans=first), chosen)
    assert states(plan) == {"sa": "runs", "sb": "owner_deferred"}


def test_the_oldest_run_and_the_others_wait_without_spending_a_try() -> None:
    models = [model(name, 100 - at) for at, name in enumerate("abc")]
    plan = make_plan(inputs(*models), with_settings(max_models_per_epoch=1))
    assert states(plan) == {"sc": "runs", "sb": "waiting", "sa": "waiting"}
    assert plan.filter(~pl.col("planned"))["alpha"].null_count() == 2
    assert plan.filter(~pl.col("planned"))["tasks"].to_list() == [0, 0]


def test_models_that_never_come_to_an_end_do_not_hold_their_places_for_ever() -> None:
    """A model that kills its worker leaves no evidence, so its contest never ends; it must not block everybody behind it."""
    old, new = model("old", 10), model("new", 20)
    chosen = with_settings(max_models_per_epoch=1, max_epochs=3)
    run = {"role": "challenger", "purpose": "contest", "planned": True, "alpha": 0.5, "discordance": 0.3}
    twice = columns(PLAN, [old | run | {"epoch": epoch} for epoch in (3, 4)])
    thrice = columns(PLAN, [old | run | {"epoch": epoch} for epoch in (2, 3, 4)])
    assert states(make_plan(inputs(old, new, plans=twice), chosen)) == {"sold": "runs", "snew": "waiting"}
    assert states(make_plan(inputs(old, new, plans=thrice), chosen)) == {"snew": "runs", "sold": "waiting"}
    assert states(make_plan(inputs(old, plans=thrice), chosen)) == {"sold": "runs"}


def test_a_new_member_is_assayed_with_all_earlier_members_as_references() -> None:
    first, second, third = model("a", 10), model("b", 20), model("c", 30)
    frontier = table(FRONTIER, [
        member(genesis()), member(second, assay_complete=False, assay_epoch=None), member(first), member(third),
    ])
    assays = make_plan(inputs(first, second, third, frontier=frontier, prior_epoch=4), SETTINGS).filter(purpose="assay")
    assert [(row["submission_id"], row["role"], row["task_epoch"]) for row in assays.iter_rows(named=True)] == [
        ("sb", "assayed", EPOCH), ("genesis-0", "reference", EPOCH), ("sa", "reference", EPOCH),
    ]
    assert assays["tasks"].unique().to_list() == [SETTINGS.evaluation.assay_tasks]


def test_an_unfinished_assay_goes_on_with_its_own_seeds() -> None:
    first = model("a", 10)
    frontier = table(FRONTIER, [member(genesis()), member(first, assay_complete=False, assay_epoch=3)])
    assays = make_plan(inputs(first, frontier=frontier, prior_epoch=4), SETTINGS).filter(purpose="assay")
    assert assays["task_epoch"].to_list() == [3, 3]


def test_a_member_accepted_after_an_assay_began_is_no_reference_of_it() -> None:
    late, measured = model("a", 10), model("b", 20)
    frontier = table(FRONTIER, [
        member(genesis()), member(late, accepted_epoch=4), member(measured, assay_complete=False, assay_epoch=3, accepted_epoch=2),
    ])
    assays = make_plan(inputs(late, measured, frontier=frontier, prior_epoch=4), SETTINGS).filter(purpose="assay")
    assert assays["submission_id"].to_list() == ["sb", "genesis-0"]


def test_two_assays_share_their_references() -> None:
    first, second = model("a", 10), model("b", 20)
    frontier = table(FRONTIER, [member(genesis()), *(member(row, assay_complete=False, assay_epoch=None) for row in (first, second))])
    assays = make_plan(inputs(first, second, frontier=frontier, prior_epoch=4), SETTINGS).filter(purpose="assay")
    assert {(row["submission_id"], row["role"]) for row in assays.iter_rows(named=True)} == {
        ("genesis-0", "reference"), ("sa", "assayed"), ("sb", "assayed"),
    }


def test_weights_under_other_tensor_names_are_accepted_once() -> None:
    renamed = model("late", 5, tensor_set_digest=digest("a"), epoch=5)
    frontier = table(FRONTIER, [member(genesis()), member(model("a", 10))])
    kinship = columns(KINSHIP, [model("a", 10, epoch=5, verdict="exact_copy"), renamed])
    plan = make_plan(inputs(model("a", 10), renamed, kinship=kinship, frontier=frontier, prior_epoch=4), SETTINGS)
    assert states(plan) == {}


def test_a_strangers_copy_in_another_form_is_never_planned() -> None:
    """rope_theta + 1e-6 is another model to the ledger and the same weights to kinship: no alpha, no tasks, no credit."""
    form = model("b", 20, tensor_set_digest=digest("a"), verdict="exact_copy")
    assert states(make_plan(inputs(model("a", 10), form), SETTINGS)) == {"sa": "runs"}


def test_a_miner_s_own_weights_in_another_form_supersede_nothing() -> None:
    own = model("a2", 20, hotkey="hot-a", tensor_set_digest=digest("a"), verdict="exact_copy")
    assert states(make_plan(inputs(model("a", 10), own), SETTINGS)) == {"sa": "runs"}


def test_what_a_copy_in_a_broken_form_lost_is_not_its_origins_loss() -> None:
    """A stranger runs stolen weights under a spoilt config while their origin waits for admission: the origin begins anew."""
    late = model("late", 5, tensor_set_digest=digest("a"), epoch=5)
    kinship = columns(KINSHIP, [model("a", 10, epoch=5, verdict="exact_copy"), late])
    frontier, lost = table(FRONTIER, [member(genesis())]), table(CONTESTS, [contest("a", "genesis-0", "regressed")])
    plan = make_plan(inputs(model("a", 10), late, kinship=kinship, frontier=frontier, contests=lost, prior_epoch=4), SETTINGS)
    assert states(plan) == {"slate": "runs"}


def evidence(challenger: str, bins: list[tuple[int, int]], environment: str = "sums") -> dict[str, Any]:
    return {
        "epoch": 4, "challenger": digest(challenger), "incumbent": digest("genesis-0"), "environment": environment,
        "missing": 0, "histogram": [{"bin": at, "count": count} for at, count in bins],
    }


def planned_discordance(known: list[dict[str, Any]], members: str) -> float:
    """What a new pair is planned with after this evidence, where these models were accepted."""
    frontier = table(FRONTIER, [member(genesis()), *(member(model(name, 5)) for name in members)])
    plan = make_plan(inputs(model("a", 10), frontier=frontier, evidence=table(EVIDENCE, known), prior_epoch=4), SETTINGS)
    return float(rows(plan, role="challenger")[0]["discordance"])


EARLIER = [
    evidence("x", [(0, 900), (1000, 100)]), evidence("x", [(0, 800), (-1000, 200)], "words"),
    evidence("y", [(0, 600), (1000, 400)]), evidence("z", [(1000, 10)]),
]


def test_new_pairs_are_planned_with_the_discordance_that_accepted_pairs_had() -> None:
    assert planned_discordance(EARLIER, "xyz") == pytest.approx(0.4)


@given(st.lists(st.lists(st.tuples(st.sampled_from([-1000, 0, 1000]), st.integers(1, 999)), min_size=1, max_size=3), max_size=6))
@examples(max_examples=30, deadline=None)
def test_what_was_not_accepted_moves_nobody_elses_plan(histograms: list[list[tuple[int, int]]]) -> None:
    flood = [evidence(name, sorted(dict(bins).items())) for name, bins in zip("opqrst", histograms, strict=False)]
    assert planned_discordance(EARLIER + flood, "xyz") == planned_discordance(EARLIER, "xyz")
    assert planned_discordance(flood, "") == SETTINGS.scoring.discordance


def test_members_that_answer_alike_do_not_plan_bets_that_no_honest_gain_survives() -> None:
    planned = planned_discordance([evidence(name, [(0, 1000)]) for name in "uvwxyz"], "uvwxyz")
    rule = ContestRule.of(SETTINGS.scoring, SETTINGS.evaluation, SETTINGS.scoring.alpha_daily / SETTINGS.scoring.owner_slots, planned)
    honest = Histogram(((-1000, 8 * 120), (0, 8 * 700), (1000, 8 * 180)))  # a gain of .06 at a discordance of .3, 8,000 tasks
    assert judge({"sums": honest}, rule, 8000, 1).state == ContestState.WON


def test_without_earlier_pairs_the_settings_say_the_discordance() -> None:
    assert rows(make_plan(inputs(model("a", 10)), SETTINGS), role="challenger")[0]["discordance"] == SETTINGS.scoring.discordance


@given(st.permutations(range(6)), st.integers(1, 6), st.integers(1, 3))
@examples(max_examples=30, deadline=None)
def test_the_plan_does_not_depend_on_the_order_of_its_inputs(order: list[int], room: int, slots: int) -> None:
    models = [model(name, 10 + at // 2, extrinsic_index=at, coldkey=f"c{at % 3}") for at, name in enumerate("abcdef")]
    chosen = with_settings(max_models_per_epoch=room, owner_slots=slots)
    shuffled = make_plan(inputs(*(models[at] for at in order)), chosen)
    assert shuffled.equals(make_plan(inputs(*models), chosen))


@given(st.lists(st.sampled_from("wxyz"), min_size=1, max_size=12), st.integers(1, 4))
@examples(max_examples=30, deadline=None)
def test_a_day_never_spends_more_than_the_daily_alpha(owners: list[str], slots: int) -> None:
    digests = [{"tensor_set_digest": f"{at:064x}", "weights_digest": f"{at:064x}"} for at in range(len(owners))]
    models = [model(f"m{at}", 10 + at, coldkey=owner, **digests[at]) for at, owner in enumerate(owners)]
    chosen = with_settings(owner_slots=slots)
    plan = make_plan(inputs(*models), chosen)
    assert sum(plan["alpha"].drop_nulls().to_list()) <= chosen.scoring.alpha_daily
