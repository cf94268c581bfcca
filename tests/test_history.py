"""Which epochs of the past are meant."""

from __future__ import annotations

import pytest

from affine_dagster.history import epoch_range
from affine_dagster.reasons import AffineError


@pytest.mark.parametrize(
    ("text", "epochs"), [("all", [1, 2, 5]), ("..", [1, 2, 5]), ("2..", [2, 5]), ("..2", [1, 2]), ("2..4", [2]), ("5..5", [5])]
)
def test_a_range_names_the_known_epochs_in_it(text: str, epochs: list[int]) -> None:
    assert epoch_range(text, [5, 1, 2]) == epochs


@pytest.mark.parametrize("text", ["", "3", "3..4", "5..1", "a..b", "-1..5", "1...5", "\u0661.."])
def test_another_form_or_none_of_them_is_refused_by_name(text: str) -> None:
    with pytest.raises(AffineError, match="bad_settings: epochs"):
        epoch_range(text, [1, 2, 5])


def test_nothing_is_known_yet() -> None:
    with pytest.raises(AffineError, match="none"):
        epoch_range("all", [])
