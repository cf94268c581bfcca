"""The one status of each submission, derived by one function from the tables (cases W11, O2, O4).

Nobody else decides what a submission's state is. What must not go in: judgement; this only reads what the rooms decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from affine_dagster.reasons import reason
from affine_dagster.tables import STANDINGS

__all__ = ["StandingInputs", "standings"]


@dataclass(frozen=True)
class StandingInputs:
    """What a standing is derived from. All frames are of their tables; ``*_so_far``: all epochs up to this one.

    ``submissions``, ``admissions``, ``fingerprints``, ``failures`` (FINGERPRINT_FAILURES) and ``kinship`` are so far; ``plan``,
    ``contests``, ``frontier``, ``credits`` and ``weights`` are this epoch's; ``prior`` is the previous epoch's STANDINGS, or empty.
    ``withheld``: the epoch's breaker was open, so nobody's contest was decided.
    """

    epoch: int
    submissions: pl.DataFrame
    admissions: pl.DataFrame
    fingerprints: pl.DataFrame
    failures: pl.DataFrame
    kinship: pl.DataFrame
    plan: pl.DataFrame
    contests: pl.DataFrame
    frontier: pl.DataFrame
    credits: pl.DataFrame
    weights: pl.DataFrame
    prior: pl.DataFrame
    withheld: bool = False


Row = Mapping[str, object]


@dataclass(frozen=True)
class _Verdict:
    state: str
    reason: str
    detail: str | None = None
    peer: str | None = None


_ENDED = {"regressed": "regressed", "futile": "futile", "expired_undecided": "expired"}
"""The state that a plan's reason for not running a model any more is, in the order in which the plan looks for them."""

_WORST_FIRST = (*_ENDED.values(), "undecided", "won")


def standings(inputs: StandingInputs) -> pl.DataFrame:
    """STANDINGS of the epoch: genesis models and every submission known so far, by position.

    A reason that did not change keeps its ``since_epoch`` from the prior standings. ``peer`` is a submission id.
    """
    books = _Books.of(inputs)
    rows = [_genesis_row(inputs.epoch, row, books) for row in inputs.fingerprints.filter("genesis").iter_rows(named=True)]
    rows += [_row(inputs.epoch, row, books) for row in _newest(inputs.submissions).iter_rows(named=True)]
    made = STANDINGS.frame(rows)
    since = inputs.prior.select("submission_id", "reason", before="since_epoch")
    return STANDINGS.check(
        made.join(since, on=["submission_id", "reason"], how="left")
        .with_columns(since_epoch=pl.coalesce("before", "since_epoch"))
        .drop("before")
        .sort("block", "extrinsic_index", "submission_id", nulls_last=True)
    )


def _newest(frame: pl.DataFrame) -> pl.DataFrame:
    """The newest epoch's row of each submission."""
    return frame.sort("epoch").unique("submission_id", keep="last", maintain_order=True)


def _by(frame: pl.DataFrame, key: str) -> dict[str, Row]:
    return {row[key]: row for row in frame.iter_rows(named=True)}


