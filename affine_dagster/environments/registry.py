"""The environments that there are, by name.

What must not go in: how a family makes or grades tasks. A family enters the list only if its majority rate is at most 0.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from affine_dagster.environments.bit_count import BIT_COUNT
from affine_dagster.environments.chain_sum import CHAIN_SUM
from affine_dagster.environments.digit_product import DIGIT_PRODUCT
from affine_dagster.environments.number_sorting import NUMBER_SORTING
from affine_dagster.environments.port import Environment
from affine_dagster.environments.programs.family import PROGRAM_EXPRESSIONS, PROGRAM_LOOPS, PROGRAM_STRUCTURES
from affine_dagster.environments.spell_backward import SPELL_BACKWARD
from affine_dagster.environments.two_digit_sum import TWO_DIGIT_SUM
from affine_dagster.environments.who_does import WHO_DOES
from affine_dagster.reasons import AffineError

__all__ = ["MAX_MAJORITY_RATE", "accepted", "environment", "environments", "names"]

MAX_MAJORITY_RATE = 0.3
"""Above it a model that knows one answer by heart passes for a skilled one."""

_FIELD = "evaluation.environments"


def accepted(candidate: Environment) -> Environment:
    """The environment, if it may be used. Raises AffineError ``bad_settings`` if its majority rate is above 0.3 (or not a rate)."""
    if not 0 <= candidate.majority_rate <= MAX_MAJORITY_RATE:
        raise AffineError(
            "bad_settings", f"{_FIELD}: {candidate.name} is refused: one answer solves {candidate.majority_rate:.3f} of its tasks"
        )
    return candidate


_ALL: tuple[Environment, ...] = (
    NUMBER_SORTING, SPELL_BACKWARD, CHAIN_SUM, BIT_COUNT, TWO_DIGIT_SUM, DIGIT_PRODUCT, WHO_DOES,
    PROGRAM_EXPRESSIONS, PROGRAM_LOOPS, PROGRAM_STRUCTURES,
)

_FAMILIES: dict[str, Environment] = {family.name: family for family in _ALL}


def names() -> tuple[str, ...]:
    """The names of all environments, sorted."""
    return tuple(sorted(_FAMILIES))


def environment(name: str) -> Environment:
    """The environment of a name. Raises AffineError ``bad_settings`` that names the settings field and the names there are."""
    if name not in _FAMILIES:
        raise AffineError("bad_settings", f"{_FIELD}: there is no environment {name!r}; there are {', '.join(names())}")
    return accepted(_FAMILIES[name])


def environments(names: Iterable[str]) -> list[Environment]:
    """The environments of the names, in their order. Raises AffineError ``bad_settings`` for an unknown name or one that stands twice."""
    wanted = list(names)
    if len(set(wanted)) != len(wanted):
        raise AffineError("bad_settings", f"{_FIELD}: a name stands twice: {', '.join(wanted)}")
    return [environment(name) for name in wanted]
