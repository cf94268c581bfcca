"""Laws of the standings: one status a submission (case W11), each with whose fault it is and what to do (case O2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from affine_dagster.reasons import REASONS, Fault

Books = Any
"""``conftest.Books``; a conftest is not imported by name."""

STATES: dict[str, tuple[Callable[[Books], Books], str, str]] = {
    "read": (lambda b: b.committed(), "waiting", "submitted"),
    "sealed": (lambda b: b.committed(state="sealed", reason="reveal_pending"), "sealed", "reveal_pending"),
    "not opened": (lambda b: b.committed(state="failed", reason="reveal_failed"), "failed", "reveal_failed"),
    "garbage": (lambda b: b.committed(state="undecodable", reason="undecodable", repo=None), "rejected", "undecodable"),
    "tied": (lambda b: b.committed(state="review", reason="tie_needs_review"), "review", "tie_needs_review"),
    "refused": (lambda b: b.committed().judged("a1", "rejected", "size_mismatch"), "rejected", "size_mismatch"),
    "put off": (lambda b: b.committed().judged("a1", "deferred", "hub_unavailable"), "deferred", "hub_unavailable"),
    "in line": (lambda b: b.committed().judged("a1", "deferred", "admission_budget"), "deferred", "admission_budget"),
    "let in": (lambda b: b.committed().judged(), "waiting", "admitted"),
    "not fingerprinted": (lambda b: b.committed().judged().unread(), "deferred", "fingerprint_failed"),
    "never fingerprinted": (
        lambda b: b.committed().judged().unread(state="rejected", reason="expired_deferred"), "rejected", "expired_deferred",
    ),
    "fingerprinted later": (lambda b: b.origin().unread(epoch=4).planned(), "undecided", "evaluating"),
    "a copy": (
        lambda b: b.committed().judged().related("a1", "exact_copy", "genesis_copy", peer_submission_id="genesis-0"),
        "copy", "genesis_copy",
    ),
    "kinship unsure": (lambda b: b.committed().judged().related("a1", "needs_review", "tie_needs_review"), "review", "tie_needs_review"),
    "no budget": (lambda b: b.origin().planned(runs=False, reason="waiting"), "waiting", "waiting"),
    "no slot": (lambda b: b.origin().planned(runs=False, reason="owner_deferred"), "waiting", "owner_deferred"),
    "overtaken by itself": (lambda b: b.origin().planned(runs=False, reason="superseded"), "superseded", "superseded"),
    "running": (lambda b: b.origin().planned(), "undecided", "evaluating"),
    "undecided": (lambda b: b.origin().planned().fought(), "undecided", "undecided"),
    "too thin": (lambda b: b.origin().planned().fought(reason="low_coverage"), "undecided", "low_coverage"),
    "futile now": (lambda b: b.origin().planned().fought(state="futile"), "futile", "futile"),
    "regressed now": (lambda b: b.origin().planned().fought(state="regressed"), "regressed", "regressed"),
    "expired now": (lambda b: b.origin().planned().fought(state="expired"), "expired", "expired_undecided"),
    "futile before": (lambda b: b.origin().planned(runs=False, reason="futile"), "futile", "futile"),
    "regressed before": (lambda b: b.origin().planned(runs=False, reason="regressed"), "regressed", "regressed"),
    "expired before": (lambda b: b.origin().planned(runs=False, reason="expired_undecided"), "expired", "expired_undecided"),
    "just entered": (lambda b: b.origin().member(assay_complete=False).credited(reason="assaying"), "accepted", "assaying"),
    "measured": (lambda b: b.origin().member().credited(), "accepted", "accepted"),
    "worth nothing": (lambda b: b.origin().member().credited(reason="no_credit", credit=0.0), "accepted", "no_credit"),
    "owner gone": (lambda b: b.origin().member().credited(reason="not_registered", registered=False), "accepted", "not_registered"),
    "made redundant": (
        lambda b: b.origin().member(incumbent=False, redundant_by="BASE").credited(), "accepted", "redundant",
    ),
}


@pytest.mark.parametrize("case", STATES)
def test_a_submission_has_one_status_with_a_reason_and_a_next_step(books: Books, case: str) -> None:
    """Cases O2 and W11."""
    made, state, reason = STATES[case]
    status = made(books).status()
    assert (status["state"], status["reason"]) == (state, reason)
    assert status["next_step"] == REASONS[reason].next_step
    assert status["fault"] == REASONS[reason].fault


def test_every_row_of_every_state_has_a_known_reason(books: Books) -> None:
    """Case O2: no "failed" without a message anywhere."""
    for made, _, _ in STATES.values():
        rows = made(books).standings()
        assert rows["reason"].is_in(list(REASONS)).all()
        assert (rows["next_step"].str.len_chars() > 0).all()
        assert rows["fault"].drop_nulls().is_in([fault.value for fault in Fault]).all()


def test_a_genesis_model_has_a_status_and_earns_nothing(books: Books) -> None:
    status = books.status("genesis-0")
    assert (status["state"], status["reason"], status["credit"], status["weight"]) == ("genesis", "genesis", None, None)


def test_a_genesis_model_that_was_surpassed_names_by_whom(books: Books) -> None:
    made = books.origin().member()
    frontier = made.frames["frontier"].with_columns(redundant_by=pl.when(pl.col("genesis")).then(pl.lit("A1")))
    status = replace(made, frames={**made.frames, "frontier": frontier}).status("genesis-0")
    assert (status["reason"], status["peer"]) == ("redundant", "a1")


def test_a_peer_is_a_submission_whatever_the_tables_hold(books: Books) -> None:
    made = books.origin().planned().fought(state="futile")
    assert made.status()["peer"] == "genesis-0"


# --- verdicts last, and none outlives its reason ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("reason", "state"), [("futile", "futile"), ("regressed", "regressed"), ("expired_undecided", "expired")])
def test_an_ended_contest_keeps_its_evidence_in_the_epochs_after(books: Books, reason: str, state: str) -> None:
    """Case O7: a verdict is stored once, with where and against whom, and a later epoch does not lose it."""
    made = books.origin().planned(runs=False, reason=reason).before(state=state, reason=reason, detail="left", peer="genesis-0")
    status = made.status()
    assert (status["state"], status["detail"], status["peer"], status["since_epoch"]) == (state, "left", "genesis-0", 2)


def test_an_ended_contest_takes_no_evidence_of_another_reason(books: Books) -> None:
    made = books.origin().planned(runs=False, reason="futile").before(state="undecided", reason="undecided", detail="left")
    assert made.status()["detail"] is None


def test_what_could_not_be_fetched_is_admitted_when_it_can(books: Books) -> None:
    """Case O7: gated today, public tomorrow: the newest verdict counts."""
    made = books.committed(epoch=4).judged("a1", "deferred", "hub_unavailable", epoch=4).judged("a1", epoch=5)
    assert made.status()["reason"] == "admitted"


def test_a_sealed_commitment_that_was_opened_is_read(books: Books) -> None:
    made = books.committed(state="sealed", reason="reveal_pending", epoch=4).committed(epoch=5)
    assert made.status()["state"] == "waiting"
    assert made.standings().filter(pl.col("submission_id") == "a1").height == 1


def test_a_new_reason_starts_its_age_anew(books: Books) -> None:
    """Case O4: each status says since when."""
    made = books.origin().planned().fought()
    assert made.before(state="undecided", reason="undecided").status()["since_epoch"] == 2
    assert made.before(state="waiting", reason="waiting").status()["since_epoch"] == 5


def test_the_first_epoch_is_that_of_the_commitment(books: Books) -> None:
    assert books.committed(epoch=3).status()["first_epoch"] == 3


# --- whose contests count -------------------------------------------------------------------------------------------------------


def test_a_contest_with_a_model_that_did_not_enter_decides_nothing(books: Books) -> None:
    made = books.origin().planned().fought(state="undecided").fought(state="futile", incumbent="RIVAL")
    assert made.status()["state"] == "undecided"


def test_the_worst_contest_with_a_present_incumbent_counts(books: Books) -> None:
    rival = books.origin("b1", hotkey="h-b", block=5).member("b1")
    made = rival.origin().planned().fought(state="won").fought(state="regressed", incumbent="B1")
    assert (made.status()["state"], made.status()["peer"]) == ("regressed", "b1")


def test_who_won_everything_and_did_not_enter_is_undecided(books: Books) -> None:
    """One that entered before it in the same epoch is still to be met."""
    assert books.origin().planned().fought(state="won").status()["reason"] == "undecided"


def test_an_open_breaker_withholds_verdicts_and_says_so(books: Books) -> None:
    """Case O8: the platform's fault is shown as the platform's."""
    made = replace(books.origin().planned().fought(state="futile"), withheld=True)
    assert (made.status()["state"], made.status()["reason"], made.status()["fault"]) == ("undecided", "breaker_open", "platform")


def test_a_row_of_an_incumbent_is_no_challengers(books: Books) -> None:
    """The plan of another scorer, which had accepted it, does not make it undecided for the reason of an incumbent."""
    assert books.origin().planned(role="incumbent", reason="accepted").status()["state"] == "waiting"


# --- old and new submissions of one hotkey ----------------------------------------------------------------------------------------


def test_the_old_reward_stands_while_the_new_submission_waits(books: Books) -> None:
    """Case O5."""
    made = books.origin().member().credited().paid(weight=40_000).origin("a2", block=50).planned("a2", runs=False, reason="waiting")
    old, new = made.status("a1"), made.status("a2")
    assert (old["state"], old["credit"], old["weight"]) == ("accepted", 0.25, 40_000)
    assert (new["state"], new["credit"], new["weight"]) == ("waiting", None, None)


def test_a_rejected_new_commitment_does_not_supersede_the_old_one(books: Books) -> None:
    """Case O5: the old model is still the one that runs, and its status says so."""
    made = books.origin().planned().fought().committed("a2", block=50).judged("a2", "rejected", "size_mismatch")
    assert made.status("a1")["state"] == "undecided"


def test_a_superseded_model_names_the_one_that_runs(books: Books) -> None:
    made = books.origin().planned(runs=False, reason="superseded").origin("a2", block=50).planned("a2")
    assert made.status("a1")["peer"] == "a2"


def test_the_origin_of_a_member_in_another_form_has_its_state_credit_and_weight(books: Books) -> None:
    """The same tensors under other names: the later commitment was accepted before the earlier one was admitted, and belongs to it."""
    late = books.origin("b1", hotkey="h-b", block=50, epoch=4).related(
        "b1", "exact_copy", "exact_copy", hotkey="h-b", block=50, peer_submission_id="a1"
    )
    made = late.origin().member(weights_digest="B1", repo="b1/model").credited(weights_digest="B1").paid(weight=40_000)
    first, copy = made.status("a1"), made.status("b1")
    assert (first["state"], first["reason"], first["credit"], first["weight"]) == ("accepted", "accepted", 0.25, 40_000)
    assert (first["weights_digest"], first["detail"].startswith("measured as b1/model")) == ("B1", True)
    assert (copy["state"], copy["peer"], copy["credit"], copy["weight"]) == ("copy", "a1", None, None)


def test_a_verdict_is_against_the_owner_of_the_model_that_was_met(books: Books) -> None:
    """Not against the copy in whose form it runs."""
    rival = books.origin("a1", hotkey="h-r", block=5).related("b1", "exact_copy", "exact_copy", block=6, peer_submission_id="a1")
    made = rival.member("a1", weights_digest="B1").origin("c1", hotkey="h-c", block=70).planned("c1")
    assert made.fought("c1", state="regressed", incumbent="B1").status("c1")["peer"] == "a1"


def test_a_newer_model_without_a_fingerprint_supersedes_nothing(books: Books) -> None:
    made = books.origin().planned(runs=False, reason="superseded").origin("a2", block=50).planned("a2")
    unread = made.committed("a3", block=60).judged("a3", block=60).unread("a3", block=60)
    assert unread.status("a1")["peer"] == "a2"


def test_a_copy_gets_neither_credit_nor_weight(books: Books) -> None:
    made = books.origin().member().credited().paid()
    copied = made.committed("b1", hotkey="h-b", block=50).judged("b1", hotkey="h-b", block=50).related(
        "b1", "exact_copy", "exact_copy", weights_digest="A1", hotkey="h-b", block=50, peer_submission_id="a1"
    )
    status = copied.status("b1")
    assert (status["state"], status["credit"], status["weight"], status["peer"]) == ("copy", None, None, "a1")


def test_an_owner_who_is_gone_is_not_paid(books: Books) -> None:
    made = books.origin().member().credited(reason="not_registered", registered=False).paid("burn", burn=True)
    assert (made.status()["weight"], made.status()["next_step"]) == (0, REASONS["not_registered"].next_step)


def test_rows_stand_in_the_order_of_commitment(books: Books) -> None:
    made = books.committed("late", block=30).committed("early", block=20)
    assert made.standings()["submission_id"].to_list() == ["genesis-0", "early", "late"]
