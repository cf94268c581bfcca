"""Weights by hotkey onto the chain: mapped to uids at the last moment, fitted to the chain's limits, every outcome recorded.

What must not go in: how weights come about (scoring), and when to send (a sensor's job). A chain's refusal is data here,
never an exception, and never taken for success.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import polars as pl

from affine_dagster.chain.port import Chain, ChainRejected, Neuron, SubnetState, WeightsReceipt
from affine_dagster.reasons import AffineError
from affine_dagster.settings import Settings
from affine_dagster.store import Tables
from affine_dagster.tables import WEIGHT_SUBMISSIONS, WEIGHTS

__all__ = [
    "U16", "WeightPlan", "burn_hotkey", "newest_with_weights", "plan_weights", "send_weights", "sendable_epoch", "skip_weights",
    "weights_age", "why_not_sent",
]

_Key = TypeVar("_Key", str, int)

U16 = 65_535
"""The sum of a weight vector, and the largest weight that a chain takes."""


@dataclass(frozen=True)
class WeightPlan:
    """What is to be sent: weights by uid, ascending, summing to 65,535, and the hotkeys that are gone from the metagraph."""

    uids: tuple[int, ...]
    values: tuple[int, ...]
    dropped: tuple[str, ...]


def burn_hotkey(settings: Settings, owner_hotkey: str) -> str:
    """The hotkey whose weight is burned: the one in the settings, or the subnet owner's."""
    return settings.weights.burn_hotkey or owner_hotkey


def plan_weights(weights: pl.DataFrame, neurons: Sequence[Neuron], state: SubnetState, settings: Settings) -> WeightPlan:
    """Map a vector (WEIGHTS rows of one epoch and rule) to the uids of a metagraph.

    A hotkey that is gone is dropped, whoever has its uid now (case W5); its weight goes to the burn hotkey, or, where that is
    not registered either, to the rest in proportion (largest remainder). Then the chain's maximum is applied.
    Raises ``not_sendable`` with the check that failed (cases W7, W8).
    """
    burn = burn_hotkey(settings, state.owner_hotkey)
    _check_vector(WEIGHTS.check(weights), burn)
    uids = {neuron.hotkey: neuron.uid for neuron in neurons}
    wanted: dict[str, int] = {row["hotkey"]: row["weight"] for row in weights.filter(pl.col("weight") > 0).to_dicts()}
    dropped = tuple(sorted(hotkey for hotkey in wanted if hotkey not in uids))
    kept = {hotkey: weight for hotkey, weight in wanted.items() if hotkey in uids}
    lost = U16 - sum(kept.values())
    burns = [*weights.filter("burn")["hotkey"].to_list(), burn]
    heir = next((hotkey for hotkey in burns if hotkey in uids), None)
    if lost and heir is not None:
        kept[heir] = kept.get(heir, 0) + lost
    elif lost:
        kept = _shared_out(kept, U16)
    by_uid = {uids[hotkey]: weight for hotkey, weight in kept.items() if weight > 0}
    if not by_uid:
        raise AffineError("not_sendable", "nobody in the vector is registered, and neither is the burn hotkey")
    fitted = _fit(by_uid, state)
    return WeightPlan(tuple(sorted(fitted)), tuple(fitted[uid] for uid in sorted(fitted)), dropped)


def _check_vector(weights: pl.DataFrame, burn: str) -> None:
    rows = weights.to_dicts()
    checks = (
        (not rows, "there are no weights"),
        (weights["epoch"].n_unique() > 1 or weights["rule"].n_unique() > 1, "rows of several epochs or rules"),
        (any(value is None for row in rows for name, value in row.items() if name != "reason"), "a value is missing"),
    )
    _refuse(checks)
    shares = [row["share"] for row in rows]
    total = sum(row["weight"] for row in rows)
    _refuse((
        (not all(row["sendable"] for row in rows), "the vector is marked as not sendable"),
        (any(not 0 <= row["weight"] <= U16 for row in rows), "a weight is outside 0..65,535"),
        (total != U16, f"the weights sum to {total}, not to 65,535"),
        (not all(math.isfinite(share) and 0 <= share <= 1 for share in shares), "a share is not in [0, 1]"),
        (abs(math.fsum(shares) - 1) > 1e-6, "the shares do not sum to 1"),
        (any(row["hotkey"] == burn and not row["burn"] and row["weight"] for row in rows), "the burn hotkey stands as a contestant"),
    ))


