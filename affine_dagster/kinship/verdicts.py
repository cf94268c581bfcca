"""Who came first with a set of tensors, and who copied: a pure function of all fingerprints so far.

Whose weights they are hangs on the tensors alone: a stranger who changes the last digit of ``rope_theta`` has another model to run
and the same copy. A copy is attributed to the origin of its cluster, never to another copy (case P5); direction comes from the commit order
alone (case P4), so a late admission of an earlier commitment overtakes. Where the order cannot be known nobody is called a
copy of the other (case A8). What must not go in: similarity short of equality, which needs evidence of another kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from affine_dagster.tables import FINGERPRINTS, KINSHIP

__all__ = ["THRESHOLD_VERSION", "judge"]

THRESHOLD_VERSION = "exact-1"
_STATISTIC = "equal_tensor_set"
_DECIDED = ("verdict", "reason", "peer_submission_id")


@dataclass(frozen=True)
class _Model:
    """A fingerprint's columns that decide. Genesis stands at block -1, before everything."""

    submission_id: str
    hotkey: str | None
    weights_digest: str
    tensor_set_digest: str
    config_digest: str | None
    tokenizer_signature: str
    template_hash: str
    block: int
    extrinsic_index: int | None
    genesis: bool


def judge(fingerprints: pl.DataFrame, earlier: pl.DataFrame, epoch: int) -> pl.DataFrame:
    """KINSHIP rows of ``epoch``, sorted by position: of submissions without a verdict, and of those whose verdict changed.

    ``fingerprints``: FINGERPRINTS of all epochs; those after ``epoch`` are ignored. ``earlier``: KINSHIP rows; those of
    ``epoch`` or later are ignored, so a re-run gives the same rows. Genesis models get no row: they are nobody's submission.
    """
    models = _models(FINGERPRINTS.check(fingerprints.filter(pl.col("epoch") <= epoch)))
    clusters: dict[str, list[_Model]] = {}
    for model in models:
        clusters.setdefault(model.tensor_set_digest, []).append(model)
    rows = [row for cluster in clusters.values() for row in _cluster(cluster, epoch)]
    stood = _newest(earlier.filter(pl.col("epoch") < epoch))
    changed = [row for row in rows if stood.get(str(row["submission_id"])) != tuple(row[name] for name in _DECIDED)]
    return KINSHIP.frame(changed).sort("block", "extrinsic_index", "submission_id", nulls_last=True)


def _models(fingerprints: pl.DataFrame) -> list[_Model]:
    columns = list(_Model.__dataclass_fields__)
    ordered = fingerprints.select(columns).sort("block", "extrinsic_index", "submission_id", nulls_last=True)
    return [_Model(**row) for row in ordered.to_dicts()]


def _newest(earlier: pl.DataFrame) -> dict[str, tuple[object, ...]]:
    newest = earlier.sort("epoch", maintain_order=True).unique("submission_id", keep="last", maintain_order=True)
    return {row["submission_id"]: tuple(row[name] for name in _DECIDED) for row in newest.to_dicts()}


def _cluster(cluster: Sequence[_Model], epoch: int) -> list[Mapping[str, object]]:
    """Rows of the submissions with the same tensors, given in order of position."""
    first = cluster[0]
    tied = _undecidable(cluster)
    rows: list[Mapping[str, object]] = []
    for model in cluster:
        if model.genesis:
            continue
        if model in tied:
            peer = next(other for other in tied if other != model)
            detail = f"block {model.block}: its order against {peer.submission_id} is not known"
            rows.append(_row(model, epoch, "needs_review", "tie_needs_review", peer, detail))
        elif model is first:
            rows.append(_row(model, epoch, "origin", "origin", None, ""))
        else:
            detail = f"the same tensors{_differing(model, first)}" + ("; the origin is under review" if tied else "")
            rows.append(_row(model, epoch, "exact_copy", _copy_reason(model, first), first, detail))
    return rows


def _copy_reason(model: _Model, first: _Model) -> str:
    if first.genesis:
        return "genesis_copy"
    return "exact_copy" if model.weights_digest == first.weights_digest else "same_weights"


def _differing(model: _Model, first: _Model) -> str:
    """What tells a copy from its origin beside the tensors, in words."""
    if model.weights_digest == first.weights_digest:
        return ", config, tokenizer and template"
    parts = {"config": "config_digest", "tokenizer": "tokenizer_signature", "template": "template_hash"}
    others = [name for name, column in parts.items() if getattr(model, column) != getattr(first, column)]
    return f" under {'another ' + ', '.join(others) if others else 'other names'}"


def _undecidable(cluster: Sequence[_Model]) -> list[_Model]:
    """The models of which any may have been first: empty when the first one is known.

    Within the earliest block these are the ones whose extrinsic index is unknown and the ones with the lowest known index; one
    with a higher known index is later than that for sure.
    """
    first = cluster[0]
    if first.genesis:
        return []
    together = [model for model in cluster if model.block == first.block]
    candidates = [model for model in together if model.extrinsic_index in {None, first.extrinsic_index}]
    return candidates if len(candidates) > 1 else []


def _row(model: _Model, epoch: int, verdict: str, reason: str, peer: _Model | None, detail: str) -> Mapping[str, object]:
    alone = peer is None
    return {
        "epoch": epoch, "submission_id": model.submission_id, "hotkey": model.hotkey, "weights_digest": model.weights_digest,
        "block": model.block, "extrinsic_index": model.extrinsic_index, "verdict": verdict, "reason": reason,
        "peer_submission_id": peer and peer.submission_id, "peer_hotkey": peer and peer.hotkey,
        "peer_weights_digest": peer and peer.weights_digest, "peer_block": peer and peer.block,
        "peer_extrinsic_index": peer and peer.extrinsic_index, "peer_genesis": peer and peer.genesis,
        "statistic": _STATISTIC, "value": 0.0 if alone else 1.0, "threshold": 1.0, "threshold_version": THRESHOLD_VERSION, "detail": detail,
    }
