"""The frontier: who has entered, who made whom redundant, and each member's measured coordinates on the credit grid.

What must not go in: the verdict on a pair (``contest.py``) and what a member is paid (``credits.py``).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import polars as pl

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.contest import ContestState
from affine_dagster.scoring.histogram import MISSING, Histogram, Steps
from affine_dagster.scoring.intervals import reward_interval, surely_positive
from affine_dagster.scoring.models import Origin, by_position
from affine_dagster.scoring.rewards import checked_rewards, part, task_steps
from affine_dagster.settings import Settings
from affine_dagster.tables import FRONTIER

__all__ = ["Judged", "Member", "Now", "advance_frontier", "advance_members", "members_of"]

_OWNED = ("submission_id", "hotkey", "repo", "revision", "block", "extrinsic_index", "genesis")


@dataclass(frozen=True)
class Member:
    """A FRONTIER row. ``lower`` (v) and ``upper`` (u) are grid steps, one an environment of ``environments``."""

    epoch: int
    weights_digest: str
    genesis: bool
    submission_id: str
    hotkey: str | None
    repo: str
    revision: str
    block: int | None
    extrinsic_index: int | None
    accepted_epoch: int
    accepted_block: int
    incumbent: bool
    redundant_by: str | None
    environments: tuple[str, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    assay_epoch: int | None
    assay_tasks: int
    assay_complete: bool
    reason: str
    prior_epoch: int | None

    @property
    def position(self) -> tuple[int, int, str, str]:
        """The place in commit order."""
        return by_position(vars(self))


def members_of(frontier: pl.DataFrame) -> list[Member]:
    """The members of one epoch's FRONTIER rows in commit order."""
    lists = ("environments", "lower", "upper")
    rows = [row | {name: tuple(row[name]) for name in lists} for row in frontier.iter_rows(named=True)]
    return sorted((Member(**row) for row in rows), key=lambda member: member.position)


@dataclass(frozen=True)
class Now:
    """The epoch that is being made, and under which settings.

    ``withheld``: nobody is accepted and no assay is looked at; assays that are open begin again on fresh tasks, since the ledger keeps
    what the platform spoiled.
    """

    epoch: int
    boundary_block: int
    settings: Settings
    withheld: bool = False

    @property
    def environments(self) -> tuple[str, ...]:
        """The environments that members are measured on."""
        return self.settings.evaluation.environments

    def member(self, owner: Origin) -> Member:
        """A new member before any assay: v = 0 and u = grid everywhere."""
        width = len(self.environments)
        return Member(
            epoch=self.epoch, weights_digest=owner.weights_digest, **{name: getattr(owner, name) for name in _OWNED},
            accepted_epoch=self.epoch, accepted_block=self.boundary_block, incumbent=True, redundant_by=None,
            environments=self.environments, lower=(0,) * width, upper=(self.settings.scoring.grid,) * width,
            assay_epoch=None, assay_tasks=0, assay_complete=False, reason="", prior_epoch=None,
        )

    def carried(self, member: Member, owner: Origin | None) -> Member:
        """A member of the prior epoch under its present owner; one whose origin is under review keeps the last known one.

        An origin that was admitted late and holds the same tensors in another form owns the member, which runs as it was accepted:
        what the origin's own repository holds is another ``weights_digest``, that nobody has measured.
        """
        if member.environments != self.environments:
            raise AffineError("scorer_without_history", f"the prior frontier was measured on {', '.join(member.environments)}")
        if owner is None:
            return member
        owned = {name: getattr(owner, name) for name in _OWNED}
        if owner.origin_digest != member.weights_digest:
            owned |= {"repo": member.repo, "revision": member.revision}
        return _changed(member, **owned)


class Judged(Protocol):
    """Where a pair stands: what acceptance reads of it."""

    @property
    def state(self) -> str:
        """A value of ``ContestState``."""

    @property
    def strict(self) -> bool:
        """Better by the margin everywhere."""


class _Standing(NamedTuple):
    state: str
    strict: bool


