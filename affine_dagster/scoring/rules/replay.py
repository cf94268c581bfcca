"""History under a rule: epoch after epoch, who would have been paid, crowned or terminated, and where that cannot be told.

What must not go in: reading the ledger (the library's ``history.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.rule import EpochInputs
from affine_dagster.scoring.rules.champion_challenger import ChampionChallenger
from affine_dagster.scoring.rules.checkpoints import Checkpoints
from affine_dagster.scoring.rules.elo_ladder import EloLadder
from affine_dagster.scoring.rules.four_stage import FourStage
from affine_dagster.scoring.rules.frontier_credits import FrontierCreditsReplay
from affine_dagster.scoring.rules.matrix import Entrant, task_matrix
from affine_dagster.scoring.rules.protocol import Placing, ReplayedRule, Round, Ruling
from affine_dagster.scoring.rules.ranks import DenseRank, Supermajority
from affine_dagster.scoring.rules.subset_winners import SubsetWinners
from affine_dagster.scoring.weights import TOTAL, apportion
from affine_dagster.settings import Settings
from affine_dagster.tables import REPLAYED, REWARDS

__all__ = ["EARLIER_RULES", "PastEpoch", "present_entrants", "replay", "rules_named"]

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


def present_entrants(fingerprints: pl.DataFrame, models: pl.DataFrame, neurons: pl.DataFrame) -> tuple[Entrant, ...]:
    """Each registered hotkey with the newest model that it committed, in the earlier rules' commit order.

    ``fingerprints``, ``models``: FINGERPRINTS and MODELS as known in the epoch; ``neurons``: NEURONS of the epoch. The earlier rules knew
    no origin, so a copy takes part; it has the results of its origin, since it was not run.
    """
    ran = dict(models.select("weights_digest", "origin_digest").iter_rows())
    uids = dict(neurons.select("hotkey", "uid").iter_rows())
    own = fingerprints.filter(pl.col("hotkey").is_in(list(uids)) & ~pl.col("genesis"))
    newest = own.sort("block", "extrinsic_index", "submission_id").unique("hotkey", keep="last", maintain_order=True)
    rows = newest.select("hotkey", "weights_digest", "block").iter_rows()
    found = [Entrant(hotkey, ran.get(digest, digest), int(block), int(uids[hotkey])) for hotkey, digest, block in rows]
    return tuple(sorted(found, key=lambda one: (*one.position, one.hotkey)))


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
            matrices[blocks] = task_matrix(window.rewards(), past.entrants, environments)
        frames = []
        for rule in rules:
            ruling = rule.advance(states[rule.name], Round(past.inputs, matrices[rule.window_blocks], past.sink, sampling_count))
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

    def rewards(self) -> pl.DataFrame:
        """REWARDS rows of the window; a task that several epochs ran stands once an epoch (its key has the epoch in it)."""
        return pl.concat([REWARDS.empty(), *(frame for _, frame in self._kept)])


def _rows(rule: ReplayedRule[Any], past: PastEpoch, ruling: Ruling[Any]) -> pl.DataFrame:
    shares = {one.hotkey: round(one.share * _FACTOR) for one in ruling.placings}
    weights = apportion(shares, TOTAL) if any(shares.values()) else dict.fromkeys(shares, 0)
    return REPLAYED.frame(_row(rule, past, ruling, one, weights[one.hotkey]) for one in _sorted(ruling.placings))


def _sorted(placed: Sequence[Placing]) -> list[Placing]:
    return sorted(placed, key=lambda one: one.hotkey)


def _row(rule: ReplayedRule[Any], past: PastEpoch, ruling: Ruling[Any], one: Placing, weight: int) -> dict[str, object]:
    return {
        "epoch": past.inputs.epoch, "rule": rule.name, "version": rule.version, "hotkey": one.hotkey, "weights_digest": one.weights_digest,
        "weight": weight, "share": weight / TOTAL, "crowned": one.hotkey in ruling.crowned, "terminated": one.hotkey in ruling.terminated,
        "reason": one.reason, "detail": one.detail, "coverage": one.coverage,
    }
