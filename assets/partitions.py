"""The one partitions definition: epochs, keyed as ``affine_dagster.store.epoch_name`` writes them. Nothing else belongs here.

Keys are added by the sensor ``epochs`` alone, strictly ascending and without gaps: Dagster orders dynamic keys by insertion,
and a hole splits a single backfill run into many.
"""

from collections.abc import Sequence

from dagster import AssetExecutionContext, BackfillPolicy, DynamicPartitionsDefinition

__all__ = ["SCORING_BACKFILL", "epoch_of", "epochs", "epochs_of"]

epochs = DynamicPartitionsDefinition(name="epochs")

SCORING_BACKFILL = BackfillPolicy.single_run()
"""Scoring walks its epochs in order inside one step: a run an epoch would cost more than the arithmetic (DESIGN section 5)."""

def epoch_of(context: AssetExecutionContext) -> int:
    """The epoch of a run over one partition."""
    return int(context.partition_key[1:])


def epochs_of(context: AssetExecutionContext) -> Sequence[int]:
    """The epochs of a run over one partition or a range, ascending."""
    return sorted(int(key[1:]) for key in context.partition_keys)
