"""Credits: what each accepted model adds to the frontier of what was committed before it, decayed, in integers.

c_i = HV({u_j, j < i} ∪ {v_i}) − HV({u_j, j < i}) in commit order over genesis and accepted models, reference point 0
(DESIGN section 4). It telescopes, and no later submission can lower it. What must not go in: floating point on the way to a
number that is paid, and the weight vector (``weights.py``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import polars as pl

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.frontier import Member, members_of
from affine_dagster.scoring.hypervolume import exclusive
from affine_dagster.settings import ScoringSettings
from affine_dagster.tables import CREDITS

__all__ = ["DECAY_ONE", "chronological_credits", "decay", "epoch_credits"]

DECAY_ONE = 2**32
"""The decay factor 1: credits are decayed in units of 2**-32."""

_PRECISION = 128
_BITS = 48


def chronological_credits(lower: Sequence[Sequence[int]], upper: Sequence[Sequence[int]]) -> list[int]:
    """The credit of each model in commit order, in grid cells, from v (``lower``) and u (``upper``) in grid steps."""
    return [exclusive(point, upper[:at]) for at, point in enumerate(lower)]


def decay(age_blocks: int, half_life_blocks: int) -> int:
    """2**(−age / half-life) in units of 2**-32, rounded down, by integer arithmetic alone: the same on every machine.

    The fraction's binary digits select square roots of square roots of 1/2, kept to 128 bits. Raises ``bad_table`` on a
    negative age.
    """
    if age_blocks < 0:
        raise AffineError("bad_table", f"a credit cannot be {-age_blocks} blocks younger than its epoch")
    whole, rest = divmod(age_blocks, half_life_blocks)
    digits = (rest << _BITS) // half_life_blocks
    factor, root = 1 << _PRECISION, 1 << (_PRECISION - 1)
    for place in range(_BITS - 1, -1, -1):
        root = math.isqrt(root << _PRECISION)
        if digits >> place & 1:
            factor = (factor * root) >> _PRECISION
    return factor >> min(whole, _PRECISION) >> (_PRECISION - 32)


def epoch_credits(
    frontier: pl.DataFrame, registered: Collection[str], *, epoch: int, boundary_block: int, scoring: ScoringSettings
) -> pl.DataFrame:
    """The CREDITS rows of one epoch's FRONTIER rows, in commit order; genesis earns nothing and has no row.

    ``registered``: hotkeys at the boundary block. A credit is frozen when its own assay and all earlier ones are complete.
    """
    members = members_of(frontier)
    found = chronological_credits([member.lower for member in members], [member.upper for member in members])
    rows = [
        _row(member, units, boundary_block, scoring)
        | {"epoch": epoch, "frozen": all(other.assay_complete for other in members[: at + 1])}
        | _payable(member, units, registered)
        for at, (member, units) in enumerate(zip(members, found, strict=True)) if not member.genesis
    ]
    return CREDITS.frame(rows)


def _row(member: Member, units: int, boundary_block: int, scoring: ScoringSettings) -> dict[str, Any]:
    one: int = scoring.grid ** len(member.environments)
    decayed = units * decay(boundary_block - member.accepted_block, scoring.half_life_blocks)
    return {
        "weights_digest": member.weights_digest, "submission_id": member.submission_id, "hotkey": member.hotkey,
        "block": member.block, "extrinsic_index": member.extrinsic_index, "accepted_block": member.accepted_block,
        "credit_units": str(units), "credit": units / one, "decayed_units": str(decayed), "decayed": decayed / (one * DECAY_ONE),
    }


def _payable(member: Member, units: int, registered: Collection[str]) -> dict[str, Any]:
    known = member.hotkey in registered
    if units == 0:
        return {"registered": known, "reason": "no_credit" if member.assay_complete else "assaying"}
    return {"registered": known, "reason": "credited" if known else "not_registered"}
