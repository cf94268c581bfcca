"""The one status of each submission, derived by one function from the tables (cases W11, O2, O4).

Nobody else decides what a submission's state is. What must not go in: judgement; this only reads what the rooms decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from affine_dagster.reasons import reason
from affine_dagster.tables import STANDINGS

__all__ = ["StandingInputs", "standings"]


@dataclass(frozen=True)
class StandingInputs:
    """What a standing is derived from. All frames are of their tables; ``*_so_far``: all epochs up to this one.

    ``submissions``, ``admissions``, ``fingerprints`` and ``kinship`` are so far; ``plan``, ``contests``, ``frontier``, ``credits``
    and ``weights`` are this epoch's; ``prior`` is the previous epoch's STANDINGS, or empty.
    """

    epoch: int
    submissions: pl.DataFrame
    admissions: pl.DataFrame
    fingerprints: pl.DataFrame
    kinship: pl.DataFrame
    plan: pl.DataFrame
    contests: pl.DataFrame
    frontier: pl.DataFrame
    credits: pl.DataFrame
    weights: pl.DataFrame
    prior: pl.DataFrame


Row = Mapping[str, object]


@dataclass(frozen=True)
class _Verdict:
    state: str
    reason: str
    detail: str | None = None
    peer: str | None = None


def standings(inputs: StandingInputs) -> pl.DataFrame:
    """STANDINGS of the epoch: genesis models and every submission known so far, by position.

    A state that did not change keeps its ``since_epoch`` from the prior standings.
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
    kinship: Mapping[str, Row]
    plan: Mapping[str, Row]
    contests: Mapping[str, list[Row]]
    frontier: Mapping[str, Row]
    credits: Mapping[str, Row]
    weights: Mapping[str, Row]
    newest_of_hotkey: Mapping[str, str]
    first_epoch: Mapping[str, int]
    prior: Mapping[str, Row]

    @classmethod
    def of(cls, inputs: StandingInputs) -> _Books:
        contests: dict[str, list[Row]] = {}
        for row in inputs.contests.iter_rows(named=True):
            contests.setdefault(row["challenger"], []).append(row)
        newest = inputs.submissions.sort("block", "extrinsic_index", nulls_last=True).unique("hotkey", keep="last", maintain_order=True)
        first = inputs.submissions.group_by("submission_id").agg(pl.col("epoch").min())
        return cls(
            admissions=_by(_newest(inputs.admissions), "submission_id"),
            kinship=_by(_newest(inputs.kinship), "submission_id"),
            plan=_by(inputs.plan.filter(pl.col("purpose") == "contest"), "weights_digest"),
            contests=contests,
            frontier=_by(inputs.frontier, "weights_digest"),
            credits=_by(inputs.credits, "weights_digest"),
            weights=_by(inputs.weights.filter(~pl.col("burn")), "hotkey"),
            newest_of_hotkey=dict(newest.select("hotkey", "submission_id").iter_rows()),
            first_epoch=dict(first.iter_rows()),
            prior=_by(inputs.prior, "submission_id"),
        )


def _genesis_row(epoch: int, row: Row, books: _Books) -> dict[str, object]:
    member = books.frontier.get(str(row["weights_digest"]))
    redundant = member is not None and not member["incumbent"]
    verdict = _Verdict("genesis", "redundant" if redundant else "genesis", peer=_text(member, "redundant_by") if redundant else None)
    return _standing(epoch, row, verdict, books, weights_digest=str(row["weights_digest"]), first_epoch=int(str(row["epoch"])))


def _row(epoch: int, row: Row, books: _Books) -> dict[str, object]:
    submission = str(row["submission_id"])
    kin = books.kinship.get(submission)
    digest = None if kin is None else str(kin["weights_digest"])
    verdict = _intake(row) or _admission(books.admissions.get(submission)) or _kinship(kin)
    if verdict is None and digest is not None:
        verdict = _membership(books.frontier.get(digest)) or _contest(row, digest, books)
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


def _kinship(row: Row | None) -> _Verdict | None:
    if row is None:
        return _Verdict("waiting", "admitted")
    if row["verdict"] == "origin":
        return None
    state = "copy" if row["verdict"] == "exact_copy" else "review"
    return _Verdict(state, str(row["reason"]), _text(row, "detail"), _text(row, "peer_submission_id"))


def _membership(member: Row | None) -> _Verdict | None:
    if member is None:
        return None
    if not member["assay_complete"]:
        return _Verdict("accepted", "assaying")
    if not member["incumbent"]:
        return _Verdict("accepted", "redundant", peer=_text(member, "redundant_by"))
    return _Verdict("accepted", "accepted")


def _contest(row: Row, digest: str, books: _Books) -> _Verdict:
    submission = str(row["submission_id"])
    if books.newest_of_hotkey.get(str(row["hotkey"])) != submission:
        return _Verdict("superseded", "superseded", peer=books.newest_of_hotkey.get(str(row["hotkey"])))
    order = {"expired": 0, "regressed": 1, "futile": 2, "undecided": 3, "won": 4}
    contests = sorted(books.contests.get(digest, []), key=lambda contest: (order[str(contest["state"])], str(contest["incumbent"])))
    if contests:
        worst = contests[0]
        state = {"won": "undecided"}.get(str(worst["state"]), str(worst["state"]))
        return _Verdict(state, str(worst["reason"]), _text(worst, "environment"), _text(worst, "incumbent"))
    planned = books.plan.get(digest)
    if planned is not None:
        return _Verdict("undecided" if planned["planned"] else "waiting", str(planned["reason"] or "evaluating"))
    prior = books.prior.get(submission)
    if prior is not None and prior["state"] in ("futile", "regressed", "expired"):
        return _Verdict(str(prior["state"]), str(prior["reason"]), _text(prior, "detail"), _text(prior, "peer"))
    return _Verdict("waiting", "waiting")


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