@dataclass(frozen=True)
class _Books:
    """The inputs, indexed for look-up."""

    admissions: Mapping[str, Row]
    failures: Mapping[str, Row]
    kinship: Mapping[str, Row]
    plan: Mapping[str, Row]
    contests: Mapping[str, list[Row]]
    frontier: Mapping[str, Row]
    member_of: Mapping[str, Row]
    credits: Mapping[str, Row]
    weights: Mapping[str, Row]
    submission_of: Mapping[str, str]
    current_of_hotkey: Mapping[str, str]
    first_epoch: Mapping[str, int]
    prior: Mapping[str, Row]
    withheld: bool

    @classmethod
    def of(cls, inputs: StandingInputs) -> _Books:
        contests: dict[str, list[Row]] = {}
        for row in inputs.contests.iter_rows(named=True):
            contests.setdefault(row["challenger"], []).append(row)
        prints = inputs.fingerprints.sort("block", "extrinsic_index", nulls_last=True)
        admitted = _newest(inputs.admissions).filter(
            (pl.col("state") == "admitted") & pl.col("submission_id").is_in(prints["submission_id"].to_list())
        ).sort("block", "extrinsic_index", nulls_last=True)
        first = inputs.submissions.group_by("submission_id").agg(pl.col("epoch").min())
        return cls(
            admissions=_by(_newest(inputs.admissions), "submission_id"),
            failures=_by(_newest(inputs.failures), "submission_id"),
            kinship=_by(_newest(inputs.kinship), "submission_id"),
            plan=_by(inputs.plan.filter((pl.col("purpose") == "contest") & (pl.col("role") == "challenger")), "weights_digest"),
            contests=contests,
            frontier=_by(inputs.frontier, "weights_digest"),
            member_of=_by(inputs.frontier, "submission_id"),
            credits=_by(inputs.credits, "weights_digest"),
            weights=_by(inputs.weights.filter(~pl.col("burn")), "hotkey"),
            submission_of=dict(prints.reverse().select("weights_digest", "submission_id").iter_rows()),
            current_of_hotkey=dict(admitted.select("hotkey", "submission_id").iter_rows()),
            first_epoch=dict(first.iter_rows()),
            prior=_by(inputs.prior, "submission_id"),
            withheld=inputs.withheld,
        )

    def peer(self, digest: object) -> str | None:
        """The submission that owns these weights: the member's, else the earliest that holds them."""
        if digest is None:
            return None
        member = self.frontier.get(str(digest))
        return str(member["submission_id"]) if member is not None else self.submission_of.get(str(digest), str(digest))


def _genesis_row(epoch: int, row: Row, books: _Books) -> dict[str, object]:
    member = books.frontier.get(str(row["weights_digest"]))
    by = None if member is None else books.peer(member["redundant_by"])
    verdict = _Verdict("genesis", "genesis" if by is None else "redundant", peer=by)
    return _standing(epoch, row, verdict, books, weights_digest=str(row["weights_digest"]), first_epoch=int(str(row["epoch"])))


def _row(epoch: int, row: Row, books: _Books) -> dict[str, object]:
    submission = str(row["submission_id"])
    kin = books.kinship.get(submission)
    digest = None if kin is None else str(kin["weights_digest"])
    verdict = _intake(row) or _admission(books.admissions.get(submission)) or _kinship(kin, books.failures.get(submission))
    if verdict is None and digest is not None:
        member = books.member_of.get(submission) or books.frontier.get(digest)
        verdict = _membership(member, books, digest) or _contest(row, digest, books)
        digest = digest if member is None else str(member["weights_digest"])
    verdict = verdict or _Verdict("waiting", "waiting")
    return _standing(epoch, row, verdict, books, weights_digest=digest, first_epoch=books.first_epoch[submission])


def _intake(row: Row) -> _Verdict | None:
    states = {"sealed": "sealed", "failed": "failed", "undecodable": "rejected", "review": "review"}
    state = states.get(str(row["state"]))
    return None if state is None else _Verdict(state, str(row["reason"]), _text(row, "detail"))


def _admission(row: Row | None) -> _Verdict | None:
    if row is None:
        return _Verdict("waiting", "submitted")
    return None if row["state"] == "admitted" else _Verdict(str(row["state"]), str(row["reason"]), _text(row, "detail"))


def _kinship(row: Row | None, failure: Row | None) -> _Verdict | None:
    if row is None:
        if failure is None:
            return _Verdict("waiting", "admitted")
        return _Verdict(str(failure["state"]), str(failure["reason"]), _text(failure, "detail"))
    if row["verdict"] == "origin":
        return None
    state = "copy" if row["verdict"] == "exact_copy" else "review"
    return _Verdict(state, str(row["reason"]), _text(row, "detail"), _text(row, "peer_submission_id"))


def _membership(member: Row | None, books: _Books, digest: str) -> _Verdict | None:
    """A member's state is accepted, whatever follows; the reason says what stands between it and its pay.

    Where a later commitment of the same tensors in another form was accepted before this one was admitted, the member is that
    form: the origin owns it, and is told as what it was measured.
    """
    if member is None:
        return None
    other_form = member["weights_digest"] != digest
    detail = f"measured as {member['repo']} holds the same tensors: it was accepted before this one was admitted" if other_form else None
    return replace(_accepted(member, books), detail=detail)


