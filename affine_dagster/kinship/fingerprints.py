"""Fingerprints: the digests by which admitted submissions and genesis models are compared.

What must not go in: the comparison (``verdicts.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from affine_dagster.admission.files import load_names
from affine_dagster.checkpoint.digests import file_blake3
from affine_dagster.checkpoint.identity import CheckpointIdentity, identity
from affine_dagster.hub.port import Hub
from affine_dagster.reasons import AffineError
from affine_dagster.settings import Settings
from affine_dagster.tables import FINGERPRINTS

__all__ = ["fingerprint", "genesis_id", "unfinished"]

_LOG = logging.getLogger(__name__)
Row = Mapping[str, object]


def genesis_id(rank: int) -> str:
    """The submission id of the genesis model at this rank (0-based) of ``scoring.genesis``."""
    return f"genesis-{rank}"


def unfinished(admissions: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """The admitted ADMISSIONS rows that have no FINGERPRINTS row yet: the newest row of each, sorted by position."""
    admitted = admissions.filter((pl.col("state") == "admitted") & ~pl.col("submission_id").is_in(known["submission_id"].to_list()))
    newest = admitted.sort("epoch", maintain_order=True).unique("submission_id", keep="last", maintain_order=True)
    return newest.sort("block", "extrinsic_index", "submission_id", nulls_last=True)


def fingerprint(hub: Hub, settings: Settings, admissions: pl.DataFrame, epoch: int, known: pl.DataFrame) -> pl.DataFrame:
    """FINGERPRINTS rows of ``epoch``: genesis models and admitted submissions that ``known`` does not have.

    ``admissions`` may be this epoch's ADMISSIONS or all so far: those whose folder could not be read are logged, left out and
    come again, and never stop another. ``known`` are FINGERPRINTS so far: rows of ``epoch`` itself stand for the same revision,
    since a revision never changes while a hub may be gone at a re-run; later rows are ignored. Raises AffineError only when a
    genesis model cannot be read.
    """
    before = known.filter(pl.col("epoch") < epoch)
    stands = {(row["submission_id"], row["repo"], row["revision"]): row for row in known.filter(pl.col("epoch") == epoch).to_dicts()}
    rows = _genesis(hub, settings, epoch, set(before["submission_id"].to_list()), stands)
    read: dict[str, CheckpointIdentity] = {}
    for row in unfinished(admissions.filter(pl.col("epoch") <= epoch), before).to_dicts():
        if (same := stands.get((row["submission_id"], row["repo"], row["revision"]))) is not None:
            rows.append(same)
            continue
        try:
            digest = str(row["manifest_digest"])
            if digest not in read:
                read[digest] = identity(_checked(hub, row))
            rows.append(_row(row, epoch, read[digest], genesis=False))
        except Exception as error:  # whatever a submitted file makes a reader raise costs nobody else the epoch
            _LOG.warning("no fingerprint of %s this epoch: %s: %s", row["submission_id"], type(error).__name__, error)
    return FINGERPRINTS.frame(rows).sort("block", "extrinsic_index", "submission_id", nulls_last=True)


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
        "template_hash": found.template_hash, "tokenizer_signature": found.tokenizer_signature,
        "tensors": [
            {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape), "blake3": tensor.blake3} for tensor in found.tensors
        ],
    }
