"""The bets of the paired tests, their planned sample size, and how alpha is spent.

Holds the closed formulas that are fixed when a contest is planned. What must not go in: data (histograms and e-values are
``histogram.py`` and ``evidence.py``): a bet that looked at its own data would void the guarantee.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from affine_dagster.reasons import AffineError
from affine_dagster.settings import ScoringSettings

__all__ = ["LOSING_MULTIPLIERS", "WINNING_MULTIPLIERS", "bet", "fixed_sample_size", "planned_bets", "try_alpha"]

WINNING_MULTIPLIERS = (0.5, 0.75, 1.1, 1.7, 2.5)
"""Multiples of the planned gain that the win and not-worse bets are laid for (DESIGN section 4)."""

LOSING_MULTIPLIERS = (0.5, 0.9, 1.65, 3.0)
"""The same for the futile and regressed bets."""

_CAP = 0.9
_KEPT = 0.99
"""At most this share of the capital is staked on one task, so that no single task can ruin a bet."""


def bet(delta: float, discordance: float, worst: float = 1.0) -> float:
    """The stake laid for a gain ``delta`` where E[d^2] is ``discordance``: min(delta / (q + delta^2), .9).

    ``worst`` is the largest loss a unit stake can meet on one task (1 + m, 1 - tau, ...); the stake is also held under
    .99 / worst, which binds only where .9 · worst would reach .99. Source: DESIGN section 4; Waudby-Smith & Ramdas 2024.
    """
    if not (delta > 0 and 0 < discordance <= 1):
        raise AffineError("bad_settings", f"a bet needs delta > 0 and a discordance in (0, 1]: {delta}, {discordance}")
    return min(delta / (discordance + delta * delta), _CAP, _KEPT / worst if worst > 0 else _CAP)


@lru_cache(maxsize=4096)
def planned_bets(delta: float, discordance: float, multipliers: tuple[float, ...], worst: float = 1.0) -> tuple[float, ...]:
    """The stakes of one mixture: ``bet(delta · multiplier)`` for each multiplier."""
    return tuple(bet(delta * multiplier, discordance, worst) for multiplier in multipliers)


@lru_cache(maxsize=4096)
def fixed_sample_size(margin: float, gain: float, discordance: float, alpha: float, power: float = 0.9) -> int:
    """N: the tasks a fixed-sample test of the margin needs to find the gain with this power.

    N = ceil(((z_{1-alpha}·sqrt(q − m²) + z_power·sqrt(q − D1²)) / (D1 − m))²); 4,996 at m = .02, D1 = .06, q = .3,
    alpha = 5e-5. Variances under zero are taken as zero. Source: DESIGN section 4.
    """
    normal = NormalDist()
    null = math.sqrt(max(discordance - margin * margin, 0.0))
    found = math.sqrt(max(discordance - gain * gain, 0.0))
    root = (-normal.inv_cdf(alpha) * null + normal.inv_cdf(power) * found) / (gain - margin)
    return max(1, math.ceil(root * root))


def try_alpha(scoring: ScoringSettings, number: int) -> float:
    """Alpha of an owner's ``number``-th try of the day (from 1): alpha_daily / owner_slots · 6 / (pi² j²).

    Over all tries a slot spends at most alpha_daily / owner_slots, since the sum of 1/j² is pi²/6. Raises ``bad_settings`` below 1.
    """
    if number < 1:
        raise AffineError("bad_settings", f"tries are counted from 1: {number}")
    return scoring.alpha_daily / scoring.owner_slots * 6 / (math.pi**2 * number**2)
