"""Admission of an epoch: new submissions and those deferred before, one row each, whatever is wrong with any of them.

What must not go in: what makes a model admissible (``judging.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

import polars as pl

from affine_dagster.admission.files import load_names
from affine_dagster.admission.judging import Admitted, judge
from affine_dagster.chain.owners import owner_clusters
from affine_dagster.checkpoint.template import effective_template, template_hash
from affine_dagster.checkpoint.tokenizer import tokenizer_rewriting
from affine_dagster.hub.port import Hub
from affine_dagster.reasons import AffineError, Fault
from affine_dagster.settings import AdmissionSettings, Settings
from affine_dagster.tables import ADMISSIONS, SUBMISSIONS, SWAPS

__all__ = ["admit", "genesis_texts"]

_MAX_DETAIL = 1000
_CARRIED = ("submission_id", "hotkey", "repo", "revision", "block", "extrinsic_index")


@dataclass(frozen=True)
class _Waiting:
    """A submission to be judged: its row's own columns, the epoch it first came in, how often it was deferred."""

    columns: dict[str, object]
    first_epoch: int
    deferrals: int

    @property
    def revision(self) -> tuple[str, str]:
        """The repository and revision: what is judged, and what a budget counts."""
        return str(self.columns["repo"]), str(self.columns["revision"])

    @property
    def position(self) -> tuple[object, ...]:
        """The place in commit order; an unknown index comes last in its block."""
        index = self.columns["extrinsic_index"]
        return self.columns["block"], index is None, index, self.columns["submission_id"]


@dataclass(frozen=True)
class _Outcome:
    admitted: Admitted | None
    code: str
    fault: Fault | None
    detail: str


_NOT_THIS_EPOCH = _Outcome(None, "admission_budget", None, "")


def genesis_texts(hub: Hub, settings: Settings) -> frozenset[str]:
    """Hashes of the genesis models' templates and of what their tokenizers rewrite. Raises AffineError when one cannot be read."""
    hashes: set[str] = set()
    for model in settings.scoring.genesis:
        names = load_names(hub.files(model.repo, model.revision))
        folder = hub.folder(model.repo, model.revision, names)
        hashes |= {template_hash(effective_template(folder)), tokenizer_rewriting(folder)}
    return frozenset(hashes)


