"""Task sets: which seeds an environment's tasks of an epoch have, as a function of the epoch's beacon alone.

Nobody knows a seed before the beacon block and the pulse exist, and both come after the commit cutoff; everybody can
recompute each seed afterwards. Seeds are hashed one by one: a data set's seed plus an index overlaps its neighbours. What must
not go in: what a seed means (``environments/``) and who runs on it (``planning.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import polars as pl

from affine_dagster.environments.port import Environment
from affine_dagster.reasons import AffineError
from affine_dagster.settings import EvaluationSettings
from affine_dagster.tables import EPOCHS, TASKS

__all__ = ["ASSAY", "CONTEST", "task_seeds", "task_sets"]

CONTEST = "contest"
ASSAY = "assay"

_DOMAIN = "affine/task-seed/1"
_SEED_BYTES = 8


def task_seeds(epochs_row: pl.DataFrame, environment: str, version: str, purpose: str, count: int) -> pl.DataFrame:
    """The first ``count`` seeds of a purpose (TASKS rows) of the epoch whose EPOCHS row is given.

    seed_i = the first 8 bytes, big-endian, of BLAKE2b over ``affine/task-seed/1|environment|version|beacon hash|pulse
    randomness|purpose|i`` (UTF-8). Raises ``bad_table`` where the frame is not one EPOCHS row or a part holds the separator.
    """
    row = EPOCHS.check(epochs_row)
    if row.height != 1:
        raise AffineError("bad_table", f"task_seeds needs one row of epochs, got {row.height}")
    parts = (_DOMAIN, environment, version, str(row["beacon_hash"].item()), str(row["pulse_randomness"].item()), purpose)
    if any("|" in part for part in parts):
        raise AffineError("bad_table", f"a part of the seed's preimage holds '|': {parts}")
    seeds = [_seed(f"{'|'.join(parts)}|{index}") for index in range(count)]
    fixed = {"epoch": row["epoch"].item(), "environment": environment, "environment_version": version, "purpose": purpose}
    return TASKS.frame({**fixed, "index": index, "seed": seed} for index, seed in enumerate(seeds))


def task_sets(epochs_row: pl.DataFrame, environments: Iterable[Environment], settings: EvaluationSettings) -> pl.DataFrame:
    """The contest and assay seeds of all environments for one epoch (TASKS), to be frozen."""
    counts = {CONTEST: settings.tasks_per_epoch, ASSAY: settings.assay_tasks}
    frames = [
        task_seeds(epochs_row, environment.name, environment.version, purpose, count)
        for environment in environments
        for purpose, count in counts.items()
    ]
    return TASKS.check(pl.concat([TASKS.empty(), *frames]))


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode()).digest()[:_SEED_BYTES], "big")