def _accepted(member: Row, books: _Books) -> _Verdict:
    credit = books.credits.get(str(member["weights_digest"]))
    if credit is not None and not credit["registered"]:
        return _Verdict("accepted", "not_registered")
    if not member["assay_complete"]:
        return _Verdict("accepted", "assaying")
    if credit is not None and credit["reason"] == "no_credit":
        return _Verdict("accepted", "no_credit")
    if not member["incumbent"]:
        return _Verdict("accepted", "redundant", peer=books.peer(member["redundant_by"]))
    return _Verdict("accepted", "accepted")


def _contest(row: Row, digest: str, books: _Books) -> _Verdict:
    """The state of weights that never entered: what the plan says of those that did not run, else this epoch's contests."""
    planned = books.plan.get(digest)
    if planned is None:
        return _unplanned(row, books)
    if not planned["planned"]:
        return _not_run(row, str(planned["reason"]), books)
    if books.withheld:
        return _Verdict("undecided", "breaker_open")
    return _fought(digest, books)


def _unplanned(row: Row, books: _Books) -> _Verdict:
    """Without a row in the plan, as when another scorer than the plan's had accepted it: what was known before still stands."""
    prior = books.prior.get(str(row["submission_id"]))
    if prior is None or prior["state"] not in _WORST_FIRST:
        return _Verdict("waiting", "waiting")
    return _Verdict(str(prior["state"]), str(prior["reason"]), _text(prior, "detail"), _text(prior, "peer"))


def _not_run(row: Row, why: str, books: _Books) -> _Verdict:
    if why == "superseded":
        return _Verdict("superseded", why, peer=books.current_of_hotkey.get(str(row["hotkey"])))
    if why not in _ENDED:
        return _Verdict("waiting", why)
    prior = books.prior.get(str(row["submission_id"]))
    if prior is None or prior["reason"] != why:
        return _Verdict(_ENDED[why], why)
    return _Verdict(_ENDED[why], why, _text(prior, "detail"), _text(prior, "peer"))


def _fought(digest: str, books: _Books) -> _Verdict:
    """The worst of its contests with the present incumbents; those with models that did not enter or were overtaken decide nothing."""
    present = {name for name, member in books.frontier.items() if member["incumbent"]}
    contests = [contest for contest in books.contests.get(digest, []) if contest["incumbent"] in present]
    worst = min(contests, key=lambda contest: (_WORST_FIRST.index(str(contest["state"])), str(contest["incumbent"])), default=None)
    if worst is None:
        return _Verdict("undecided", "evaluating")
    if worst["state"] == "won":  # over all, yet it did not enter: one that entered before it this epoch is still to be met
        return _Verdict("undecided", "undecided")
    return _Verdict(str(worst["state"]), str(worst["reason"]), _text(worst, "environment"), books.peer(worst["incumbent"]))


def _text(row: Row | None, column: str) -> str | None:
    value = None if row is None else row[column]
    return None if value is None else str(value)


def _standing(
    epoch: int, row: Row, verdict: _Verdict, books: _Books, *, weights_digest: str | None, first_epoch: int
) -> dict[str, object]:
    why = reason(verdict.reason)
    credit = books.credits.get(weights_digest or "")
    owner = credit is not None and credit["submission_id"] == row["submission_id"]
    weight = books.weights.get(str(row["hotkey"])) if owner else None
    return {
        "epoch": epoch,
        "submission_id": row["submission_id"],
        "hotkey": row["hotkey"],
        "repo": row["repo"],
        "revision": row["revision"],
        "coldkey": row.get("coldkey"),
        "uid": row.get("uid"),
        "block": row["block"],
        "extrinsic_index": row["extrinsic_index"],
        "weights_digest": weights_digest,
        "genesis": bool(row.get("genesis", False)),
        "state": verdict.state,
        "reason": verdict.reason,
        "fault": None if why.fault is None else str(why.fault),
        "detail": verdict.detail,
        "next_step": why.next_step,
        "peer": verdict.peer,
        "credit": credit["credit"] if credit is not None and owner else None,
        "weight": weight["weight"] if weight is not None else (0 if owner else None),
        "first_epoch": first_epoch,
        "since_epoch": epoch,
    }
