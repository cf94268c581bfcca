"""Whose weights are whose: the origin submission of each weights digest, from fingerprints and the newest kinship verdicts.

A late admission of an earlier commitment changes the answer from that epoch on, and with it whom a credit belongs to. What
must not go in: making a verdict (``kinship/``): this only follows those that were made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from affine_dagster.tables import Table

__all__ = [
    "MODELS", "ORIGIN_COLUMNS", "VERDICT_COLUMNS", "Origin", "OriginIndex", "OriginsAt", "by_position", "origin_models", "origins_of",
]

MODELS = Table(
    "models",
    {
        "weights_digest": pl.String, "origin_digest": pl.String, "submission_id": pl.String, "hotkey": pl.String, "repo": pl.String,
        "revision": pl.String, "block": pl.Int64, "extrinsic_index": pl.Int64, "genesis": pl.Boolean,
    },
    key=("weights_digest",),
)
"""One row a weights digest with a settled origin: an :class:`Origin`. Derived, never stored."""

Row = Mapping[str, Any]
Position = tuple[int, int, str, str]
_UNKNOWN = 2**62


def by_position(row: Row) -> Position:
    """The sort key of commit order; an unknown block or index comes last, equal positions are ordered by submission."""
    return _position(row["block"], row["extrinsic_index"], row["submission_id"], row["weights_digest"])


def _position(block: int | None, index: int | None, submission: str, weights: str) -> Position:
    return (_UNKNOWN if block is None else int(block), _UNKNOWN if index is None else int(index), str(submission), str(weights))


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a weights digest: the submission it belongs to, its owner and position.

    ``origin_digest`` is the origin's own weights digest: another one where the same tensors go by other names. Such a copy never runs.
    """

    weights_digest: str
    origin_digest: str
    submission_id: str
    hotkey: str | None
    repo: str
    revision: str
    block: int | None
    extrinsic_index: int | None
    genesis: bool

    @property
    def position(self) -> Position:
        """The place in commit order; see :func:`by_position`."""
        return _position(self.block, self.extrinsic_index, self.submission_id, self.weights_digest)


def origins_of(models: pl.DataFrame) -> dict[str, Origin]:
    """The rows of a MODELS frame by weights digest."""
    return {row["weights_digest"]: Origin(**row) for row in models.iter_rows(named=True)}


def origin_models(fingerprints: pl.DataFrame, kinship: pl.DataFrame) -> pl.DataFrame:
    """The MODELS frame of all FINGERPRINTS and KINSHIP rows so far, sorted by weights digest; see :class:`OriginIndex`."""
    index = OriginIndex()
    epochs = sorted({*fingerprints["epoch"], *kinship["epoch"]})
    for epoch in epochs:
        index.add(epoch, fingerprints.filter(pl.col("epoch") == epoch), kinship.filter(pl.col("epoch") == epoch))
    found = index.at(max(epochs, default=0))
    return MODELS.frame(found[digest] for digest in sorted(found))


@dataclass(frozen=True, slots=True)
class _Submission:
    """What is read of a FINGERPRINTS row."""

    submission_id: str
    hotkey: str | None
    repo: str
    revision: str
    block: int | None
    extrinsic_index: int | None
    genesis: bool
    weights_digest: str
    tensor_set_digest: str

    @property
    def position(self) -> Position:
        return _position(self.block, self.extrinsic_index, self.submission_id, self.weights_digest)

    def origin_of(self, weights_digest: str) -> Origin:
        return Origin(
            weights_digest, self.weights_digest, self.submission_id, self.hotkey, self.repo, self.revision, self.block,
            self.extrinsic_index, self.genesis,
        )


ORIGIN_COLUMNS = ("epoch", *_Submission.__dataclass_fields__)
"""The columns of FINGERPRINTS that are read."""

VERDICT_COLUMNS = ("epoch", "submission_id", "verdict", "peer_submission_id")
"""The columns of KINSHIP that are read."""


