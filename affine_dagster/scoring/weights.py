"""The weight vector: decayed credits by hotkey as 16-bit weights, with the checks that make it sendable.

Largest remainder to 65,535, all in integers. What must not go in: uids (they are looked up when weights are sent) and sending.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction

import polars as pl

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.credits import DECAY_ONE
from affine_dagster.settings import ScoringSettings
from affine_dagster.tables import WEIGHTS

__all__ = ["TOTAL", "apportion", "owed_units", "paid_weights", "weight_vector"]

TOTAL = 65_535
"""What the weights of a vector sum to: the chain's largest 16-bit weight."""


def apportion(shares: Mapping[str, int], total: int = TOTAL) -> dict[str, int]:
    """Integers in proportion to ``shares`` that sum to ``total``: largest remainder, ties by name.

    Raises ``bad_table`` on a negative share or on shares that are all 0.
    """
    whole = sum(shares.values())
    if whole <= 0 or min(shares.values()) < 0:
        raise AffineError("bad_table", "shares must be 0 or more and not all 0")
    parts = {name: divmod(total * share, whole) for name, share in shares.items()}
    left = total - sum(base for base, _ in parts.values())
    favoured = set(sorted(parts, key=lambda name: (-parts[name][1], name))[:left])
    return {name: parts[name][0] + (name in favoured) for name in sorted(parts)}


def weight_vector(
    credit: pl.DataFrame, registered: Collection[str], burn_hotkey: str, *, epoch: int, width: int, scoring: ScoringSettings,
    rule: str = "frontier_credits",
) -> pl.DataFrame:
    """The WEIGHTS rows of one epoch's CREDITS rows, sorted by hotkey: see :func:`paid_weights`.

    ``sendable`` is the verdict of the checks on the made vector (sum, range, registered).
    """
    decayed = ((hotkey, _units(units)) for hotkey, units in credit.select("hotkey", "decayed_units").iter_rows())
    owed = owed_units(decayed, registered, burn_hotkey)
    weights = paid_weights(owed, burn_hotkey, width, scoring)
    sound = _sound(weights, registered)
    reason = ("sendable" if owed else "burned") if sound else "not_sendable"
    return WEIGHTS.frame(
        {
            "epoch": epoch, "rule": rule, "hotkey": hotkey, "burn": hotkey == burn_hotkey, "weight": weight,
            "share": weight / TOTAL, "sendable": sound, "reason": reason,
        }
        for hotkey, weight in weights.items()
    )


def paid_weights(owed: Mapping[str, int], burn_hotkey: str, width: int, scoring: ScoringSettings) -> dict[str, int]:
    """The weights by hotkey of what is owed, sorted by hotkey; the burn hotkey always has one.

    With ``target_credit`` the share 1 − min(1, Σ decayed / target) burns; nothing owed burns all. ``width``: environments,
    which set the unit grid**-width. The chain's limit on one weight is met when weights are sent (``chain/sending.py``), from the
    parameters in force then.
    """
    target = int(Fraction(scoring.target_credit) * scoring.grid**width * DECAY_ONE)
    spent = sum(owed.values())
    burned = max(target - spent, 0) if spent else 1
    return apportion({**owed, burn_hotkey: burned})


def owed_units(decayed: Iterable[tuple[str | None, int]], registered: Collection[str], burn_hotkey: str) -> dict[str, int]:
    """Decayed units by registered hotkey, in 2**-32 of a grid cell; hotkeys that are owed nothing are left out.

    Only hotkeys in ``registered`` are paid; the burn hotkey is never a contestant: a credit of its own is ignored (case W8).
    """
    owed: dict[str, int] = defaultdict(int)
    for hotkey, units in decayed:
        if units and hotkey is not None and hotkey in registered and hotkey != burn_hotkey:
            owed[hotkey] += units
    return dict(owed)


def _units(text: str | None) -> int:
    if text is None or not text.isascii() or not text.isdigit():
        raise AffineError("bad_table", f"credits: {text!r} is not a count of units")
    return int(text)


def _sound(weights: Mapping[str, int], registered: Collection[str]) -> bool:
    """Whether the chain may see this vector. A burn hotkey that gets weight must be registered like any other."""
    return (
        sum(weights.values()) == TOTAL
        and all(0 <= weight <= TOTAL for weight in weights.values())
        and all(hotkey in registered for hotkey, weight in weights.items() if weight)
    )
