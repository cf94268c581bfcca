"""Normal forms: what counts as the same answer, and what is no answer (cases E1, E2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.environments.answers import MAX_ANSWER_CHARACTERS, bounded, integer, integer_list, word


def test_a_number_is_found_in_a_sentence_that_states_the_answer() -> None:
    """Case E1: the last "number" of this sentence was taken to be a comma."""
    assert integer("The answer is 72, in total, so the farmer earns that much.") == 72


@pytest.mark.parametrize("text", ["$29.00", "29.", "29.0", "29", "+29", " 29\n", "029", "Answer: 29.", "3 + 26 = 29, so the answer is 29"])
def test_spellings_of_one_number_are_one_number(text: str) -> None:
    """Case E2."""
    assert integer(text) == 29


@pytest.mark.parametrize(
    ("text", "value"), [("1,000", 1000), ("1,000,000.00", 10**6), ("-4", -4), ("\u22124", -4), ("-$4.0", -4), ("-0", 0)]
)
def test_thousands_and_signs(text: str, value: int) -> None:
    assert integer(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "reward: 1", "1 2", "1,00", "1,0000", "29.5", "29.0.0", "1e3", "0x10", "٣", "²", "--1", "3 + 4", "seven", ".", ",", "",
        "The answer is 3. The answer is 4.", "the answer is 3 or 4", "the answer is 3.5", "the answer is 12a", "answer",
        "the answer is not 5", "unanswer: 5",
    ],
)
def test_what_is_no_number_or_hedges_is_no_answer(text: str) -> None:
    assert integer(text) is None


@given(st.integers(-(10**9), 10**9))
def test_every_printed_form_of_an_integer_is_that_integer(value: int) -> None:
    for text in (str(value), f"{value:,}", f"{value}.0", f"{value:,}.", f"The answer is {value}."):
        assert integer(text) == value


@pytest.mark.parametrize("text", ["['1', '2']", "[1,2]", '[ "1.0" ,\n"2." ]', "['01','2']", "  [1, 2]  "])
def test_spellings_of_one_list_are_one_list(text: str) -> None:
    assert integer_list(text) == (1, 2)


@pytest.mark.parametrize(
    "text", ["1, 2", "[1 2]", "[1, 2", "[[1, 2]]", "[1, 2] [3]", "['1\", '2']", "[1, x]", "[1,,2]", "[]", "['']", "(1, 2)"]
)
def test_what_is_no_list_of_numbers_is_no_answer(text: str) -> None:
    assert integer_list(text) is None


def test_a_word_is_compared_without_case_and_alone() -> None:
    assert word(" Sun\n") == word("sun") == "sun"
    assert word("sun sun") is None
    assert word("sun.") is None
    assert word("\u212a") is None, "the Kelvin sign becomes an ASCII k in lower case"


@given(st.text(min_size=MAX_ANSWER_CHARACTERS + 1, max_size=MAX_ANSWER_CHARACTERS + 40))
def test_a_flood_is_no_answer(text: str) -> None:
    assert bounded(text) is None


@given(st.text())
def test_normal_forms_never_raise(text: str) -> None:
    for form in (integer, integer_list, word):
        for candidate in (text, f"[{text}]", f"answer is {text}", f"answer: 5{text}"):
            form(candidate)