def advance_frontier(
    prior: pl.DataFrame | None, contests: pl.DataFrame, plan: pl.DataFrame, models: Mapping[str, Origin], assays: pl.DataFrame, now: Now
) -> pl.DataFrame:
    """The FRONTIER rows of an epoch, in commit order: see :func:`advance_members`.

    ``prior``: the rows of the newest earlier epoch, None before the first (genesis enters then). ``contests``, ``plan``: rows of
    other epochs are ignored.
    """
    pairs = {
        (row["challenger"], row["incumbent"]): _Standing(row["state"], row["strict"])
        for row in contests.filter(pl.col("epoch") == now.epoch).iter_rows(named=True)
    }
    before = None if prior is None else members_of(prior)
    members = advance_members(before, pairs, plan, models, assays, now)
    prior_epoch = max([] if prior is None else prior["epoch"].to_list(), default=None)
    return FRONTIER.frame(dataclasses.replace(one, epoch=now.epoch, prior_epoch=prior_epoch, reason=_reason(one)) for one in members)


def advance_members(
    prior: Sequence[Member] | None, pairs: Mapping[tuple[str, str], Judged], plan: pl.DataFrame, models: Mapping[str, Origin],
    assays: pl.DataFrame, now: Now,
) -> list[Member]:
    """The members in commit order; one to whom nothing happened is the same object as before, with its old ``epoch``.

    ``prior``: those of the newest earlier epoch. ``pairs``: the epoch's contests by challenger and incumbent. ``models``: the
    origins as known in this epoch; a member's owner and position follow them. ``assays``: REWARDS of the assays that were open, of
    every epoch in which they ran.
    Raises ``scorer_without_history`` if ``prior`` was measured on other environments, ``bad_table`` on impossible rewards.
    """
    if prior is None:
        members = [now.member(one) for one in models.values() if one.genesis and one.origin_digest == one.weights_digest]
    else:
        members = [now.carried(member, models.get(member.weights_digest)) for member in prior]
    members = _by_commit(members)
    if now.withheld:
        return [one if one.assay_complete else dataclasses.replace(one, assay_epoch=None) for one in members]
    ours = plan.filter((pl.col("epoch") == now.epoch) & pl.col("planned"))
    return _by_commit(_accepted(_measured(members, ours, assays, now), ours, pairs, models, now))


def _changed(member: Member, **fields: Any) -> Member:
    """The member with these fields, itself where they are what they were."""
    same = all(getattr(member, name) == value for name, value in fields.items())
    return member if same else dataclasses.replace(member, **fields)


def _by_commit(members: Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda member: member.position)


def _reason(member: Member) -> str:
    if member.redundant_by is not None:
        return "redundant"
    if member.genesis:
        return "genesis"
    return "accepted" if member.assay_complete else "assaying"


# --- acceptance ---------------------------------------------------------------------------------------------------------------


def _accepted(
    members: list[Member], plan: pl.DataFrame, pairs: Mapping[tuple[str, str], Judged], models: Mapping[str, Origin], now: Now
) -> list[Member]:
    """The members with this epoch's winners, taken in commit order; each must have won against every incumbent at its turn.

    A copy of a member or of genesis never enters, nor do weights whose origin is not settled. Nobody enters an empty frontier:
    without genesis there is nobody to be better than, and the first to commit would be paid for being first.
    """
    planned = plan.filter((pl.col("role") == "challenger") & (pl.col("purpose") == "contest"))["weights_digest"].to_list()
    won = {challenger for (challenger, _), pair in pairs.items() if pair.state == ContestState.WON}
    owners = [models[digest] for digest in planned if digest in won and digest in models]
    for owner in sorted(owners, key=lambda one: one.position):
        if owner.genesis or owner.submission_id in {member.submission_id for member in members}:
            continue
        faced = [(member, pairs.get((owner.weights_digest, member.weights_digest))) for member in members if member.incumbent]
        if faced and all(pair is not None and pair.state == ContestState.WON for _, pair in faced):
            beaten = {member.weights_digest for member, pair in faced if pair is not None and pair.strict}
            members = [_made_redundant(member, owner) if member.weights_digest in beaten else member for member in members]
            members.append(now.member(owner))
    return members


def _made_redundant(member: Member, owner: Origin) -> Member:
    return dataclasses.replace(member, incumbent=False, redundant_by=owner.weights_digest)


