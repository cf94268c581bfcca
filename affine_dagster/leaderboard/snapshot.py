"""The published snapshot of an epoch: one JSON document that a page, a terminal or a miner reads, and nothing else does.

Every number carries the epoch it belongs to; a missing number is null and never zero. What must not go in: tasks or
completions of an epoch (they are published apart, after it has closed), and any computation beyond choosing rows.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import polars as pl

from affine_dagster.store import Store, epoch_name

__all__ = ["EnvironmentScore", "LeaderboardModel", "LeaderboardSnapshot", "WeightShare", "build", "publish", "read_latest"]

SNAPSHOT_VERSION = 1


@dataclass(frozen=True)
class EnvironmentScore:
    """Mean reward with its interval; ``epoch`` is the newest in which the model ran there. n 0: not evaluated, all else null."""

    environment: str
    n: int
    mean: float | None
    lower: float | None
    upper: float | None
    epoch: int | None


@dataclass(frozen=True)
class LeaderboardModel:
    """A submission or genesis model with its state, reason and next step."""

    submission_id: str
    hotkey: str | None
    repo: str | None
    revision: str | None
    block: int
    extrinsic_index: int | None
    weights_digest: str | None
    genesis: bool
    state: str
    reason: str
    fault: str | None
    detail: str | None
    next_step: str
    peer: str | None
    credit: float | None
    weight: int | None
    first_epoch: int
    since_epoch: int
    mean: float | None
    scores: tuple[EnvironmentScore, ...]


@dataclass(frozen=True)
class WeightShare:
    """A share of the weight vector; ``weight`` of 65,535."""

    hotkey: str
    weight: int
    burn: bool
    reason: str


@dataclass(frozen=True)
class LeaderboardSnapshot:
    """All that is published of an epoch."""

    version: int
    epoch: int
    boundary_block: int
    scorer: str
    rule: str
    environments: tuple[str, ...]
    models: tuple[LeaderboardModel, ...]
    weights: tuple[WeightShare, ...]


def build(
    *,
    epoch: int,
    boundary_block: int,
    scorer: str,
    rule: str,
    environments: tuple[str, ...],
    standings: pl.DataFrame,
    scores: pl.DataFrame,
    weights: pl.DataFrame,
) -> LeaderboardSnapshot:
    """The snapshot of an epoch.

    Args:
        epoch: the epoch published.
        boundary_block: its last block.
        scorer: the scorer version whose rows these are.
        rule: the rule's name.
        environments: in the order of the settings.
        standings: STANDINGS of the epoch.
        scores: SCORES of all epochs up to this one; the newest epoch's contest row of a model and environment is shown, an
            assay's where there was no contest.
        weights: WEIGHTS of the epoch.
    """
    newest = (
        scores.filter(pl.col("n") > 0)
        .sort("epoch", pl.col("purpose") == "contest")
        .unique(["weights_digest", "environment"], keep="last", maintain_order=True)
    )
    by_key = {(row["weights_digest"], row["environment"]): row for row in newest.iter_rows(named=True)}

    def score(digest: str | None, environment: str) -> EnvironmentScore:
        row = by_key.get((digest, environment))
        if row is None:
            return EnvironmentScore(environment, 0, None, None, None, None)
        return EnvironmentScore(environment, row["n"], row["mean"], row["lower"], row["upper"], row["epoch"])

    def model(row: dict[str, object]) -> LeaderboardModel:
        digest = row["weights_digest"]
        found = tuple(score(digest if isinstance(digest, str) else None, environment) for environment in environments)
        means = [entry.mean for entry in found]
        known = [value for value in means if value is not None]
        plain = {name: value for name, value in row.items() if name in LeaderboardModel.__dataclass_fields__}
        return LeaderboardModel(
            **plain,  # type: ignore[arg-type]
            mean=sum(known) / len(known) if len(known) == len(means) else None,
            scores=found,
        )

    shares = weights.sort(["weight", "hotkey"], descending=[True, False]).iter_rows(named=True)
    return LeaderboardSnapshot(
        version=SNAPSHOT_VERSION,
        epoch=epoch,
        boundary_block=boundary_block,
        scorer=scorer,
        rule=rule,
        environments=environments,
        models=tuple(model(row) for row in standings.iter_rows(named=True)),
        weights=tuple(WeightShare(row["hotkey"], row["weight"], row["burn"], row["reason"]) for row in shares),
    )


def publish(store: Store, snapshot: LeaderboardSnapshot) -> str:
    """Write the snapshot under its epoch and scorer, then as the latest. Returns the epoch's key.

    Strict JSON: NaN or infinity raise ValueError. The latest is replaced only by an epoch that is not older.
    """
    content = json.dumps(asdict(snapshot), allow_nan=False, indent=1).encode()
    key = f"published/{snapshot.scorer}/{epoch_name(snapshot.epoch)}.json"
    store.put(key, content)
    latest = read_latest(store)
    if latest is None or latest.epoch <= snapshot.epoch:
        store.put("published/latest.json", content)
    return key


def read_latest(store: Store) -> LeaderboardSnapshot | None:
    """The latest published snapshot, or None."""
    content = store.get("published/latest.json")
    return None if content is None else parse(content)


def parse(content: bytes) -> LeaderboardSnapshot:
    """A snapshot from its JSON."""
    plain = json.loads(content)
    models = tuple(
        LeaderboardModel(**{**model, "scores": tuple(EnvironmentScore(**entry) for entry in model["scores"])}) for model in plain["models"]
    )
    weights = tuple(WeightShare(**share) for share in plain["weights"])
    return LeaderboardSnapshot(**{**plain, "environments": tuple(plain["environments"]), "models": models, "weights": weights})
