"""Normal forms: what counts as the same answer, and what is no answer (cases E1, E2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.environments.answers import MAX_ANSWER_CHARACTERS, bounded, calculated, integer, integer_list, named, word


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
    for candidate in (text, f"1 + 1 = {text}", f"answer to {text} is 2", f"the person who {text} is {text}"):
        calculated("1 + 1", candidate)
        named(text, candidate)


@pytest.mark.parametrize(
    "text",
    [
        "191", "191.", "98 + 93 = 191", "98 + 93 = 191.", "98+93=191",
        "  98 + 93  =  191\n", "98 + 93 = 191\n\nThe sum of 98 and 93 is 191.",
        "98 + 93 = 191\nThat is it.", "The answer is 191.", "The answer to this arithmetic problem is 191.",
        "The final answer to the given arithmetic problem is 191.",
    ],
)
def test_a_value_is_a_number_alone_or_behind_its_own_expression_or_stated(text: str) -> None:
    assert calculated("98 + 93", text) == 191


@pytest.mark.parametrize(
    "text",
    [
        "93 + 98 = 191", "98 - 93 = 191", "= 191", "191 = 98 + 93", "98 + 93", "98 + 93 = 191 or 192", "98 + 93 = 192 = 191", "98 + 93 = x",
        "So 98 + 93 = 191", "1. 98 + 93 = 191", "I think\n98 + 93 = 191", "98 + 93 is 191", "98 + 93 = 191 98 + 93 = 192", "reward: 191",
        "The answer to this is not 191.", "The answer to 98 + 93 is 191.", "The answer to this is 191 or 192.",
        "The answer to this is 191. The answer to that is 192.", "The answer to this is 190, 191",
        "9 8 + 93 = 191", "98 + 93 = 191x", "98 + 93 = 191.5",
    ],
)
def test_another_expression_s_line_or_hedging_is_no_value(text: str) -> None:
    assert calculated("98 + 93", text) is None


def test_only_the_first_line_restates_and_what_it_says_stands() -> None:
    """Who says two things in two lines has said the first: a list of guesses gains nothing."""
    assert calculated("98 + 93", "98 + 93 = 190\n98 + 93 = 191") == 190


@given(st.integers(-999, 999), st.integers(0, 999), st.sampled_from("+-*"))
def test_every_restated_expression_gives_what_is_said(value: int, term: int, sign: str) -> None:
    expression = f"{term} {sign} 7"
    assert calculated(expression, f"{expression} = {value}") == calculated(expression, str(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "Amani", "amani.", " Amani\n", "Amani can\u2019t bear zoology.", "Amani can't bear zoology",
        "The name of the person who can't bear zoology is Amani.", "The person who can\u2019t bear zoology is Amani",
    ],
)
def test_a_name_is_given_alone_or_with_the_predicate_restated(text: str) -> None:
    assert named("can\u2019t bear zoology", text) == "amani"


@pytest.mark.parametrize(
    "text",
    [
        "Amani, Zaak", "Amani or Zaak",
        "Amani loves zoology.", "Zaak adores tea. Amani can't bear zoology.", "Amani, who can't bear zoology.",
        "can't bear zoology", "The person who can't bear tea is Amani.", "The person who can't bear zoology is Amani or Zaak.",
        "The person who can't bear zoology is not Amani.", "The person who can't bear zoology is", "Amani..", "Amani1", "-Amani", "", ".",
    ],
)
def test_several_names_or_another_predicate_are_no_name(text: str) -> None:
    assert named("can\u2019t bear zoology", text) is None


def test_names_with_marks_inside_are_names() -> None:
    assert named("hums", "D\u2019arcy") == named("hums", "D'arcy hums.") == "d'arcy"
    assert named("hums", "Kurtis-Jae") == "kurtis-jae"
