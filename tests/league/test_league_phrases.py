"""The league's tokenizer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from affine_dagster.environments.registry import environment
from affine_dagster.league.lessons import phrase_texts, tasks
from affine_dagster.league.recipes import DEMO
from affine_dagster.league.tokenizer import MARKERS, core_tokenizer, phrases, prompt_text

TOKENIZER: Tokenizer = core_tokenizer(phrases(phrase_texts(DEMO)))


@settings(deadline=None)
@given(st.text(max_size=200).filter(lambda text: not any(marker in text for marker in MARKERS)))
def test_any_text_comes_back_as_it_was(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text).ids) == text


@pytest.mark.parametrize("name", DEMO.environments)
def test_a_task_and_its_answer_are_a_few_tokens(name: str) -> None:
    most, answered = (40, 24) if name == "program_expressions" else (24, 20)  # a specification in words, and an example
    for task in tasks("development", environment(name), 0, 100):
        assert len(TOKENIZER.encode(prompt_text(task.prompt)).ids) <= most
        assert len(TOKENIZER.encode(task.answer).ids) <= answered
        assert TOKENIZER.decode(TOKENIZER.encode(task.prompt).ids) == task.prompt


def test_what_is_in_every_text_becomes_one_phrase_and_what_varies_stays_bytes() -> None:
    found = phrases([[f"Reverse the word w{number}x please" for number in range(200)]])
    assert "Reverse the word w" in found
    assert "x please" in found
    assert not any(digit in phrase for phrase in found for digit in "123456789")


def test_phrases_do_not_hang_on_the_order_of_texts() -> None:
    families = phrase_texts(DEMO)
    assert phrases(families) == phrases([texts[::-1] for texts in families[::-1]])
