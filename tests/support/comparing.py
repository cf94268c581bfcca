"""What two validators' stores have in common and where they differ: the ledger by its results, everything else byte for byte.

What must not go in: how the stores came about (``killing.py``, ``rescoring.py``).
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from affine_dagster.chain.local import LocalChain
from affine_dagster.league.world import World
from affine_dagster.ledger import Ledger
from affine_dagster.reasons import Fault
from affine_dagster.store import Store
from affine_dagster.tables import ROLLOUTS, WEIGHT_SUBMISSIONS

__all__ = ["differences", "ledger_rows", "store_differences", "table_files"]

ATTEMPTS = {f"tables/{WEIGHT_SUBMISSIONS.name}"}
"""What counts attempts, and so tells of every disturbance: all other tables must not."""


def ledger_rows(store: Path) -> pl.DataFrame:
    """All results of a ledger, all columns but ``attempt``: of several of one task and model the first that is final, else the last."""
    ledger = Ledger(Store(str(store)))
    epochs = sorted(int(folder.name[1:]) for folder in (store / "ledger").glob("e*"))
    rows = pl.concat([ROLLOUTS.empty(), *(ledger.rollouts(epoch) for epoch in epochs)])
    key = [column for column in ROLLOUTS.key if column != "attempt"]
    is_open = pl.col("fault").is_not_null() & (pl.col("fault") != Fault.MODEL.value)
    rank = pl.when(is_open).then(-pl.col("attempt")).otherwise(pl.col("attempt"))
    ordered = rows.sort([*key, is_open, rank]).unique(key, keep="first", maintain_order=True)
    return ordered.drop("attempt").sort(key)


def table_files(store: Path) -> dict[str, bytes]:
    """The content of every table and of every published snapshot, by its path below the store; attempts of sending left out."""
    found = [path for folder in ("tables", "published") for path in (store / folder).rglob("*") if path.is_file()]
    names = {path.relative_to(store).as_posix(): path for path in found}
    return {name: path.read_bytes() for name, path in sorted(names.items()) if not any(name.startswith(f"{one}/") for one in ATTEMPTS)}


def store_differences(first: Path, second: Path) -> list[str]:
    """What differs between two stores, a line each; nothing where ledger, tables and snapshots are the same."""
    lines = _file_differences(table_files(first), table_files(second))
    one, other = ledger_rows(first), ledger_rows(second)
    if not one.equals(other, null_equal=True):
        columns = [name for name in one.columns if one.height != other.height or not one[name].equals(other[name], null_equal=True)]
        lines.append(f"ledger: {one.height} and {other.height} rows; columns that differ: {', '.join(columns)}")
    return lines


def differences(first: World, second: World) -> list[str]:
    """What differs between two validators' worlds: their stores, and the weights that the chain has from them."""
    lines = store_differences(Path(first.settings().store.url), Path(second.settings().store.url))
    one, other = _weights_on_chain(first), _weights_on_chain(second)
    return lines if one == other else [*lines, f"weights on the chain: {one} and {other}"]


def _file_differences(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    missing = [f"{name}: only in the {which}" for which, here, there in (("first", one, other), ("second", other, one)) for name in here
               if name not in there]
    return missing + [f"{name}: other bytes" for name in one if name in other and one[name] != other[name]]


def _weights_on_chain(world: World) -> dict[int, dict[int, int]]:
    chain = LocalChain(world.chain_path)
    try:
        held = chain.weights(world.settings().chain.netuid, block=chain.head().number)
        return {validator: dict(weights) for validator, weights in held.items()}
    finally:
        chain.close()


