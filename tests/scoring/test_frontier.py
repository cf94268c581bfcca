"""The laws of the frontier: entry, redundancy, owners, and the assay."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.credits import chronological_credits
from affine_dagster.scoring.frontier import Now, advance_frontier, members_of
from affine_dagster.scoring.models import origins_of
from affine_dagster.tables import CONTESTS, PLAN, REWARDS


def contest_row(make: Any, challenger: str, incumbent: str, state: str = "won", *, strict: bool = False) -> dict[str, Any]:
    return {
        "epoch": 1, "challenger": make.digest(challenger), "incumbent": make.digest(incumbent), "state": state, "reason": state,
        "environment": None, "strict": strict, "tasks": 300, "epochs": 1, "alpha": 0.05, "discordance": 0.5,
    }


def advance(make: Any, cast: list[Any], contests: list[dict[str, Any]], **more: Any) -> pl.DataFrame:
    """Epoch 1: genesis enters, every other model is planned as a challenger."""
    plan = [make.plan_row(model, 1, "challenger") for model in cast if not model.genesis]
    given_ = {
        "prior": None, "contests": CONTESTS.frame(contests), "plan": PLAN.frame(plan), "models": make.models_frame(cast),
        "assays": REWARDS.empty(), "epoch": 1, "boundary_block": 100, "settings": make.settings(),
    }
    chosen = given_ | more
    now = Now(*(chosen.pop(name) for name in ("epoch", "boundary_block", "settings")))
    return advance_frontier(**(chosen | {"models": origins_of(chosen["models"])}), now=now)


def names(frame: pl.DataFrame, *only: str) -> list[str]:
    return [name.removeprefix("s-") for name in frame.filter(pl.lit(value=True), *only)["submission_id"]]


@pytest.fixture(scope="session")
def trio(make: Any) -> list[Any]:
    """Genesis and two challengers, ``first`` committed before ``second``."""
    return [make.BASE, make.Model("second", 20, (0.7, 0.7)), make.Model("first", 10, (0.7, 0.7))]


# --- entry --------------------------------------------------------------------------------------------------------------------


def test_genesis_enters_in_the_first_epoch(make: Any, trio: list[Any]) -> None:
    row = advance(make, trio, []).row(0, named=True)
    assert (row["submission_id"], row["hotkey"], row["incumbent"], row["reason"]) == ("s-base", None, True, "genesis")
    assert (row["lower"], row["upper"], row["accepted_block"], row["assay_epoch"]) == ([0, 0], [100, 100], 100, None)


def test_a_winner_enters_in_commit_order(make: Any, trio: list[Any]) -> None:
    contests = [contest_row(make, "first", "base"), contest_row(make, "second", "base"), contest_row(make, "second", "first")]
    assert names(advance(make, trio, contests)) == ["base", "first", "second"]


@pytest.mark.parametrize("state", ["undecided", "futile", "regressed", "expired"])
def test_only_a_win_enters(make: Any, trio: list[Any], state: str) -> None:
    assert names(advance(make, trio, [contest_row(make, "first", "base", state)])) == ["base"]


def test_a_later_one_must_also_beat_those_accepted_before_it(make: Any, trio: list[Any]) -> None:
    contests = [contest_row(make, "first", "base"), contest_row(make, "second", "base"), contest_row(make, "second", "first", "undecided")]
    assert names(advance(make, trio, contests)) == ["base", "first"]


def test_the_earlier_one_need_not_beat_the_later(make: Any, trio: list[Any]) -> None:
    contests = [contest_row(make, "first", "base", "undecided"), contest_row(make, "second", "base")]
    assert names(advance(make, trio, contests)) == ["base", "second"]


def test_strict_dominance_makes_redundant_and_partial_does_not(make: Any, trio: list[Any]) -> None:
    """Case S13: an incumbent is set aside only by one that is better everywhere with significance."""
    partial = advance(make, trio, [contest_row(make, "first", "base")])
    strict = advance(make, trio, [contest_row(make, "first", "base", strict=True)])
    assert names(partial, "incumbent") == ["base", "first"]
    assert names(strict, "incumbent") == ["first"]
    assert strict.row(0, named=True)["redundant_by"] == make.digest("first")


def test_a_redundant_incumbent_need_not_be_faced_and_never_leaves(make: Any, trio: list[Any]) -> None:
    contests = [contest_row(make, "first", "base", strict=True), contest_row(make, "second", "first")]
    made = advance(make, trio, contests)
    assert names(made) == ["base", "first", "second"]
    assert made["reason"].to_list() == ["redundant", "assaying", "assaying"]


def test_a_copy_of_genesis_or_of_a_member_never_enters(make: Any, trio: list[Any]) -> None:
    copy = make.Model("copy", 30, (0.7, 0.7))
    contests = [contest_row(make, name, "base") for name in ("first", "copy")] + [contest_row(make, "copy", "first")]
    known = make.models_frame([*trio, copy])
    for origin in ("s-first", "s-base"):
        source = known.filter(pl.col("submission_id") == origin)
        owned = source.with_columns(weights_digest=pl.lit(make.digest("copy")))
        models = pl.concat([known.filter(pl.col("submission_id") != "s-copy"), owned])
        assert names(advance(make, [*trio, copy], contests, models=models)) == ["base", "first"]


def test_weights_whose_origin_is_not_settled_do_not_enter(make: Any, trio: list[Any]) -> None:
    known = make.models_frame([make.BASE])
    assert names(advance(make, trio, [contest_row(make, "first", "base")], models=known)) == ["base"]


def test_nobody_enters_an_empty_frontier(make: Any, trio: list[Any]) -> None:
    empty = advance(make, trio[1:], [])
    assert empty.height == 0
    assert advance(make, [], [], prior=empty, epoch=2).height == 0


# --- owners -------------------------------------------------------------------------------------------------------------------


def test_a_late_admission_of_an_earlier_commitment_moves_the_member(make: Any, trio: list[Any]) -> None:
    won = [("first", "base"), ("second", "base"), ("second", "first")]
    before = advance(make, trio, [contest_row(make, *pair) for pair in won])
    moved = make.models_frame(trio).with_columns(
        hotkey=pl.when(pl.col("submission_id") == "s-second").then(pl.lit("hot-older")).otherwise("hotkey"),
        block=pl.when(pl.col("submission_id") == "s-second").then(3).otherwise("block"),
    )
    after = advance(make, trio, [], prior=before, models=moved, epoch=2)
    assert after.select("submission_id", "hotkey", "prior_epoch").rows() == [
        ("s-base", None, 1), ("s-second", "hot-older", 1), ("s-first", "hot-first", 1),
    ]


def test_an_origin_in_another_form_owns_the_member_that_runs_as_it_was_accepted(make: Any, trio: list[Any]) -> None:
    """Its own repository holds another weights digest: run in the member's name it would be refused as the wrong weights, for ever."""
    before = advance(make, trio, [contest_row(make, "first", "base")])
    of_older = pl.col("submission_id") == "s-first"
    older = {"submission_id": "s-older", "repo": "older/model", "origin_digest": make.digest("older")}
    changed = [pl.when(of_older).then(pl.lit(value)).otherwise(name).alias(name) for name, value in older.items()]
    moved = make.models_frame(trio).with_columns(changed)
    same = moved.with_columns(origin_digest=pl.when(pl.col("repo") == "older/model").then("weights_digest").otherwise("origin_digest"))
    row = advance(make, trio, [], prior=before, models=moved, epoch=2).row(1, named=True)
    was = before.row(1, named=True)
    assert (row["submission_id"], row["repo"], row["weights_digest"]) == ("s-older", was["repo"], was["weights_digest"])
    assert advance(make, trio, [], prior=before, models=same, epoch=2).row(1, named=True)["repo"] == "older/model"