def admit(
    hub: Hub,
    settings: Settings,
    submissions: pl.DataFrame,
    earlier: pl.DataFrame,
    epoch: int,
    texts: AbstractSet[str] | None = None,
    swaps: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Judge the SUBMISSIONS (state submitted) up to ``epoch`` that have no verdict, and those that are deferred.

    ``submissions`` may be this epoch's or all so far; of ``earlier`` (ADMISSIONS, all so far) the newest row of each submission
    before ``epoch`` counts, and what ``epoch`` itself has decided stands: a verdict is made once, whatever the hub says when the
    epoch is run again (case O7). ``texts`` are the genesis models' (None: :func:`genesis_texts`, if they are
    needed; raises AffineError when a genesis model cannot be read). Of the revisions ``admission.revisions_per_epoch`` are judged, owners
    in turn (:func:`_in_turn`; ``swaps``: SWAPS so far, None: none); the others are deferred as ``admission_budget``, which counts as
    no deferral. Returns ADMISSIONS rows of ``epoch``, sorted by position. A
    submission that cannot be judged never stops another: a known reason gives its row, an error of our own a deferred row.
    """
    allowed = texts
    if allowed is None:
        needed = "genesis" in (settings.admission.templates, settings.admission.tokenizers)
        allowed = genesis_texts(hub, settings) if needed else frozenset[str]()
    verdicts: dict[tuple[str, str], _Outcome] = {}
    decided = earlier.filter((pl.col("epoch") == epoch) & (pl.col("state") != "deferred")).to_dicts()
    stands: dict[object, dict[str, object]] = {row["submission_id"]: row for row in decided}
    rows: list[dict[str, object]] = []
    owners = owner_clusters(submissions, SWAPS.empty() if swaps is None else swaps)
    spent: set[tuple[str, str]] = set()
    for waiting in _in_turn(_waiting(submissions, earlier, epoch), owners):
        key = waiting.revision
        if (verdict := stands.get(waiting.columns["submission_id"])) is not None:
            spent.add(key)
            rows.append(verdict)
        elif key not in spent and len(spent) >= settings.admission.revisions_per_epoch:
            rows.append(_row(waiting, _NOT_THIS_EPOCH, epoch, settings))
        else:
            spent.add(key)
            if key not in verdicts:
                verdicts[key] = _outcome(partial(judge, hub, settings.admission, *key, allowed))
            rows.append(_row(waiting, verdicts[key], epoch, settings))
    return ADMISSIONS.frame(rows).sort("block", "extrinsic_index", "submission_id", nulls_last=True)


def _waiting(submissions: pl.DataFrame, earlier: pl.DataFrame, epoch: int) -> list[_Waiting]:
    judged = ADMISSIONS.check(_newest(earlier.filter(pl.col("epoch") < epoch)))
    known = SUBMISSIONS.check(_newest(submissions.filter(pl.col("epoch") <= epoch))).filter(pl.col("state") == "submitted")
    new = known.filter(~pl.col("submission_id").is_in(judged["submission_id"].to_list()))
    again = judged.filter(pl.col("state") == "deferred")
    return [_Waiting({name: row[name] for name in _CARRIED}, row["first_epoch"], row["deferrals"]) for row in again.to_dicts()] + [
        _Waiting({name: row[name] for name in _CARRIED}, epoch, 0) for row in new.to_dicts()
    ]


def _in_turn(waiting: Sequence[_Waiting], owners: Mapping[str, str]) -> list[_Waiting]:
    """Each owner's oldest by position, then each owner's second, and so on.

    Who floods waits for himself. Nobody starves: an owner's oldest stands before all that is committed after it.
    """
    turns: Counter[str] = Counter()
    placed: list[tuple[int, _Waiting]] = []
    for one in sorted(waiting, key=lambda one: one.position):
        owner = owners.get(str(one.columns["hotkey"]), str(one.columns["hotkey"]))
        placed.append((turns[owner], one))
        turns[owner] += 1
    return [one for _, one in sorted(placed, key=lambda place: place[0])]


def _newest(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sort("epoch", maintain_order=True).unique("submission_id", keep="last", maintain_order=True)


def _outcome(work: Callable[[], Admitted]) -> _Outcome:
    try:
        return _Outcome(work(), "admitted", None, "")
    except AffineError as error:
        return _Outcome(None, error.code, error.reason.fault, error.detail)
    except Exception as error:
        # a fault of our own code must not cost the miner, nor the others: it is written down and tried again
        return _Outcome(None, "admission_failed", Fault.EVALUATOR, f"{type(error).__name__}: {error}")


def _row(waiting: _Waiting, outcome: _Outcome, epoch: int, settings: Settings) -> dict[str, object]:
    outcome = _graced(outcome, epoch - waiting.first_epoch < settings.hub.grace_epochs)
    state, deferrals = _state(outcome, waiting.deferrals, settings.admission)
    if state == "rejected" and outcome.fault is not Fault.MODEL:
        last = f"deferred {deferrals} times, last for {outcome.code}: {outcome.detail}"
        outcome = _Outcome(None, "expired_deferred", outcome.fault, last)
    admitted = outcome.admitted
    return {
        **waiting.columns, "epoch": epoch, "state": state, "reason": outcome.code,
        "fault": None if outcome.fault is None else str(outcome.fault),
        "detail": outcome.detail.encode("utf-8", "replace").decode()[:_MAX_DETAIL],
        "deferrals": deferrals, "first_epoch": waiting.first_epoch,
        "manifest_digest": admitted and admitted.manifest_digest, "weights_bytes": admitted and admitted.weights_bytes,
        "files": admitted and [{"name": file.name, "bytes": file.bytes, "blake3": file.blake3} for file in admitted.files],
        "architecture": admitted and admitted.architecture, "parameters": admitted and admitted.parameters,
        "template_hash": admitted and admitted.template_hash, "tokenizer_signature": admitted and admitted.tokenizer_signature,
    }


def _graced(outcome: _Outcome, in_grace: bool) -> _Outcome:
    """A revision that is not found may have been pushed minutes ago (case H22); a deliberate state such as gated gets no grace."""
    if outcome.code == "not_found" and in_grace:
        return _Outcome(None, "not_found_yet", Fault.HUB, outcome.detail)
    return outcome


def _state(outcome: _Outcome, deferrals: int, settings: AdmissionSettings) -> tuple[str, int]:
    """State and deferrals so far: what is not the miner's fault is deferred, ``max_deferrals`` times."""
    if outcome.admitted is not None:
        return "admitted", deferrals
    if outcome is _NOT_THIS_EPOCH:
        return "deferred", deferrals
    if outcome.fault is Fault.MODEL or deferrals >= settings.max_deferrals:
        return "rejected", deferrals
    return "deferred", deferrals + 1
