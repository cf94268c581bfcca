"""What people call a model: the repository that was committed, in place of ids, digests and addresses that nobody knows by heart.

For showing alone: everything is kept and decided by ids and digests. What must not go in: Dagster, or a choice of what is shown.
"""

from __future__ import annotations

from collections.abc import Mapping

from affine_dagster.store import Tables
from affine_dagster.tables import FINGERPRINTS, SUBMISSIONS

__all__ = ["known_names"]


def known_names(tables: Tables, epoch: int) -> Mapping[str, str]:
    """The repository of each submission id and weights digest known at an epoch.

    A digest has the name of its earliest submission, so that a copy does not name its origin. What was committed without a
    repository has no name.
    """
    prints = tables.until(FINGERPRINTS, epoch).sort("block", "extrinsic_index", descending=True)
    submissions = tables.until(SUBMISSIONS, epoch).drop_nulls("repo")
    names: dict[str, str] = {}
    for frame, key in ((prints, "weights_digest"), (prints, "submission_id"), (submissions, "submission_id")):
        names |= dict(frame.select(key, "repo").iter_rows())
    return names
