"""What exists: one file an asset group.

Thin: an asset reads tables, calls the library, writes tables, and shows what it did. No ``from __future__ import annotations``
here and in ``sensors/``: Dagster reads the annotations of contexts and resources as they are.
"""

import warnings

from dagster import BetaWarning

# backfill policies are marked beta; the version of Dagster is pinned, and DESIGN section 5 rests on them
warnings.filterwarnings("ignore", category=BetaWarning, message=".*backfill_policy.*")
# the job of one epoch mixes assets that a backfill walks one by one with those it walks in one run; it is never backfilled itself
warnings.filterwarnings("ignore", category=UserWarning, message=".*varying BackfillPolicies.*")
