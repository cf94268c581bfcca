"""Normal forms of answers: what a completion says, or None when it says nothing that can be judged.

Graders compare normal forms and nothing else. What must not go in: a family, a reward, and anything that searches a text
for something that looks right ("reward: 1" holds a number and is no answer). All patterns are linear in the text, which is
bounded first, so hostile text costs microseconds.
"""

from __future__ import annotations

import re

__all__ = ["MAX_ANSWER_CHARACTERS", "bounded", "integer", "integer_list", "word"]

MAX_ANSWER_CHARACTERS = 2000
"""Longer completions are wrong whatever they hold: an answer here is a few characters, and a flood is no answer."""

_INTEGER = r"[+\-\u2212]?\$?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.0*)?"
_ALONE = re.compile(_INTEGER)
_STATED = re.compile(rf"\banswer(?:[ ]is[ :]|:)[ ]?({_INTEGER})(?![0-9A-Za-z])", re.IGNORECASE)
_DIGIT = re.compile(r"[0-9]")
_ANSWER_WORD = re.compile(r"\banswer\b", re.IGNORECASE)
_LIST = re.compile(r"\[(.*)\]", re.DOTALL)
_ITEM = re.compile(rf"(['\"]?)({_INTEGER})\1")


def bounded(completion: str) -> str | None:
    """The completion without white space at its ends; None if it is empty or longer than 2,000 characters as it came."""
    if len(completion) > MAX_ANSWER_CHARACTERS:
        return None
    return completion.strip() or None


def integer(completion: str) -> int | None:
    """The one whole number that a completion gives as its answer, or None.

    Either the number alone ("29", "29.", "29.0", "$29.00", "1,000", "-4", with a Unicode minus too), or in a sentence that
    says "answer is" or "answer:" right before it (cases E1, E2). A second "answer", or a number after it, is hedging: None.
    """
    text = bounded(completion)
    if text is None:
        return None
    if _ALONE.fullmatch(text):
        return _value(text)
    stated = _STATED.search(text)
    if stated is None or len(_ANSWER_WORD.findall(text)) != 1 or _DIGIT.search(text, stated.end()):
        return None
    return _value(stated.group(1))


def integer_list(completion: str) -> tuple[int, ...] | None:
    """The whole numbers of a completion that is one bracketed list, with or without quotes, in any spacing; else None."""
    text = bounded(completion)
    inside = None if text is None else _LIST.fullmatch(text)
    if inside is None:
        return None
    items = [_ITEM.fullmatch(part.strip()) for part in inside.group(1).split(",")]
    values = tuple(_value(item.group(2)) for item in items if item is not None)
    return values if len(values) == len(items) else None


def word(completion: str) -> str | None:
    """A completion that is one word of ASCII letters and digits, in lower case; else None."""
    text = bounded(completion)
    return text.lower() if text is not None and text.isascii() and text.isalnum() else None


def _value(text: str) -> int:
    return int(text.replace("\u2212", "-").replace("$", "").replace(",", "").partition(".")[0])