def test_a_member_under_review_keeps_its_last_owner(make: Any, trio: list[Any]) -> None:
    """Case P4: a paid model is not un-paid by a question."""
    before = advance(make, trio, [contest_row(make, "first", "base")])
    assert names(advance(make, trio, [], prior=before, models=make.models_frame([]), epoch=2)) == ["base", "first"]


def test_other_environments_are_another_season(make: Any, trio: list[Any]) -> None:
    before = advance(make, trio, [])
    with pytest.raises(AffineError, match="scorer_without_history"):
        advance(make, trio, [], prior=before, epoch=2, settings=make.settings(environments=("sort",)))


# --- the assay ----------------------------------------------------------------------------------------------------------------

SIZE = 60


def assayed(make: Any, rewards: dict[str, list[float | None]], *, size: int = SIZE, prior: pl.DataFrame | None = None) -> pl.DataFrame:
    """Genesis ``base`` and members ``a``, ``b`` (in this order) on the assay seeds of epoch 2; the same rewards in both environments."""
    cast = [make.BASE, make.Model("a", 10, ()), make.Model("b", 20, ())]
    rows = [make.member_row(model, (0, 0), (100, 100), complete=False) for model in cast]
    start = make.frontier_frame(*(row | {"assay_epoch": None, "environments": list(make.ENVIRONMENTS)} for row in rows))
    plan = PLAN.frame(make.plan_row(model, 2, "assayed", purpose="assay", tasks=size) for model in cast)
    runs = [(name, env, values) for name, values in rewards.items() for env in make.ENVIRONMENTS]
    ran = [row for run in runs for row in make.reward_rows(*run, 2, purpose="assay")]
    return advance_frontier(
        start if prior is None else prior, CONTESTS.empty(), plan, origins_of(make.models_frame(cast)), REWARDS.frame(ran),
        Now(2, 200, make.settings(assay_tasks=size)),
    )


