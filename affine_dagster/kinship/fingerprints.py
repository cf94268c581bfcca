"""Fingerprints: the digests by which admitted submissions and genesis models are compared, and why one could not be taken.

A submission without a fingerprint is never planned: whatever it holds could be another's. What must not go in: the comparison
(``verdicts.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from affine_dagster.admission.files import load_names
from affine_dagster.checkpoint.digests import file_blake3
from affine_dagster.checkpoint.identity import CheckpointIdentity, identity
from affine_dagster.hub.port import Hub
from affine_dagster.reasons import AffineError, Fault, reason
from affine_dagster.settings import Settings
from affine_dagster.tables import FINGERPRINT_FAILURES, FINGERPRINTS

__all__ = ["Fingerprinting", "fingerprint", "genesis_id", "unfinished"]

_MAX_DETAIL = 1000
_CLOSED = ("not_found", "gated")
Row = Mapping[str, object]


@dataclass(frozen=True)
class Fingerprinting:
    """What an epoch's fingerprinting came to: FINGERPRINTS rows, and FINGERPRINT_FAILURES rows of those that could not be read."""

    rows: pl.DataFrame
    failures: pl.DataFrame


def genesis_id(rank: int) -> str:
    """The submission id of the genesis model at this rank (0-based) of ``scoring.genesis``."""
    return f"genesis-{rank}"


def unfinished(admissions: pl.DataFrame, known: pl.DataFrame, failures: pl.DataFrame) -> pl.DataFrame:
    """The admitted ADMISSIONS rows that have no FINGERPRINTS row and were not given up: the newest row of each, sorted by position."""
    given_up = failures.filter(pl.col("state") == "rejected")["submission_id"].to_list()
    done = [*known["submission_id"].to_list(), *given_up]
    admitted = admissions.filter((pl.col("state") == "admitted") & ~pl.col("submission_id").is_in(done))
    newest = admitted.sort("epoch", maintain_order=True).unique("submission_id", keep="last", maintain_order=True)
    return newest.sort("block", "extrinsic_index", "submission_id", nulls_last=True)


def fingerprint(
    hub: Hub, settings: Settings, admissions: pl.DataFrame, epoch: int, known: pl.DataFrame, failures: pl.DataFrame
) -> Fingerprinting:
    """Fingerprint, in ``epoch``, the genesis models and admitted submissions that ``known`` does not have.

    ``admissions`` may be this epoch's ADMISSIONS or all so far. One whose folder cannot be read never stops another: it gets a row
    in FINGERPRINT_FAILURES with its reason, and comes again next epoch, ``admission.max_deferrals`` times. ``known`` and ``failures``
    are those tables so far: rows of ``epoch`` itself stand in ``known`` for the same revision, since a revision never changes while
    a hub may be gone at a re-run, and are ignored in ``failures``; later rows are ignored. Raises AffineError only when a genesis
    model cannot be read.
    """
    before, failed = known.filter(pl.col("epoch") < epoch), failures.filter(pl.col("epoch") < epoch)
    stands = {(row["submission_id"], row["repo"], row["revision"]): row for row in known.filter(pl.col("epoch") == epoch).to_dicts()}
    rows = _genesis(hub, settings, epoch, set(before["submission_id"].to_list()), stands)
    tries = dict(failed.group_by("submission_id").len().iter_rows())
    unread: list[Row] = []
    read: dict[str, CheckpointIdentity] = {}
    for row in unfinished(admissions.filter(pl.col("epoch") <= epoch), before, failed).to_dicts():
        if (same := stands.get((row["submission_id"], row["repo"], row["revision"]))) is not None:
            rows.append(same)
            continue
        try:
            digest = str(row["manifest_digest"])
            if digest not in read:
                read[digest] = identity(_checked(hub, row))
            rows.append(_row(row, epoch, read[digest], genesis=False))
        except Exception as error:  # whatever a submitted file makes a reader raise costs nobody else the epoch
            unread.append(_failure(row, epoch, error, tries.get(row["submission_id"], 0), settings.admission.max_deferrals))
    return Fingerprinting(_by_position(FINGERPRINTS.frame(rows)), _by_position(FINGERPRINT_FAILURES.frame(unread)))


def _by_position(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort("block", "extrinsic_index", "submission_id", nulls_last=True)


def _failure(row: Row, epoch: int, error: Exception, tries: int, most: int) -> Row:
    """Why there is no fingerprint this epoch, and whether there is a next try.

    What was admitted has passed every check of its bytes, so a reader that fails now is not the model's fault; a repository that was
    closed or removed in between is its owner's.
    """
    if not isinstance(error, AffineError):
        code, detail = "fingerprint_failed", f"{type(error).__name__}: {error}"
    elif error.reason.fault is not Fault.MODEL:
        code, detail = error.code, error.detail
    else:
        code, detail = "withdrawn" if error.code in _CLOSED else "fingerprint_failed", f"{error.code}: {error.detail}"
    state = "deferred"
    if tries >= most:
        state, code, detail = "rejected", "expired_deferred", f"no fingerprint in {tries + 1} epochs, last for {code}: {detail}"
    fault = reason(code).fault
    named = {name: row[name] for name in ("submission_id", "hotkey", "repo", "revision", "block", "extrinsic_index")}
    return {
        **named, "epoch": epoch, "state": state, "reason": code, "fault": None if fault is None else str(fault),
        "detail": detail.encode("utf-8", "replace").decode()[:_MAX_DETAIL], "deferrals": min(tries + 1, most),
    }


def _genesis(
    hub: Hub, settings: Settings, epoch: int, known: set[str], stands: Mapping[tuple[str, str, str], dict[str, object]]
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for rank, model in enumerate(settings.scoring.genesis):
        if (same := stands.get((genesis_id(rank), model.repo, model.revision))) is not None:
            rows.append(same)
        elif genesis_id(rank) not in known:
            folder = hub.folder(model.repo, model.revision, load_names(hub.files(model.repo, model.revision)))
            named = {"submission_id": genesis_id(rank), "hotkey": None, "repo": model.repo, "revision": model.revision}
            rows.append(_row({**named, "block": -1, "extrinsic_index": rank}, epoch, identity(folder), genesis=True))
    return rows


def _checked(hub: Hub, row: dict[str, list[dict[str, str]]]) -> Path:
    """The folder of an admitted row. Raises ``hub_unavailable`` when it no longer holds what was admitted."""
    manifest = {file["name"]: file["blake3"] for file in row["files"]}
    folder = hub.folder(str(row["repo"]), str(row["revision"]), sorted(manifest))
    changed = sorted(name for name, digest in manifest.items() if file_blake3(folder / name) != digest)
    if changed:
        raise AffineError("hub_unavailable", f"no longer what was admitted: {', '.join(changed)[:300]}")
    return folder


def _row(model: Row, epoch: int, found: CheckpointIdentity, *, genesis: bool) -> dict[str, object]:
    return {
        "epoch": epoch, "submission_id": model["submission_id"], "hotkey": model["hotkey"], "repo": model["repo"],
        "revision": model["revision"], "block": model["block"], "extrinsic_index": model["extrinsic_index"], "genesis": genesis,
        "weights_digest": found.weights_digest, "tensor_set_digest": found.tensor_set_digest, "parameters": found.parameters,
        "tensors_digest": found.tensors_digest, "config_digest": found.config_digest,
        "template_hash": found.template_hash, "tokenizer_signature": found.tokenizer_signature,
        "tensors": [
            {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape), "blake3": tensor.blake3} for tensor in found.tensors
        ],
    }
