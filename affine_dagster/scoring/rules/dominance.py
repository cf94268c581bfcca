"""How two models were held against each other from April 2026 on: dominant, not worse or worse in each environment, by means alone.

Source: the subnet's comparator of April to July 2026. Known defect, kept: there is no test of significance.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from affine_dagster.scoring.rules.matrix import Common

__all__ = ["Comparison", "Criteria", "Standing", "compare", "standing"]

_TINY = 1e-9


class Standing(StrEnum):
    """How a challenger stands in one environment."""

    DOMINANT = "dominant"
    NOT_WORSE = "not_worse"
    WORSE = "worse"


@dataclass(frozen=True)
class Criteria:
    """What decides. Dominant: above the champion by ``margin``. Not worse: at least (1 − ``tolerance``) of it.

    In an environment of ``additive``, whose scores cross zero, both bounds are the champion ± ``additive_margin``. Fewer than ``min_tasks``
    results are worse. ``min_dominant`` environments must be dominant and none worse; 0 means that all must be dominant.
    """

    margin: float = 0.03
    tolerance: float = 0.02
    min_dominant: int = 1
    min_tasks: int = 1
    additive: Collection[str] = frozenset()
    additive_margin: float = 0.1


@dataclass(frozen=True)
class Comparison:
    """Whether the challenger wins, with the rule's own word for why."""

    wins: bool
    reason: str
    standings: tuple[Standing, ...]


def standing(environment: str, on: Common, criteria: Criteria) -> Standing:
    """A challenger (the second) against a champion (the first) in one environment."""
    additive = environment in criteria.additive
    above = criteria.additive_margin if additive else criteria.margin
    least = on.first - criteria.additive_margin if additive else on.first * (1 - criteria.tolerance)
    if on.tasks < criteria.min_tasks:
        return Standing.WORSE
    if on.second > on.first + above + _TINY:
        return Standing.DOMINANT
    return Standing.NOT_WORSE if on.second >= least - _TINY else Standing.WORSE


def compare(environments: Sequence[str], common: Sequence[Common], criteria: Criteria) -> Comparison:
    """The verdict over all environments. Too few dominant ones are told before a regression."""
    if not environments:
        return Comparison(False, "no_envs_configured", ())
    found = tuple(standing(name, on, criteria) for name, on in zip(environments, common, strict=True))
    dominant, whole = found.count(Standing.DOMINANT), len(found)
    if criteria.min_dominant <= 0:
        wins = dominant == whole
        return Comparison(wins, "all_envs_dominant" if wins else "not_all_envs_dominant", found)
    if dominant < criteria.min_dominant:
        return Comparison(False, f"insufficient_dominant_envs:{dominant}<{criteria.min_dominant}", found)
    if Standing.WORSE in found:
        at = found.index(Standing.WORSE)
        few = common[at].tasks < criteria.min_tasks
        detail = "insufficient_challenger_samples" if few else "regressed_beyond_tolerance"
        return Comparison(False, f"regressed_in_env:{environments[at]}:{detail}", found)
    return Comparison(True, f"dominant_in_{dominant}_of_{whole}_envs", found)