def credits_of(frame: pl.DataFrame) -> list[int]:
    members = members_of(frame)
    return chronological_credits([member.lower for member in members], [member.upper for member in members])


def test_a_whole_assay_fixes_the_coordinates(make: Any) -> None:
    made = assayed(make, {"base": [0.0, 1.0] * 100, "a": [1.0] * 200, "b": [0.0] * 200}, size=200)
    assert made["assay_complete"].to_list() == [True] * 3
    assert made["lower"].to_list() == made["upper"].to_list()
    assert made["assay_tasks"].to_list() == [200] * 3
    base, strong, weak = (row[0] for row in made["lower"].to_list())
    assert 35 < base < 50
    assert strong > 90
    assert weak == 0


def test_a_copy_that_got_through_earns_nothing(make: Any) -> None:
    """Clamped to the reference it is not surely better than, although its own luck is better (DESIGN section 4)."""
    made = assayed(make, {"base": [0.0] * 200, "a": [1.0, 0.0] * 100, "b": [1.0, 0.0] * 97 + [1.0] * 6}, size=200)
    lower = made["lower"].to_list()
    assert lower[2] == lower[1]
    assert credits_of(made)[2] == 0


def test_without_the_reference_on_the_same_tasks_there_is_no_gain(make: Any) -> None:
    made = assayed(make, {"base": [0.0] * SIZE, "b": [1.0] * SIZE})
    assert made["lower"].to_list()[2] == [0, 0]
    assert made["assay_complete"].to_list() == [True, False, False]


def test_an_assay_is_not_over_before_its_references_are(make: Any) -> None:
    rewards: dict[str, list[float | None]] = {"base": [0.0] * SIZE, "a": [1.0] * (SIZE - 1), "b": [1.0] * SIZE}
    assert assayed(make, rewards)["assay_complete"].to_list() == [True, False, False]


def test_an_assay_with_too_few_results_is_not_over(make: Any) -> None:
    rewards: dict[str, list[float | None]] = {"base": [0.0] * SIZE, "a": [1.0] * (SIZE - 10) + [None] * 10, "b": [1.0] * SIZE}
    assert assayed(make, rewards)["assay_complete"].to_list() == [True, False, False]


def test_tasks_beyond_the_assay_do_not_count(make: Any) -> None:
    short: dict[str, list[float | None]] = {name: [1.0, 0.0] * (SIZE // 2) for name in ("base", "a", "b")}
    long = {name: [*values, *[1.0] * 50] for name, values in short.items()}
    assert assayed(make, long).equals(assayed(make, short))


@settings(max_examples=20)
@given(st.data())
def test_a_credit_never_falls_during_an_assay(make: Any, data: st.DataObject) -> None:
    """Look after look, at whatever prefix each model has reached."""
    kinds = {name: data.draw(st.sampled_from([0.1, 0.5, 0.6, 0.95])) for name in ("base", "a", "b")}
    values = {name: [float((at * 37 + 11) % 100 < 100 * kind) for at in range(SIZE)] for name, kind in kinds.items()}
    reached, frame, earned = dict.fromkeys(values, 0), None, [0, 0, 0]
    for _ in range(4):
        reached = {name: data.draw(st.integers(low, SIZE)) for name, low in reached.items()}
        frame = assayed(make, {name: values[name][: reached[name]] for name in values}, prior=frame)
        now = credits_of(frame)
        assert all(after >= before for before, after in zip(earned, now, strict=True))
        earned = now
    frame = assayed(make, dict(values), prior=frame)
    assert all(after >= before for before, after in zip(earned, credits_of(frame), strict=True))
    assert frame["assay_complete"].all()


@settings(max_examples=20)
@given(st.data())
def test_a_missing_result_never_helps_a_member(make: Any, data: st.DataObject) -> None:
    """Dropped results of its own never raise its lower bound."""
    whole: dict[str, list[float | None]] = {
        name: [float((at * 37 + shift) % 100 < share) for at in range(SIZE)] for name, shift, share in (("base", 0, 30), ("a", 50, 80))
    }
    lost = data.draw(st.sets(st.integers(0, SIZE - 2), max_size=6))
    holed = {**whole, "a": [None if at in lost else value for at, value in enumerate(whole["a"])]}
    before, after = (members_of(assayed(make, rewards))[1] for rewards in (whole, holed))
    assert all(low <= high for low, high in zip(after.lower, before.lower, strict=True))


def test_a_complete_member_is_not_measured_again(make: Any) -> None:
    first = assayed(make, {name: [1.0, 0.0] * (SIZE // 2) for name in ("base", "a", "b")})
    again = assayed(make, {name: [1.0] * SIZE for name in ("base", "a", "b")}, prior=first)
    assert again["lower"].to_list() == first["lower"].to_list()
