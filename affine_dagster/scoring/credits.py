"""Credits: what each accepted model adds to the frontier of what was committed before it, decayed, in integers.

c_i = HV({u_j, j < i} ∪ {v_i}) − HV({u_j, j < i}) in commit order over genesis and accepted models, reference point 0
(DESIGN section 4). It telescopes, and no later submission can lower it. What must not go in: floating point on the way to a
number that is paid, and the weight vector (``weights.py``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import polars as pl

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.archive import Archive
from affine_dagster.scoring.frontier import Member, members_of
from affine_dagster.settings import ScoringSettings
from affine_dagster.tables import CREDITS

__all__ = ["DECAY_ONE", "Credit", "chronological_credits", "credits_of", "decay", "epoch_credits"]

DECAY_ONE = 2**32
"""The decay factor 1: credits are decayed in units of 2**-32."""

_PRECISION = 128
_BITS = 48


def chronological_credits(
    lower: Sequence[Sequence[int]], upper: Sequence[Sequence[int]], known: Sequence[int] = ()
) -> list[int]:
    """The credit of each model in commit order, in grid cells, from v (``lower``) and u (``upper``) in grid steps.

    ``known``: those of the first models, where they stand already.
    """
    made, archive = list(known), Archive.of(upper[: len(known)])
    for at in range(len(known), len(lower)):
        made.append(archive.adds(lower[at]))
        archive = archive.grown(upper[at])
    return made


@lru_cache(maxsize=2**16)
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


@dataclass(frozen=True, slots=True)
class Credit:
    """What an accepted model is owed at an epoch. ``units``: grid cells; ``decayed``: units of 2**-32 of a cell."""

    member: Member
    units: int
    decayed: int
    frozen: bool
    registered: bool

    @property
    def reason(self) -> str:
        """Why it is or is not paid."""
        if self.units == 0:
            return "no_credit" if self.member.assay_complete else "assaying"
        return "credited" if self.registered else "not_registered"


def epoch_credits(
    frontier: pl.DataFrame, registered: Collection[str], *, epoch: int, boundary_block: int, scoring: ScoringSettings
) -> pl.DataFrame:
    """The CREDITS rows of one epoch's FRONTIER rows, in commit order: see :func:`credits_of`."""
    members = members_of(frontier)
    units = chronological_credits([member.lower for member in members], [member.upper for member in members])
    made = credits_of(members, units, registered, boundary_block, scoring.half_life_blocks)
    return CREDITS.frame(_row(credit, epoch, scoring.grid) for credit in made)


def credits_of(
    members: Sequence[Member], units: Sequence[int], registered: Collection[str], boundary_block: int, half_life_blocks: int
) -> list[Credit]:
    """What each member is owed, in commit order; genesis earns nothing and has none.

    ``units``: :func:`chronological_credits` of all members. ``registered``: hotkeys at the boundary block. A credit is frozen when its
    own assay and all earlier ones are complete.
    """
    made, frozen = [], True
    for member, found in zip(members, units, strict=True):
        frozen = frozen and member.assay_complete
        if not member.genesis:
            decayed = found * decay(boundary_block - member.accepted_block, half_life_blocks)
            made.append(Credit(member, found, decayed, frozen, member.hotkey in registered))
    return made


def _row(credit: Credit, epoch: int, grid: int) -> dict[str, Any]:
    member = credit.member
    one: int = grid ** len(member.environments)
    return {
        "epoch": epoch, "weights_digest": member.weights_digest, "submission_id": member.submission_id, "hotkey": member.hotkey,
        "block": member.block, "extrinsic_index": member.extrinsic_index, "credit_units": str(credit.units), "credit": credit.units / one,
        "frozen": credit.frozen, "accepted_block": member.accepted_block, "decayed_units": str(credit.decayed),
        "decayed": credit.decayed / (one * DECAY_ONE), "registered": credit.registered, "reason": credit.reason,
    }
