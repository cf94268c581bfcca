"""Commitments into submissions, item by item: what each hotkey named, or why it cannot be read.

What must not go in: whether the model may enter (admission) and anything that asks the hub. A commitment is hostile bytes:
no item can fail the epoch, and only a flood of undecodable ones (a broken node or decoder, case A2) stops it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from affine_dagster.reasons import AffineError
from affine_dagster.settings import ChainSettings
from affine_dagster.tables import COMMITMENTS, NEURONS, SUBMISSIONS

__all__ = ["Named", "decode_commitment", "read_submissions", "submission_id"]

MAX_BYTES = 1024
"""Longest commitment that is looked at: a bound on the parser's work, above every chain's own bound."""

MAX_REPO = 96
"""Longest repository name, characters (the Hugging Face hub's own bound)."""

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_REPO = re.compile(rf"{_PART}/{_PART}")
_REVISION = re.compile(r"[0-9a-f]{40}")
_HEX = re.compile(rb"0x(?:[0-9a-fA-F]{2})+")


@dataclass(frozen=True)
class Named:
    """The model that a commitment names."""

    repo: str
    revision: str


def submission_id(hotkey: str, block: int, extrinsic_index: int | None) -> str:
    """The short safe name of a commitment: 's' and 24 hex digits over who and where, so that it is the same sealed and opened.

    96 bits: nobody can register two hotkeys whose commitments get one name and so stop an epoch (2**48 trials; 48 bits took 2**24).
    """
    text = f"{hotkey}|{block}|{'?' if extrinsic_index is None else extrinsic_index}"
    return "s" + hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def decode_commitment(data: bytes) -> Named:
    """The model that the bytes name: a JSON object with ``model`` and ``revision``; other fields are ignored.

    Also taken: the same as ``0x`` hex text, and with its SCALE compact length in front (old clients returned both, case A2).
    Raises ``undecodable`` with what is wrong.
    """
    if len(data) > MAX_BYTES * 2 + 2:
        raise AffineError("undecodable", f"{len(data)} bytes")
    body = bytes.fromhex(data[2:].decode("ascii")) if _HEX.fullmatch(data) else data
    return _named(_fields(_without_length(body)))


def _without_length(body: bytes) -> bytes:
    """The bytes without a leading SCALE compact length that counts exactly the rest."""
    if not body or body.startswith(b"{"):
        return body
    width = {0: 1, 1: 2, 2: 4, 3: 0}[body[0] & 3]  # the two low bits are the mode; mode 3 holds lengths far above the bound
    length = int.from_bytes(body[:width], "little") >> 2
    return body[width:] if width and length == len(body) - width else body


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field stands twice")
    return fields


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _fields(body: bytes) -> Mapping[str, object]:
    if len(body) > MAX_BYTES:
        raise AffineError("undecodable", f"{len(body)} bytes")
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:  # a UnicodeDecodeError and a JSONDecodeError are ValueErrors
        raise AffineError("undecodable", f"no JSON: {type(error).__name__}") from error
    if not isinstance(value, dict):
        raise AffineError("undecodable", f"JSON, but a {type(value).__name__}, not an object")
    return value


def _named(fields: Mapping[str, object]) -> Named:
    repo, revision = fields.get("model"), fields.get("revision")
    if not isinstance(repo, str) or len(repo) > MAX_REPO or not _REPO.fullmatch(repo):
        raise AffineError("undecodable", f"model is not owner/name of at most {MAX_REPO} of A-Z a-z 0-9 . _ -")
    if ".." in repo or "--" in repo or repo.endswith((".git", ".ipynb")):
        raise AffineError("undecodable", "model holds '..' or '--', or ends in .git or .ipynb, which the hub does not allow")
    if not isinstance(revision, str) or not _REVISION.fullmatch(revision):
        raise AffineError("undecodable", "revision is not 40 lower-case hex digits")
    return Named(repo, revision)


def read_submissions(
    commitments: pl.DataFrame, neurons: pl.DataFrame, settings: ChainSettings, earlier: pl.DataFrame | None = None
) -> pl.DataFrame:
    """The SUBMISSIONS rows of an epoch from its COMMITMENTS and NEURONS rows, in their order.

    ``earlier``: SUBMISSIONS rows of earlier epochs, in which the block-mates of a commitment opened now are looked up. A
    commitment keeps its position and its id when it is opened, so the newest epoch's row of an id is its state. A hotkey may
    commit any number of times: each commitment is a row (cases A1, A5). ``uid`` and ``coldkey`` are None for a hotkey that is
    not registered at the boundary. Commitments that share a block with one whose index is unknown are ``review``: the chain
    does not tell which was first, and neither uids nor the hub's dates may (case A8).

    Raises ``undecodable_epoch`` where of at least ``undecodable_floor`` hotkeys with open ones the share ``undecodable_limit`` or
    more have none that is decodable. By default that is all of them: one honest commitment shows that the decoder works.
    Hotkeys are counted, not commitments: else one hotkey could block the epoch with a few bytes of garbage.
    """
    COMMITMENTS.check(commitments)
    owners = {row["hotkey"]: (row["uid"], row["coldkey"]) for row in NEURONS.check(neurons).to_dicts()}
    ties = _tied_blocks(commitments, earlier)
    rows = [_row(commitment, owners, ties) for commitment in commitments.to_dicts()]
    made = SUBMISSIONS.frame(rows)
    opened = made.filter(~pl.col("state").is_in(["sealed", "failed"]))
    senders = opened["hotkey"].n_unique()
    bad = senders - opened.filter(pl.col("state") != "undecodable")["hotkey"].n_unique()
    if senders >= settings.undecodable_floor and bad >= settings.undecodable_limit * senders:
        raise AffineError("undecodable_epoch", f"none of the commitments of {bad} of {senders} hotkeys can be decoded")
    return made


def _tied_blocks(commitments: pl.DataFrame, earlier: pl.DataFrame | None) -> set[int]:
    """The blocks with several commitments of which at least one has an unknown index."""
    position = ["hotkey", "block", "extrinsic_index"]
    known = commitments.select(position)
    if earlier is not None:
        known = pl.concat([known, SUBMISSIONS.check(earlier).select(position)]).unique()
    counted = known.group_by("block").agg(pl.len().alias("number"), pl.col("extrinsic_index").is_null().any().alias("unknown"))
    return set(counted.filter((pl.col("number") > 1) & pl.col("unknown"))["block"].to_list())


def _row(commitment: Mapping[str, Any], owners: Mapping[str, tuple[int, str]], ties: set[int]) -> Mapping[str, object]:
    hotkey, block, index = commitment["hotkey"], commitment["block"], commitment["extrinsic_index"]
    uid, coldkey = owners.get(hotkey, (None, None))
    place = {
        "epoch": commitment["epoch"], "hotkey": hotkey, "coldkey": coldkey, "uid": uid, "block": block, "extrinsic_index": index,
        "submission_id": submission_id(hotkey, block, index),
    }
    return {**place, **_state(commitment, tied=block in ties)}


def _state(commitment: Mapping[str, Any], *, tied: bool) -> Mapping[str, object]:
    nothing = {"repo": None, "revision": None, "detail": None, "raw": None}
    if commitment["status"] == "sealed":
        return {**nothing, "state": "sealed", "reason": "reveal_pending", "detail": f"opens at block {commitment['reveal_block']}"}
    if commitment["status"] == "failed":
        detail = f"was to open at block {commitment['reveal_block']}"
        return {**nothing, "state": "failed", "reason": "reveal_failed", "detail": detail}
    raw: bytes = commitment["data"]
    try:
        named = decode_commitment(raw)
    except AffineError as error:
        return {**nothing, "state": "undecodable", "reason": "undecodable", "detail": error.detail, "raw": raw}
    found = {**nothing, "repo": named.repo, "revision": named.revision}
    if tied:
        return {**found, "state": "review", "reason": "tie_needs_review"}
    return {**found, "state": "submitted", "reason": "submitted"}
