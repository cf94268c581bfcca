"""Which epochs of the past are meant, and reading ahead."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from affine_dagster.history import ahead, epoch_range
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


# --- reading ahead ------------------------------------------------------------------------------------------------------------


def test_reading_ahead_changes_neither_items_nor_order() -> None:
    assert list(ahead(iter(range(50)))) == list(range(50))
    assert list(ahead(())) == []


def test_the_next_item_is_made_while_the_one_before_it_is_used() -> None:
    made = [threading.Event() for _ in range(2)]

    def items() -> Iterator[int]:
        for at, event in enumerate(made):
            event.set()
            yield at

    reading = ahead(items())
    assert next(reading) == 0
    assert made[1].wait(timeout=30)


def test_what_goes_wrong_in_reading_is_raised_where_it_is_used() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise AffineError("missing_input", "plan of epoch 2")

    reading = ahead(items())
    assert next(reading) == 1
    with pytest.raises(AffineError, match="plan of epoch 2"):
        next(reading)