class OriginIndex:
    """The origins of all epochs, brought up to date an epoch at a time at the cost of what is new in it.

    The newest verdict of a submission counts: ``origin`` stands for itself, ``exact_copy`` for its peer, anything else (and a
    submission without a verdict) for nobody. Genesis stands for itself, or for the first genesis model of the same tensors.
    Of several the earliest position is the origin.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Submission] = {}
        self._verdicts: dict[str, tuple[str, str | None]] = {}
        self._copies: dict[str, set[str]] = defaultdict(set)
        self._by_weights: dict[str, set[str]] = defaultdict(set)
        self._genesis: dict[str, _Submission] = {}
        self._found: dict[str, list[tuple[int, Origin | None]]] = {}
        self._left: set[str] = set()
        self._epoch = -1

    def add(self, epoch: int, fingerprints: pl.DataFrame, kinship: pl.DataFrame) -> None:
        """Take in the FINGERPRINTS and KINSHIP rows of one epoch. Epochs come in ascending order."""
        if epoch <= self._epoch:
            raise ValueError(f"epoch {epoch} after {self._epoch}")
        self._epoch = epoch
        changed = [*self._read(fingerprints), *self._heard(kinship)]
        reached = {self._known[one].weights_digest for one in self._reached(changed) if one in self._known}
        for digest in reached | self._left:
            self._settle(epoch, digest)
        self._left = set()

    def at(self, epoch: int) -> OriginsAt:
        """The origins as known in an epoch that has been added, or in any earlier one."""
        return OriginsAt(self._found, epoch)

    def _read(self, fingerprints: pl.DataFrame) -> Iterator[str]:
        rows = [_Submission(*row) for row in fingerprints.sort("submission_id").select(ORIGIN_COLUMNS[1:]).iter_rows()]
        for one in rows:
            before = self._known.get(one.submission_id)
            if before is not None and before.weights_digest != one.weights_digest:
                self._by_weights[before.weights_digest].discard(one.submission_id)
                self._left.add(before.weights_digest)
            self._known[one.submission_id] = one
            self._by_weights[one.weights_digest].add(one.submission_id)
            if one.genesis:
                held = self._genesis.get(one.tensor_set_digest)
                if held is None or one.position < held.position:
                    self._genesis[one.tensor_set_digest] = one
                    yield from (other.submission_id for other in self._known.values() if other.genesis)
        yield from (one.submission_id for one in rows)

    def _heard(self, kinship: pl.DataFrame) -> Iterator[str]:
        for submission, verdict, peer in kinship.select(VERDICT_COLUMNS[1:]).iter_rows():
            before = self._verdicts.get(submission)
            if before is not None and before[1] is not None:
                self._copies[before[1]].discard(submission)
            self._verdicts[submission] = (verdict, peer)
            if peer is not None:
                self._copies[peer].add(submission)
            yield submission

    def _reached(self, changed: Iterable[str]) -> set[str]:
        """These submissions, and those whose chain of copies runs through one of them."""
        found, waiting = set(), list(changed)
        while waiting:
            submission = waiting.pop()
            if submission not in found:
                found.add(submission)
                waiting.extend(self._copies.get(submission, ()))
        return found

    def _settle(self, epoch: int, digest: str) -> None:
        origins = [origin for one in self._by_weights[digest] if (origin := self._origin(one)) is not None]
        first = min(origins, key=lambda one: one.position, default=None)
        settled = None if first is None else first.origin_of(digest)
        before = self._found.setdefault(digest, [])
        if not before or before[-1][1] != settled:
            before.append((epoch, settled))

    def _origin(self, submission: str) -> _Submission | None:
        """The end of the chain of copies (case P5); None where it is not settled, or runs in a circle."""
        seen: set[str] = set()
        while submission in self._known and submission not in seen:
            seen.add(submission)
            verdict, peer = self._verdicts.get(submission, ("", ""))
            if self._known[submission].genesis:
                return self._genesis[self._known[submission].tensor_set_digest]
            if verdict == "origin":
                return self._known[submission]
            if verdict != "exact_copy" or peer is None:
                return None
            submission = peer
        return None


class OriginsAt(Mapping[str, Origin]):
    """The origins by weights digest as they were known in one epoch; later epochs that the index takes in do not change it."""

    def __init__(self, found: Mapping[str, list[tuple[int, Origin | None]]], epoch: int) -> None:
        self._found = found
        self._epoch = epoch

    def get(self, weights_digest: str, default: Any = None) -> Any:
        """The origin, or ``default``: at half the cost of what a mapping brings along, in the innermost loop of a replay."""
        origin = self._held(weights_digest)
        return default if origin is None else origin

    def _held(self, weights_digest: str) -> Origin | None:
        held = self._found.get(weights_digest, ())
        for at in range(len(held) - 1, -1, -1):
            since, origin = held[at]
            if since <= self._epoch:
                return origin
        return None

    def __getitem__(self, weights_digest: str) -> Origin:
        origin = self._held(weights_digest)
        if origin is None:
            raise KeyError(weights_digest)
        return origin

    def __contains__(self, weights_digest: object) -> bool:
        return self._held(str(weights_digest)) is not None

    def __iter__(self) -> Iterator[str]:
        return (digest for digest in self._found if digest in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
