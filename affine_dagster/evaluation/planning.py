"""The evaluation plan: who runs against whom on how many tasks in an epoch, at which alpha, and who does not run and why.

A pure function of frames and settings; the caller freezes the result, so that a re-run of the epoch runs the same. What must
not go in: reading or writing tables (``inputs.py``), running anything, and the arithmetic of a contest (``scoring/``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from affine_dagster.chain.owners import owner_clusters
from affine_dagster.evaluation.owners import OwnerBook
from affine_dagster.evaluation.tasksets import ASSAY, CONTEST
from affine_dagster.scoring.contest import ContestRule
from affine_dagster.scoring.histogram import Histogram
from affine_dagster.settings import ScoringSettings, Settings, scorer_version
from affine_dagster.tables import PLAN

__all__ = ["PlanInputs", "make_plan"]

_MIN_PAIR_TASKS = 200
_LEAST_DISCORDANCE = 0.5
"""Share of ``scoring.discordance`` that is planned at least. The bets' multipliers cover a factor of two: laid for a discordance much
under the true one they lose whatever the gain, and members that answer nearly alike would plan just that for everybody else."""
_MODEL_COLUMNS = ("weights_digest", "submission_id", "hotkey", "repo", "revision", "block", "extrinsic_index", "genesis")
_ENDED = {"futile": "futile", "regressed": "regressed", "expired": "expired_undecided"}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class PlanInputs:
    """All that a plan is made from. Frames are of the named table and cover every epoch up to this one unless said otherwise.

    ``frontier``: the rows of ``prior_epoch`` alone, or None before the first one. ``contests``, ``evidence``: up to
    ``prior_epoch``. ``plans``: those before this epoch. ``epochs``: at least this epoch and those of ``plans``.
    """

    epoch: int
    prior_epoch: int | None
    epochs: pl.DataFrame
    submissions: pl.DataFrame
    swaps: pl.DataFrame
    admissions: pl.DataFrame
    fingerprints: pl.DataFrame
    kinship: pl.DataFrame
    frontier: pl.DataFrame | None
    contests: pl.DataFrame
    evidence: pl.DataFrame
    plans: pl.DataFrame


def make_plan(inputs: PlanInputs, settings: Settings) -> pl.DataFrame:
    """The epoch's plan (PLAN), in the order: incumbents, challengers by age, those not run, assays.

    A challenger is the origin of its weights, is not accepted yet, is its hotkey's present model, and has no ended contest
    with a present incumbent. It keeps the alpha and the discordance of its first plan, since its evidence goes on. Incumbents
    run only if a challenger does. The oldest ``max_models_per_epoch`` run; one that was planned ``max_epochs`` times without an
    end (its workers die, its results are missing) gets only room that all others leave, so that none can hold a place for ever.
    First tries begin in the order of age: while an older one is held back no newer one begins, whoever owns it, or a noisy copy
    could be accepted first and its original would have to beat it.
    """
    books = _Books.of(inputs, settings)
    incumbents = _incumbents(inputs)
    challengers = list(_challengers(inputs, settings, books, [row["weights_digest"] for row in incumbents]))
    common = {"epoch": inputs.epoch, "prior_epoch": inputs.prior_epoch, "scorer": scorer_version(settings)}
    rows: list[dict[str, Any]] = []
    if any(row["planned"] for row in challengers):
        rows += [_incumbent_row(row, inputs.epoch, settings) for row in incumbents]
    rows += sorted(challengers, key=lambda row: not row["planned"])
    rows += _assays(inputs, settings)
    return PLAN.frame(row | common for row in rows)


@dataclass(frozen=True)
class _Books:
    """The inputs by the keys that the plan looks things up by; the newest row counts."""

    current_of_hotkey: Mapping[str, str]
    tensor_set: Mapping[str, str]
    accepted_tensor_sets: frozenset[str]
    contests: Mapping[tuple[str, str], Row]
    first_plan: Mapping[str, Row]
    times_planned: Mapping[str, int]
    discordance: float | None

    @classmethod
    def of(cls, inputs: PlanInputs, settings: Settings) -> _Books:
        prints = _by_age(inputs.fingerprints)
        tensor_set = dict(prints.select("submission_id", "tensor_set_digest").iter_rows())
        by_weights = dict(prints.select("weights_digest", "tensor_set_digest").iter_rows())
        admitted = _by_age(_newest(inputs.admissions, "submission_id").filter(pl.col("state") == "admitted"))
        current = {row["hotkey"]: row["submission_id"] for row in admitted.iter_rows(named=True) if row["submission_id"] in tensor_set}
        members = [] if inputs.frontier is None else inputs.frontier["weights_digest"].to_list()
        genesis = prints.filter("genesis")["weights_digest"].to_list()
        tried = inputs.plans.filter((pl.col("role") == "challenger") & pl.col("planned")).sort("epoch")
        pairs = _newest(inputs.contests, "challenger", "incumbent")
        return cls(
            current_of_hotkey={hotkey: tensor_set[submission] for hotkey, submission in current.items()},
            tensor_set=tensor_set,
            accepted_tensor_sets=frozenset(by_weights.get(digest, digest) for digest in [*members, *genesis]),
            contests={(row["challenger"], row["incumbent"]): row for row in pairs.iter_rows(named=True)},
            first_plan={row["weights_digest"]: row for row in tried.reverse().iter_rows(named=True)},
            times_planned=Counter(tried["weights_digest"].to_list()),
            discordance=_expected_discordance(inputs.evidence, frozenset(members), settings.scoring),
        )


def _newest(frame: pl.DataFrame, *key: str) -> pl.DataFrame:
    return frame.sort("epoch").unique(subset=list(key), keep="last", maintain_order=True)


def _by_age(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort("block", "extrinsic_index", "submission_id", nulls_last=True)


def _genesis(inputs: PlanInputs) -> pl.DataFrame:
    """The genesis models in the order of the settings; equal weights count once."""
    rows = _by_age(_newest(inputs.fingerprints, "submission_id").filter("genesis"))
    return rows.unique(subset="tensor_set_digest", keep="first", maintain_order=True)


def _incumbents(inputs: PlanInputs) -> Sequence[Row]:
    members = _genesis(inputs) if inputs.frontier is None else _by_age(inputs.frontier.filter("incumbent"))
    return members.select(_MODEL_COLUMNS).to_dicts()


def _incumbent_row(model: Row, epoch: int, settings: Settings) -> dict[str, Any]:
    reason = "genesis" if model["genesis"] else "accepted"
    return _row(model, role="incumbent", purpose=CONTEST, task_epoch=epoch, tasks=settings.evaluation.tasks_per_epoch, reason=reason)


def _row(model: Row, *, role: str, purpose: str, task_epoch: int, tasks: int, reason: str) -> dict[str, Any]:
    fixed = {name: model[name] for name in _MODEL_COLUMNS}
    return fixed | {
        "role": role, "purpose": purpose, "task_epoch": task_epoch, "opponents": [], "alpha": None, "discordance": None,
        "first_task": 0, "tasks": tasks, "tasks_before": 0, "epochs_before": 0, "planned": True, "reason": reason,
    }


def _challengers(inputs: PlanInputs, settings: Settings, books: _Books, opponents: Sequence[str]) -> Iterator[dict[str, Any]]:
    owners = OwnerBook.of(
        inputs.epoch, inputs.epochs, owner_clusters(inputs.submissions, inputs.swaps), books.first_plan, settings.scoring
    )
    room, deferred = settings.evaluation.max_models_per_epoch, False
    candidates = _candidates(inputs, books)
    for model in sorted(candidates, key=lambda row: books.times_planned.get(row["weights_digest"], 0) >= settings.evaluation.max_epochs):
        ended = _not_run(model, books, opponents)
        if ended is not None:
            yield _idle(model, inputs.epoch, opponents, ended)
            continue
        before = books.first_plan.get(model["weights_digest"])
        deferred = deferred or (before is None and owners.next_try(model["hotkey"]) is None)
        if before is None and deferred:
            yield _idle(model, inputs.epoch, opponents, "owner_deferred")
        elif room == 0:
            yield _idle(model, inputs.epoch, opponents, "waiting")
        else:
            room -= 1
            alpha = before["alpha"] if before is not None else owners.spend(model["hotkey"])
            discordance = before["discordance"] if before is not None else books.discordance or settings.scoring.discordance
            yield _running(model, inputs, settings, books, opponents=opponents, alpha=alpha, discordance=discordance)


def _candidates(inputs: PlanInputs, books: _Books) -> Sequence[Row]:
    """Origins that were never accepted, by age. Weights under several digests (other names) count once."""
    origins = _newest(inputs.kinship, "submission_id").filter(pl.col("verdict") == "origin")["submission_id"]
    admitted = _newest(inputs.admissions, "submission_id").filter(pl.col("state") == "admitted")["submission_id"]
    fresh = inputs.fingerprints.filter(
        pl.col("submission_id").is_in(origins.implode())
        & pl.col("submission_id").is_in(admitted.implode())
        & ~pl.col("tensor_set_digest").is_in(list(books.accepted_tensor_sets))
        & ~pl.col("genesis")
    )
    by_age = _by_age(fresh).unique(subset="tensor_set_digest", keep="first", maintain_order=True)
    return by_age.select(_MODEL_COLUMNS).to_dicts()


def _not_run(model: Row, books: _Books, opponents: Sequence[str]) -> str | None:
    """Why a candidate is out for good against the present incumbents, or for as long as its hotkey's newer model stands."""
    if books.current_of_hotkey.get(model["hotkey"]) != books.tensor_set[model["submission_id"]]:
        return "superseded"
    states = [books.contests[pair]["state"] for pair in ((model["weights_digest"], other) for other in opponents) if pair in books.contests]
    return next((_ENDED[state] for state in ("regressed", "futile", "expired") if state in states), None)


