"""Who is whose copy: digests, verdicts with evidence, and the lineage graph."""

from affine_dagster.kinship.fingerprints import Fingerprinting, fingerprint, genesis_id, unfinished
from affine_dagster.kinship.verdicts import judge

__all__ = ["Fingerprinting", "fingerprint", "genesis_id", "judge", "unfinished"]
