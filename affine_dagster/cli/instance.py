"""A world's Dagster instance: its home is whole or absent.

Dagster makes its SQLite files when it first opens them, step by step, and a process that is killed in between leaves an index without
tables that no later start mends. So they are made in a folder beside it, which gets its name when it is whole. What must not go in: what
the instance is told (``dagster.yaml``).
"""

from __future__ import annotations

import fcntl
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

__all__ = ["make_whole"]

_NEEDED = frozenset({"event_logs", "asset_keys", "dynamic_partitions", "secondary_indexes", "alembic_version"})


def make_whole(home: Path, configuration: Path) -> None:
    """Make the instance in ``home`` where there is none, with a copy of ``configuration`` as its ``dagster.yaml``.

    A home whose making was cut short is moved aside as ``<home>.incomplete-…``, not deleted. Safe under several processes.
    """
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f".{home.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not _is_whole(home):
            made = Path(tempfile.mkdtemp(prefix=f".{home.name}.making-", dir=home.parent))
            _fill(made, configuration)
            if home.exists():
                home.rename(tempfile.mkdtemp(prefix=f"{home.name}.incomplete-", dir=home.parent))
            made.rename(home)
            for left in home.parent.glob(f".{home.name}.making-*"):  # of makers that were killed: the lock is ours, so they are gone
                shutil.rmtree(left, ignore_errors=True)
        shutil.copyfile(configuration, home / "dagster.yaml")


def _is_whole(home: Path) -> bool:
    index = home / "history" / "runs" / "index.db"
    if not index.is_file():
        return False
    with closing(sqlite3.connect(f"file:{index}?mode=ro", uri=True)) as connection:
        tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
    return tables >= _NEEDED


def _fill(home: Path, configuration: Path) -> None:
    """Open every storage of a new instance once, so that its files are there."""
    from dagster import DagsterInstance

    shutil.copyfile(configuration, home / "dagster.yaml")
    with DagsterInstance.from_config(str(home)) as instance:
        instance.get_dynamic_partitions("epochs")
        instance.get_runs(limit=1)
        instance.daemon_cursor_storage.get_cursor_values(set())
        instance.all_instigator_state()
