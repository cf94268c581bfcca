"""Log e-values of many pairs and environments at once, from their histograms.

Win, not worse, futile and regressed are four betting e-processes over the same integer counts (DESIGN section 4; Ville 1939;
Waudby-Smith & Ramdas 2024), valid at every stopping time. Logarithms are whole numbers (``exact_logs.py``) that are multiplied by counts
and added, so the bytes depend neither on the order in which tasks or shards arrived nor on the machine. Rounding down only ever lowers an
e-value. What must not go in: thresholds and verdicts (``contest.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from affine_dagster.scoring.bets import LOSING_MULTIPLIERS, WINNING_MULTIPLIERS, planned_bets
from affine_dagster.scoring.counts import Counts
from affine_dagster.scoring.exact_logs import UNIT, Units, log1p_units, log_mean_units
from affine_dagster.scoring.histogram import STEPS, Histogram

__all__ = [
    "FUTILE", "NOT_WORSE", "PARTS", "REGRESSED", "WIN", "LogEvidence", "Stakes", "bets_of", "log_evidence", "log_evidence_units", "weighed",
]

WIN, NOT_WORSE, FUTILE, REGRESSED = range(4)
"""The columns of :func:`log_evidence_units`."""

Floats = npt.NDArray[np.float64]
PARTS = np.cumsum([0, *(len(one) for one in (WINNING_MULTIPLIERS, WINNING_MULTIPLIERS, LOSING_MULTIPLIERS, LOSING_MULTIPLIERS))])
"""Where the bets of each kind begin and end among those of :func:`bets_of`."""

_MISSING_LOSES = slice(0, int(PARTS[2]))
_MISSING_WINS = slice(int(PARTS[2]), int(PARTS[4]))


@dataclass(frozen=True)
class Stakes:
    """What the bets of a contest are laid on, all in reward: m, tau, D1 and the planned discordance q."""

    margin: float
    tolerance: float
    gain: float
    discordance: float


@dataclass(frozen=True)
class LogEvidence:
    """Natural logarithms of the four e-values of one pair in one environment, multiples of 2**-32; 0 without data."""

    win: float
    not_worse: float
    futile: float
    regressed: float


def log_evidence(histogram: Histogram, stakes: Stakes) -> LogEvidence:
    """The four log e-values of one histogram; see :func:`log_evidence_units`."""
    found = log_evidence_units(Counts.of_histograms([histogram]), [stakes])[0] / UNIT
    return LogEvidence(*found.tolist())


def log_evidence_units(counts: Counts, stakes: Sequence[Stakes]) -> Units:
    """The four log e-values of each row in units of 2**-32, of shape (height, 4); ``stakes``: one a row.

    Each is the log of mean_k Π (1 + stake_k · sign · (d − centre)) over the bets of its kind. A missing task counts as d = −1 for win and
    not worse, as d = +1 for futile and regressed. So a missing task lowers all four: it can prolong a contest, never help either side,
    never end it.
    """
    kinds = {one: at for at, one in enumerate(dict.fromkeys(stakes))}
    kind = np.fromiter((kinds[one] for one in stakes), dtype=np.int64, count=len(stakes))
    bets = [bets_of(one) for one in kinds]
    stake, sign, centre = np.array(bets, dtype=np.float64).reshape(-1, 3, int(PARTS[4])).transpose(1, 0, 2)
    each, place = np.unique(kind[counts.rows] * 4096 + counts.bins + STEPS, return_inverse=True)
    table = _log_factors(each // 4096, each % 4096 - STEPS, stake, sign, centre)
    wealth = weighed(counts, table[place])
    every = np.arange(len(bets))
    lost, won = (_log_factors(every, np.full(every.size, value), stake, sign, centre) for value in (-STEPS, STEPS))
    wealth[:, _MISSING_LOSES] += counts.missing[:, None] * lost[kind, _MISSING_LOSES]
    wealth[:, _MISSING_WINS] += counts.missing[:, None] * won[kind, _MISSING_WINS]
    parts = [log_mean_units(wealth[:, first:last]) for first, last in itertools.pairwise(PARTS)]
    return np.stack(parts, axis=1)


def weighed(counts: Counts, logs: Units) -> Units:
    """Row by row the sum of count · log over the row's entries; ``logs`` of shape (entries, bets), the result of (height, bets)."""
    found = np.zeros((counts.height, logs.shape[1]), dtype=np.int64)
    if counts.rows.size:
        starts = np.flatnonzero(np.diff(counts.rows, prepend=-1))
        found[counts.rows[starts]] = np.add.reduceat(logs * counts.counts[:, None], starts, axis=0)
    return found


def _log_factors(kind: npt.NDArray[np.int64], bins: npt.NDArray[np.int64], stake: Floats, sign: Floats, centre: Floats) -> Units:
    """ln(1 + stake · sign · (d − centre)) in units, of shape (entries, bets). Every factor is positive: the stakes' cap sees to it."""
    return log1p_units(stake[kind] * (sign[kind] * (bins[:, None] / STEPS - centre[kind])))


@lru_cache(maxsize=4096)
def bets_of(stakes: Stakes) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Stake, sign and centre of every bet: those of win, of not worse, of futile, of regressed."""
    q, margin, tolerance, gain = stakes.discordance, stakes.margin, stakes.tolerance, stakes.gain
    kinds = (
        (planned_bets(gain - margin, q, WINNING_MULTIPLIERS, 1 + margin), 1.0, margin),
        (planned_bets(tolerance, q, WINNING_MULTIPLIERS, 1 - tolerance), 1.0, -tolerance),
        (planned_bets(gain - margin, q, LOSING_MULTIPLIERS, 1 - gain), -1.0, gain),
        (planned_bets(tolerance, q, LOSING_MULTIPLIERS, 1 + tolerance), -1.0, -tolerance),
    )
    flat = [(stake, sign, centre) for laid, sign, centre in kinds for stake in laid]
    return tuple(one[0] for one in flat), tuple(one[1] for one in flat), tuple(one[2] for one in flat)
