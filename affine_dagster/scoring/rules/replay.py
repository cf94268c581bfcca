"""History under a rule: epoch after epoch, who would have been paid, crowned or terminated, and where that cannot be told.

What must not go in: reading the ledger (the library's ``history.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import polars as pl

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.models import Origin
from affine_dagster.scoring.rule import EpochInputs
from affine_dagster.scoring.rules.champion_challenger import ChampionChallenger
from affine_dagster.scoring.rules.checkpoints import Checkpoints
from affine_dagster.scoring.rules.elo_ladder import EloLadder
from affine_dagster.scoring.rules.four_stage import FourStage
from affine_dagster.scoring.rules.frontier_credits import FrontierCreditsReplay
from affine_dagster.scoring.rules.matrix import Entrant, TaskMatrix, task_matrix
from affine_dagster.scoring.rules.protocol import ReplayedRule, Round, Ruling
from affine_dagster.scoring.rules.ranks import DenseRank, Supermajority
from affine_dagster.scoring.rules.subset_winners import SubsetWinners
from affine_dagster.scoring.weights import TOTAL, apportion
from affine_dagster.settings import Settings
from affine_dagster.tables import REPLAYED, REWARDS

__all__ = ["EARLIER_RULES", "EntrantIndex", "PastEpoch", "present_entrants", "replay", "rules_named"]

EARLIER_RULES: Mapping[str, ReplayedRule[Any]] = {
    rule.name: rule
    for rule in (DenseRank(), Supermajority(), SubsetWinners(), FourStage(), EloLadder(), Checkpoints(), ChampionChallenger())
}
"""The subnet's rules from July 2025 to July 2026, in that order."""

_FACTOR = 2**48


@dataclass(frozen=True)
class PastEpoch:
    """What is known of one epoch. ``entrants``: each registered hotkey with a model, once. ``sink``: the hotkey of uid 0."""

    inputs: EpochInputs
    entrants: tuple[Entrant, ...]
    sink: str


def rules_named(names: Sequence[str], settings: Settings) -> list[ReplayedRule[Any]]:
    """The rules of those names in the order of history, ours last, under ``settings``; ``all`` is all of them.

    Raises ``bad_settings`` for an unknown name.
    """
    rules = {**EARLIER_RULES, FrontierCreditsReplay.name: FrontierCreditsReplay(settings)}
    unknown = sorted(set(names) - {"all", *rules})
    if unknown or not names:
        raise AffineError("bad_settings", f"rules: {', '.join(unknown) or 'none'}; there are all, {', '.join(rules)}")
    return [rule for name, rule in rules.items() if "all" in names or name in names]