def _refuse(checks: Sequence[tuple[bool, str]]) -> None:
    for failed, message in checks:
        if failed:
            raise AffineError("not_sendable", message)


def _shared_out(parts: Mapping[_Key, int], total: int) -> dict[_Key, int]:
    """The total shared out in proportion to the parts, by largest remainder, ties by key. Integers only."""
    whole = sum(parts.values())
    if not whole:
        return {}
    shares = {key: part * total // whole for key, part in parts.items()}
    left = total - sum(shares.values())
    for key in sorted(parts, key=lambda name: (-(parts[name] * total % whole), name))[:left]:
        shares[key] += 1
    return shares


def _fit(weights: Mapping[int, int], state: SubnetState) -> dict[int, int]:
    """The vector with no share above the chain's maximum: what is cut off goes to the others in proportion, as the SDK does."""
    if len(weights) < state.min_allowed_weights:
        raise AffineError("not_sendable", f"{len(weights)} weights, the subnet asks for at least {state.min_allowed_weights}")
    cap = min(U16, state.max_weight_limit)
    while len(weights) * cap >= U16:
        fitted = _capped(weights, cap)
        if _within(fitted, state.max_weight_limit):
            return fitted
        cap -= 1  # the chain judges the rescaled, rounded vector, in which the largest share can be a little higher
    raise AffineError("not_sendable", f"{len(weights)} weights cannot all be at most {state.max_weight_limit}/65,535 of the whole")


def _capped(weights: Mapping[int, int], cap: int) -> dict[int, int]:
    capped: dict[int, int] = {}
    free = dict(weights)
    while True:
        over = [uid for uid, weight in free.items() if weight > cap]
        if not over:
            return capped | free
        capped |= dict.fromkeys(over, cap)
        below = {uid: weights[uid] for uid in free if uid not in capped}
        free = _shared_out(below, U16 - sum(capped.values()))


def _within(weights: Mapping[int, int], limit: int) -> bool:
    """The pallet's check: the largest share of the vector after it is scaled so that its largest weight is 65,535."""
    largest = max(weights.values())
    return limit >= U16 or limit * sum(weight * U16 // largest for weight in weights.values()) >= U16 * U16


def send_weights(
    chain: Chain, settings: Settings, weights: pl.DataFrame, epoch: int, attempt: int, scorer: str, *, hotkey: str | None = None
) -> pl.DataFrame:
    """Send a vector (WEIGHTS rows of one epoch and rule) and return the WEIGHT_SUBMISSIONS row of what came of it.

    The metagraph is read just before. ``hotkey``: the sender's address; given, its permit is checked before anything is sent.
    Never raises for a refusal by the chain or by a check: ``class`` is ok only where the chain gave a receipt, else
    rate_limited, rejected, timeout, not_sendable or dry_run. The same vector is sent as often as it is asked for (case W2).
    """
    outcome = _Outcome(epoch, attempt, scorer)
    try:
        head = chain.head().number
        state = chain.subnet(settings.chain.netuid, block=head)
        neurons = chain.neurons(settings.chain.netuid, block=head)
        plan = _plan(weights, epoch, neurons, state, settings)
        _check_permit(neurons, hotkey)
    except ChainRejected as error:
        return _refused(outcome, error, None)
    except AffineError as error:
        if error.code not in ("not_sendable", "no_permit"):
            raise
        return outcome.row("not_sendable", error.code, error.detail)
    if settings.weights.dry_run:
        return outcome.row("dry_run", "dry_run", f"at block {head}", plan)
    try:
        receipt: object = chain.set_weights(
            settings.chain.netuid, dict(zip(plan.uids, plan.values, strict=True)), version_key=settings.weights.version_key
        )
    except ChainRejected as error:
        return _refused(outcome, error, plan)
    if not isinstance(receipt, WeightsReceipt):  # case W1: an answer of another kind is no success, however true it looks
        return outcome.row("rejected", "chain_rejected", f"no receipt but a {type(receipt).__name__}", plan)
    return outcome.row("ok", "sent", "", plan, receipt)


def _plan(weights: pl.DataFrame, epoch: int, neurons: Sequence[Neuron], state: SubnetState, settings: Settings) -> WeightPlan:
    if weights.height and weights["epoch"].ne_missing(epoch).any():
        raise AffineError("not_sendable", f"the rows are not those of epoch {epoch}")
    return plan_weights(weights, neurons, state, settings)


def _check_permit(neurons: Sequence[Neuron], hotkey: str | None) -> None:
    if hotkey is None:
        return
    own = next((neuron for neuron in neurons if neuron.hotkey == hotkey), None)
    if own is None or not own.validator_permit:
        raise AffineError("no_permit", f"{hotkey} {'is not registered' if own is None else 'has no validator permit'}")


def _refused(outcome: _Outcome, error: ChainRejected, plan: WeightPlan | None) -> pl.DataFrame:
    classes = {"rate_limited": "rate_limited", "timeout": "timeout", "unavailable": "timeout"}
    return outcome.row(classes.get(error.kind, "rejected"), error.code, error.detail, plan)


def sendable_epoch(tables: Tables, scorer: str) -> int | None:
    """The epoch whose weights are due: the newest with a sendable vector under this scorer, None where there is none.

    None too while another scorer knows a newer epoch: a re-scoring that walks through history must not send what it passes.
    """
    own = tables.epochs(WEIGHTS, scorer)
    if not own or own[-1] < newest_with_weights(tables):
        return None
    return next((epoch for epoch in reversed(own) if _is_sendable(tables.need(WEIGHTS, epoch, scorer))), None)


def why_not_sent(tables: Tables, scorer: str, epoch: int) -> tuple[str, str] | None:
    """Why an epoch's weights are not sent whatever the chain says: a reason and a message. None where they may be tried.

    ``skipped_historical``: a newer epoch has weights. ``no_vector``: this one has none under this scorer.
    """
    due, newest = sendable_epoch(tables, scorer), newest_with_weights(tables)
    if due is not None and epoch < due:
        return "skipped_historical", f"epoch {due} is the newest with weights that may be sent"
    elsewhere = f"epoch {newest} has weights under other settings: run the job rescore first"
    behind = max(tables.epochs(WEIGHTS, scorer), default=-1) < newest
    if behind and epoch < newest:
        return "skipped_historical", elsewhere
    if tables.read(WEIGHTS, epoch, scorer) is None:
        return "no_vector", elsewhere if behind else f"epoch {epoch} has no weights yet"
    return None


def newest_with_weights(tables: Tables) -> int:
    """The newest epoch that has weights under any scorer; -1 where none has."""
    return max((epoch for scorer in tables.scorers(WEIGHTS) for epoch in tables.epochs(WEIGHTS, scorer)), default=-1)


def _is_sendable(weights: pl.DataFrame) -> bool:
    return weights.height > 0 and bool(weights["sendable"].all())


def skip_weights(epoch: int, attempt: int, scorer: str, reason: str = "skipped_historical", message: str = "") -> pl.DataFrame:
    """The WEIGHT_SUBMISSIONS row of a decision not to send: class skipped for history, else not_sendable."""
    kind = "skipped" if reason == "skipped_historical" else "not_sendable"
    return _Outcome(epoch, attempt, scorer).row(kind, reason, message)


@dataclass(frozen=True)
class _Outcome:
    epoch: int
    attempt: int
    scorer: str

    def row(
        self, kind: str, reason: str, message: str, plan: WeightPlan | None = None, receipt: WeightsReceipt | None = None
    ) -> pl.DataFrame:
        return WEIGHT_SUBMISSIONS.frame([{
            "epoch": self.epoch, "attempt": self.attempt, "scorer": self.scorer, "class": kind, "reason": reason, "message": message,
            "block": None if receipt is None else receipt.block,
            "extrinsic_id": None if receipt is None else receipt.extrinsic_id,
            "mode": None if receipt is None else receipt.mode,
            "uids": [] if plan is None else list(plan.uids), "values": [] if plan is None else list(plan.values),
            "dropped_hotkeys": [] if plan is None else list(plan.dropped),
        }])


def weights_age(chain: Chain, netuid: int, hotkey: str) -> int | None:
    """Blocks since the hotkey last set weights, at the head; None where it is not registered or never did."""
    head = chain.head().number
    own = next((neuron for neuron in chain.neurons(netuid, block=head) if neuron.hotkey == hotkey), None)
    return head - own.last_update if own is not None and own.last_update else None
