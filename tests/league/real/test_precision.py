"""The type in which a machine multiplies faster: what is quicker is chosen, whichever it is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, cycle

import pytest

from affine_dagster.league.real.precision import faster, measured_precision


@pytest.mark.parametrize(("seconds", "chosen"), [((1.0, 2.0), "float32"), ((2.0, 1.0), "bfloat16")])
def test_the_quicker_type_is_chosen(seconds: tuple[float, float], chosen: str) -> None:
    pytest.importorskip("torch")
    ticks: Iterator[float] = accumulate(cycle([0.0, seconds[0], 0.0, seconds[1]]))  # before and after a product of each
    assert faster(lambda: next(ticks)) == chosen


def test_a_machine_has_an_answer() -> None:
    pytest.importorskip("torch")
    assert measured_precision() in ("float32", "bfloat16")
