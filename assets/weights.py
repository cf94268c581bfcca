"""Sending the newest weights: its own job, so that nothing that evaluates can stop it. Always materialises an outcome."""

from dagster import AssetExecutionContext, AssetKey, MaterializeResult, asset

from affine_dagster.chain.sending import send_weights, skip_weights, why_not_sent
from affine_dagster.resources import ChainResource, SettingsResource, StoreResource
from affine_dagster.tables import WEIGHT_SUBMISSIONS, WEIGHTS
from assets.display import table
from assets.partitions import epoch_of, epochs


@asset(partitions_def=epochs, group_name="sending", deps=[AssetKey("weights")], pool="chain", kinds={"bittensor"})
def weight_submission(
    context: AssetExecutionContext, settings: SettingsResource, chain: ChainResource, store: StoreResource
) -> MaterializeResult:
    """What was sent, the chain's receipt and the class of its answer. Only the newest epoch with sendable weights is ever sent.

    Where there is nothing to send, that is the outcome, with its reason.
    """
    tables, epoch, scorer = store.tables(), epoch_of(context), settings.scorer()
    earlier = tables.read(WEIGHT_SUBMISSIONS, epoch)
    attempt = 0 if earlier is None else earlier.height
    unsent = why_not_sent(tables, scorer, epoch)
    if unsent is not None:
        reason, message = unsent
        made = skip_weights(epoch, attempt, scorer, reason, message)
    else:
        weights, sender = tables.need(WEIGHTS, epoch, scorer), chain.validator_address()
        made = send_weights(chain.open_as_validator(), settings.load(), weights, epoch, attempt, scorer, hotkey=sender)
    tables.write(WEIGHT_SUBMISSIONS, epoch, made if earlier is None else earlier.vstack(made))
    row = made.row(0, named=True)
    columns = ["attempt", "class", "reason", "message", "block", "extrinsic_id", "mode", "uids", "values", "dropped_hotkeys"]
    return MaterializeResult(metadata={"class": row["class"], "reason": row["reason"], "attempt": table(made, columns)})