# --- assays -------------------------------------------------------------------------------------------------------------------


def _measured(members: list[Member], plan: pl.DataFrame, assays: pl.DataFrame, now: Now) -> list[Member]:
    """The members with their open assays looked at, in commit order, so that a later one sees the earlier ones' coordinates."""
    begun = plan.filter((pl.col("role") == "assayed") & (pl.col("purpose") == "assay"))
    started = dict(begun.sort("task_epoch", descending=True).select("weights_digest", "task_epoch").iter_rows())
    if not started and all(one.assay_complete or one.assay_epoch is None for one in members):
        return members
    checked = checked_rewards(assays.filter((pl.col("purpose") == "assay") & (pl.col("epoch") <= now.epoch)), now.environments)
    runs = {int(key[0]): task_steps(rows) for key, rows in checked.group_by(["task_epoch"])}
    done: list[Member] = []
    for member in members:
        first = started.get(member.weights_digest) if member.assay_epoch is None else member.assay_epoch
        if member.assay_complete or first is None:
            done.append(member)
        else:
            opened = _changed(member, assay_epoch=first)
            done.append(_looked_at(opened, _references(opened, done), runs.get(first, {}), now.settings))
    return done


def _references(member: Member, earlier: Sequence[Member]) -> list[Member]:
    """Those of earlier position that were members when the assay began: one that is admitted later has no tasks on its seeds."""
    return [other for other in earlier if other.genesis or (member.assay_epoch or 0) > other.accepted_epoch]


def _looked_at(member: Member, references: Sequence[Member], runs: Mapping[tuple[str, str], Steps], settings: Settings) -> Member:
    """One look at an assay. v only rises and u only falls, so that no look lowers a credit; at the end u := v.

    (u := min(u, v): in the rare case that the looks' bounds have crossed, u must not rise, since later credits hang on it.)
    """
    tasks = settings.evaluation.assay_tasks
    cut = {key: steps[:tasks] for key, steps in runs.items()}
    bounds = [_bounds(member, references, cut, at, settings) for at in range(len(member.environments))]
    lower = tuple(max(old, new) for old, (new, _) in zip(member.lower, bounds, strict=True))
    upper = tuple(min(old, new) for old, (_, new) in zip(member.upper, bounds, strict=True))
    sides = [member.weights_digest, *(other.weights_digest for other in references)]
    whole = all(_whole(cut.get((digest, name)), settings) for digest in sides for name in member.environments)
    complete = whole and all(other.assay_complete for other in references)
    if complete:
        upper = tuple(min(pair) for pair in zip(lower, upper, strict=True))
    have = min(cut[key].size if (key := (member.weights_digest, name)) in cut else 0 for name in member.environments)
    return _changed(member, lower=lower, upper=upper, assay_tasks=have, assay_complete=complete)


def _whole(steps: Steps | None, settings: Settings) -> bool:
    """Whether a run has all its tasks, and results on enough of them."""
    tasks = settings.evaluation.assay_tasks
    return steps is not None and steps.size >= tasks and int((steps != MISSING).sum()) >= settings.evaluation.coverage_floor * tasks


def _bounds(
    member: Member, references: Sequence[Member], runs: Mapping[tuple[str, str], Steps], at: int, settings: Settings
) -> tuple[int, int]:
    """(v, u) of this look in one environment, in grid steps.

    v = floor(grid · lower bound), held to each earlier reference's v over which there is no sure gain on the same tasks;
    u = ceil(grid · upper bound). Bounds are multiples of 2**-21, so the products are exact.
    """
    name, grid, alpha = member.environments[at], settings.scoring.grid, settings.scoring.assay_alpha
    own = runs.get((member.weights_digest, name))
    if own is None:
        return 0, grid
    interval = reward_interval(Histogram.of_steps(own), alpha)
    lower, upper = math.floor(grid * interval.lower), math.ceil(grid * interval.upper)
    for other in references:
        paired = Histogram.of_pairs(own, part(runs, (other.weights_digest, name), 0, own.size))
        if other.lower[at] < lower and not surely_positive(paired, alpha):
            lower = other.lower[at]
    return lower, upper
