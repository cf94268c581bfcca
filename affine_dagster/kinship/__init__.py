"""Who is whose copy: digests, verdicts with evidence, and the lineage graph."""
