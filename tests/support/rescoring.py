"""Score a world's ledger once more into an empty store: ``python rescoring.py SETTINGS TARGET``, for a test to run under other conditions.

What must not go in: arithmetic, and what is compared (``comparing.py``).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from affine_dagster.leaderboard.snapshot import publish
from affine_dagster.ledger import Ledger
from affine_dagster.scorekeeping import ScoreKeeper
from affine_dagster.settings import load_settings
from affine_dagster.store import Store, Tables
from affine_dagster.tables import INTEGRITY, PLAN, TABLES

__all__ = ["rescore_into"]


def rescore_into(settings_path: Path, target: Path) -> None:
    """Copy the ledger and what is not scored into ``target`` and score every epoch there, in order."""
    settings = load_settings(settings_path)
    source = Path(settings.store.url)
    shutil.copytree(source / "ledger", target / "ledger")
    for table in TABLES.values():
        folder = source / "tables" / table.name
        if folder.exists() and not table.scored and table is not INTEGRITY:
            shutil.copytree(folder, target / "tables" / table.name)
    store = Store(str(target))
    book = ScoreKeeper(Tables(store), Ledger(store), settings)
    for epoch in book.tables.epochs(PLAN):
        book.keep_integrity(epoch)
        book.keep_evidence(epoch)
        book.keep_frontier(epoch)
        book.keep_credits(epoch)
        book.keep_weights(epoch)
        publish(store, book.keep_standings(epoch))


if __name__ == "__main__":
    rescore_into(Path(sys.argv[1]), Path(sys.argv[2]))
