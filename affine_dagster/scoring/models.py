"""Whose weights are whose: the origin submission of each weights digest, from fingerprints and the newest kinship verdicts.

A late admission of an earlier commitment changes the answer from that epoch on, and with it whom a credit belongs to. What
must not go in: making a verdict (``kinship/``): this only follows those that were made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from affine_dagster.tables import Table

__all__ = ["MODELS", "by_position", "origin_models"]

MODELS = Table(
    "models",
    {
        "weights_digest": pl.String, "origin_digest": pl.String, "submission_id": pl.String, "hotkey": pl.String, "repo": pl.String,
        "revision": pl.String, "block": pl.Int64, "extrinsic_index": pl.Int64, "genesis": pl.Boolean,
    },
    key=("weights_digest",),
)
"""One row a weights digest with a settled origin: the origin's submission, owner and position. ``origin_digest`` is the origin's own
weights digest: another one where the same tensors go by other names. Such a copy never runs. Derived, never stored."""

Row = Mapping[str, Any]
_ORIGIN = ("submission_id", "hotkey", "repo", "revision", "block", "extrinsic_index", "genesis")
_UNKNOWN = 2**62


def by_position(row: Row) -> tuple[int, int, str, str]:
    """The sort key of commit order; an unknown block or index comes last, equal positions are ordered by submission."""
    block, index = row["block"], row["extrinsic_index"]
    place = (_UNKNOWN if block is None else int(block), _UNKNOWN if index is None else int(index))
    return (*place, str(row["submission_id"]), str(row["weights_digest"]))


def origin_models(fingerprints: pl.DataFrame, kinship: pl.DataFrame) -> pl.DataFrame:
    """The MODELS frame of all FINGERPRINTS and KINSHIP rows so far, sorted by weights digest.

    The newest verdict of a submission counts: ``origin`` stands for itself, ``exact_copy`` for its peer, anything else (and a
    submission without a verdict) for nobody. Genesis stands for itself, or for the first genesis model of the same tensors.
    Of several the earliest position is the origin.
    """
    prints = _newest(fingerprints).select("weights_digest", "tensor_set_digest", *_ORIGIN)
    known = {row["submission_id"]: row for row in prints.iter_rows(named=True)}
    newest = _newest(kinship)
    verdicts = {row[0]: (row[1], row[2]) for row in newest.select("submission_id", "verdict", "peer_submission_id").iter_rows()}
    genesis: dict[str, Row] = {}
    for row in sorted((row for row in known.values() if row["genesis"]), key=by_position):
        genesis.setdefault(row["tensor_set_digest"], row)
    origins: dict[str, Row] = {}
    for submission, row in known.items():
        origin = _origin(submission, known, verdicts)
        if origin is not None and origin["genesis"]:
            origin = genesis[origin["tensor_set_digest"]]
        held = origins.get(row["weights_digest"])
        if origin is not None and (held is None or by_position(origin) < by_position(held)):
            origins[row["weights_digest"]] = origin
    made = [
        {"weights_digest": digest, "origin_digest": origin["weights_digest"], **{name: origin[name] for name in _ORIGIN}}
        for digest, origin in sorted(origins.items())
    ]
    return MODELS.frame(made)


def _newest(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort("epoch").unique("submission_id", keep="last", maintain_order=True)


def _origin(submission: str, known: Mapping[str, Row], verdicts: Mapping[str, tuple[str, str]]) -> Row | None:
    """The end of the chain of copies (case P5); None where it is not settled, or runs in a circle."""
    seen: set[str] = set()
    while submission in known and submission not in seen:
        seen.add(submission)
        verdict, peer = verdicts.get(submission, ("", ""))
        if known[submission]["genesis"] or verdict == "origin":
            return known[submission]
        if verdict != "exact_copy":
            return None
        submission = peer
    return None
