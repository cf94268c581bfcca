"""Who is whose copy: digests, verdicts with evidence, and the lineage graph."""

from affine_dagster.kinship.fingerprints import fingerprint, genesis_id, unfinished
from affine_dagster.kinship.verdicts import judge

__all__ = ["fingerprint", "genesis_id", "judge", "unfinished"]
