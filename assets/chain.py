"""What the chain said: the frozen snapshot of an epoch, and the submissions read from it."""

from dagster import AssetExecutionContext, MaterializeResult, asset

from affine_dagster.chain.intake import read_submissions
from affine_dagster.chain.snapshot import store_snapshot, take_snapshot
from affine_dagster.resources import ChainResource, SettingsResource, StoreResource
from affine_dagster.tables import COMMITMENTS, NEURONS, SUBMISSIONS
from assets.display import table
from assets.partitions import epoch_of, epochs

GROUP = "chain"


@asset(partitions_def=epochs, group_name=GROUP, pool="chain", kinds={"bittensor"})
def chain_snapshot(
    context: AssetExecutionContext, settings: SettingsResource, chain: ChainResource, store: StoreResource
) -> MaterializeResult:
    """Neurons, commitments, parameters and the beacon of the epoch, at its finalised boundary block. Frozen."""
    snapshot = store_snapshot(store.tables(), take_snapshot(chain.open(), settings.load().chain, epoch_of(context)))
    row = snapshot.epochs.row(0, named=True)
    return MaterializeResult(
        metadata={
            "boundary_block": row["boundary_block"],
            "beacon": f"block {row['beacon_block']} {row['beacon_hash']}, pulse {row['pulse_round']}",
            "neurons": snapshot.neurons.height,
            "commitments": snapshot.commitments.height,
            "swaps": table(snapshot.swaps, ["block", "coldkey", "old_hotkey", "new_hotkey"]),
        }
    )


@asset(partitions_def=epochs, group_name=GROUP, deps=[chain_snapshot], kinds={"polars"})
def submissions(context: AssetExecutionContext, settings: SettingsResource, store: StoreResource) -> MaterializeResult:
    """One row a commitment, decoded item by item, with state and reason."""
    tables, epoch = store.tables(), epoch_of(context)
    earlier = tables.until(SUBMISSIONS, epoch, inclusive=False)
    frame = read_submissions(tables.need(COMMITMENTS, epoch), tables.need(NEURONS, epoch), settings.load().chain, earlier)
    tables.write(SUBMISSIONS, epoch, frame)
    return MaterializeResult(
        metadata={
            "rows": frame.height,
            "undecodable": frame.filter(frame["state"] == "undecodable").height,
            "submissions": table(frame, ["repo", "state", "reason", "detail", "block", "hotkey", "revision", "submission_id"]),
        }
    )