class EntrantIndex:
    """Each hotkey's newest model, brought up to date an epoch at a time at the cost of what is new in it."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[tuple[int, int, str], str]] = {}

    def add(self, fingerprints: pl.DataFrame) -> None:
        """Take in the FINGERPRINTS rows of one more epoch."""
        own = fingerprints.filter(~pl.col("genesis")).select("hotkey", "weights_digest", "block", "extrinsic_index", "submission_id")
        for hotkey, digest, block, index, submission in own.iter_rows():
            place = (int(block), int(index), submission)
            if hotkey not in self._newest or self._newest[hotkey][0] < place:
                self._newest[hotkey] = (place, digest)

    def present(self, models: Mapping[str, Origin], neurons: pl.DataFrame) -> tuple[Entrant, ...]:
        """Each registered hotkey with the newest model that it committed, in the earlier rules' commit order.

        ``models``: the origins as known in the epoch; ``neurons``: NEURONS of the epoch. The earlier rules knew no origin, so a copy takes
        part; it has the results of its origin, since it was not run.
        """
        found = []
        for hotkey, uid in zip(neurons["hotkey"].to_list(), neurons["uid"].to_list(), strict=True):
            newest = self._newest.get(hotkey)
            if newest is not None:
                (block, _, _), digest = newest
                origin = models.get(digest)
                found.append((block, uid, hotkey, digest if origin is None else origin.origin_digest))
        return tuple(Entrant(hotkey, digest, block, uid) for block, uid, hotkey, digest in sorted(found))


def present_entrants(fingerprints: pl.DataFrame, models: Mapping[str, Origin], neurons: pl.DataFrame) -> tuple[Entrant, ...]:
    """The entrants of one epoch, from all FINGERPRINTS rows so far: see :class:`EntrantIndex`."""
    index = EntrantIndex()
    index.add(fingerprints)
    return index.present(models, neurons)


def replay(
    rules: Sequence[ReplayedRule[Any]], epochs: Iterable[PastEpoch], environments: Sequence[str], sampling_count: int
) -> Iterator[pl.DataFrame]:
    """The REPLAYED rows of each epoch in turn, rule by rule, each rule's state carried from one epoch to the next.

    ``sampling_count``: tasks an environment of a window. Raises ``bad_table`` on impossible rewards.
    """
    states = {rule.name: rule.begin() for rule in rules}
    windows = {rule.window_blocks: _Window(rule.window_blocks) for rule in rules}
    for past in epochs:
        matrices = {}
        for blocks, window in windows.items():
            window.add(past)
            matrices[blocks] = cache(partial(_matrix, window.frames(), past.entrants, environments))
        frames = []
        for rule in rules:
            given = Round(past.inputs, past.entrants, past.sink, sampling_count, matrices[rule.window_blocks])
            ruling = rule.advance(states[rule.name], given)
            states[rule.name] = ruling.state
            frames.append(_rows(rule, past, ruling))
        yield pl.concat([REPLAYED.empty(), *frames])


class _Window:
    """The rewards that still count."""

    def __init__(self, blocks: int | None) -> None:
        self._blocks = blocks
        self._kept: list[tuple[int, pl.DataFrame]] = []

    def add(self, past: PastEpoch) -> None:
        """One more epoch; what lies further back than the window is let go."""
        if self._blocks is not None:
            self._kept = [one for one in self._kept if past.inputs.boundary_block - one[0] < self._blocks]
        self._kept.append((past.inputs.boundary_block, past.inputs.rewards))

    def frames(self) -> tuple[pl.DataFrame, ...]:
        """REWARDS rows of the window, an epoch each; a task that several epochs ran stands once an epoch (its key has the epoch in it)."""
        return tuple(frame for _, frame in self._kept)


def _matrix(frames: Sequence[pl.DataFrame], entrants: Sequence[Entrant], environments: Sequence[str]) -> TaskMatrix:
    return task_matrix(pl.concat([REWARDS.empty(), *frames]), entrants, environments)


def _rows(rule: ReplayedRule[Any], past: PastEpoch, ruling: Ruling[Any]) -> pl.DataFrame:
    placed = sorted(ruling.placings, key=lambda one: one.hotkey)
    shares = {one.hotkey: round(one.share * _FACTOR) for one in placed}
    weights = apportion(shares, TOTAL) if any(shares.values()) else dict.fromkeys(shares, 0)
    hotkeys = [one.hotkey for one in placed]
    columns: dict[str, Sequence[object]] = {
        "epoch": [past.inputs.epoch] * len(placed), "rule": [rule.name] * len(placed), "version": [rule.version] * len(placed),
        "hotkey": hotkeys, "weights_digest": [one.weights_digest for one in placed], "weight": [weights[hotkey] for hotkey in hotkeys],
        "share": [weights[hotkey] / TOTAL for hotkey in hotkeys], "crowned": [hotkey in ruling.crowned for hotkey in hotkeys],
        "terminated": [hotkey in ruling.terminated for hotkey in hotkeys], "reason": [one.reason for one in placed],
        "detail": [one.detail for one in placed], "coverage": [one.coverage for one in placed],
    }
    return REPLAYED.check(pl.DataFrame(columns, schema_overrides=REPLAYED.schema))