def _idle(model: Row, epoch: int, opponents: Sequence[str], reason: str) -> dict[str, Any]:
    row = _row(model, role="challenger", purpose=CONTEST, task_epoch=epoch, tasks=0, reason=reason)
    return row | {"opponents": list(opponents), "planned": False}


def _running(
    model: Row, inputs: PlanInputs, settings: Settings, books: _Books, *, opponents: Sequence[str], alpha: float, discordance: float
) -> dict[str, Any]:
    pairs = [books.contests.get((model["weights_digest"], other)) for other in opponents]
    used = [0 if pair is None else int(pair["tasks"]) for pair in pairs]
    epochs = [0 if pair is None else int(pair["epochs"]) for pair in pairs]
    limit = ContestRule.of(settings.scoring, settings.evaluation, alpha, discordance).task_limit
    tasks = max(1, min(settings.evaluation.tasks_per_epoch, limit - min(used, default=0)))
    row = _row(model, role="challenger", purpose=CONTEST, task_epoch=inputs.epoch, tasks=tasks, reason="evaluating")
    return row | {
        "opponents": list(opponents), "alpha": alpha, "discordance": discordance,
        "tasks_before": max(used, default=0), "epochs_before": max(epochs, default=0),
    }


def _expected_discordance(evidence: pl.DataFrame, members: Collection[str], scoring: ScoringSettings) -> float | None:
    """The discordance to plan new pairs with: the upper median over the accepted challengers' pairs of their most discordant environment.

    Only who improved the frontier has a say: whatever else is submitted moves nobody's plan. A pair counts from 200 tasks on; at least
    half of ``scoring.discordance`` is planned. None where no pair counts. It errs high (the worst environment; a winner's second moment
    holds its gain too), and a few odd models cannot move it (the median). It is fixed before the pair's own data, as the bets need.
    """
    least = _LEAST_DISCORDANCE * scoring.discordance
    largest: dict[tuple[str, str], float] = {}
    theirs = evidence.filter(pl.col("challenger").is_in(list(members)))
    for row in _newest(theirs, "challenger", "incumbent", "environment").iter_rows(named=True):
        histogram = Histogram.from_rows(row["histogram"], row["missing"])
        moment = histogram.second_moment
        if moment is not None and histogram.observed >= _MIN_PAIR_TASKS:
            pair = (row["challenger"], row["incumbent"])
            largest[pair] = max(moment, largest.get(pair, least))
    ordered = sorted(largest.values())
    return ordered[len(ordered) // 2] if ordered else None


def _assays(inputs: PlanInputs, settings: Settings) -> list[dict[str, Any]]:
    """Assays that are due: of genesis in the first epoch, later of every member without a complete one, with references.

    An assay goes on with the seeds it began with. The references are all members of earlier position that were members when it
    began, on the same seeds.
    """
    if inputs.frontier is None:
        members = _genesis(inputs).to_dicts()
        due = [(member, inputs.epoch) for member in members]
    else:
        members = _by_age(inputs.frontier).to_dicts()
        due = [
            (member, inputs.epoch if member["assay_epoch"] is None else member["assay_epoch"])
            for member in members if not member["assay_complete"]
        ]
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    size = settings.evaluation.assay_tasks
    for member, task_epoch in due:
        earlier = [other for other in members[: members.index(member)] if inputs.frontier is None or _was_there(other, task_epoch)]
        row = _row(member, role="assayed", purpose=ASSAY, task_epoch=task_epoch, tasks=size, reason="assaying")
        rows[member["weights_digest"], task_epoch] = row | {"opponents": [other["weights_digest"] for other in earlier]}
        for other in earlier:
            reference = _row(other, role="reference", purpose=ASSAY, task_epoch=task_epoch, tasks=size, reason="assaying")
            rows.setdefault((other["weights_digest"], task_epoch), reference)
    return list(rows.values())


def _was_there(member: Row, task_epoch: int) -> bool:
    return bool(member["genesis"]) or int(member["accepted_epoch"]) < task_epoch
