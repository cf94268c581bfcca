"""Normal forms of answers: what a completion says, or None when it says nothing that can be judged.

Graders compare normal forms and nothing else. What must not go in: a family, a reward, and anything that searches a text
for something that looks right ("reward: 1" holds a number and is no answer). All patterns are linear in the text, which is
bounded first, so hostile text costs microseconds.
"""

from __future__ import annotations

import re

__all__ = ["MAX_ANSWER_CHARACTERS", "bounded", "calculated", "integer", "integer_list", "named", "word"]

MAX_ANSWER_CHARACTERS = 2000
"""Longer completions are wrong whatever they hold: an answer here is a few characters, and a flood is no answer."""

_INTEGER = r"[+\-\u2212]?\$?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.0*)?"
_ALONE = re.compile(_INTEGER)
_STATED = re.compile(rf"\banswer(?:[ ]is[ :]|:)[ ]?({_INTEGER})(?![0-9A-Za-z])", re.IGNORECASE)
_STATED_OF = re.compile(rf"\banswer to [a-z ]{{1,60}} is ({_INTEGER})(?![0-9A-Za-z])", re.IGNORECASE)
_PARTS = re.compile(r"[0-9]+|\S")
_DIGIT = re.compile(r"[0-9]")
_ANSWER_WORD = re.compile(r"\banswer\b", re.IGNORECASE)
_LIST = re.compile(r"\[(.*)\]", re.DOTALL)
_NAME = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*")
_PERSON = re.compile(r"(?:the name of )?the person who ", re.IGNORECASE)
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


def calculated(expression: str, completion: str) -> int | None:
    """The one whole number that a completion gives as the value of an expression, or None.

    What :func:`integer` takes; or a first line that restates the expression and says what it equals ("98 + 93 = 191", spaces as
    one likes, a full stop behind it), whatever other lines explain; or "answer to ... is" right before the number, where the words
    between hold no digit, nothing says "answer" twice and no digit follows. Another expression's line is no answer, right or wrong.
    """
    given = integer(completion)
    text = bounded(completion)
    if given is not None or text is None:
        return given
    left, equals, right = text.partition("\n")[0].partition("=")
    if equals and _PARTS.findall(left) == _PARTS.findall(expression):
        line = _ALONE.fullmatch(right.strip())
        return None if line is None else _value(line.group())
    stated = _STATED_OF.search(text)
    if stated is None or len(_ANSWER_WORD.findall(text)) != 1 or _DIGIT.search(text, stated.end()):
        return None
    return _value(stated.group(1))


def named(predicate: str, completion: str) -> str | None:
    """The one name that a completion gives to "Who ``predicate``?", in lower case; else None.

    The name alone, or one sentence that restates the predicate: "Amani abhors zoology." or "The name of the person who abhors zoology
    is Amani." (with or without "the name of"). A name is ASCII letters with inner apostrophes and hyphens; a full stop may follow.
    """
    text = bounded(completion)
    if text is None:
        return None
    text, asked = text.replace("\u2019", "'").removesuffix("."), predicate.replace("\u2019", "'")
    opened = _PERSON.match(text)
    if opened is not None and text.startswith(f"{asked} is ", opened.end()):
        name = text[opened.end() + len(asked) + len(" is ") :]
    else:
        name = text.removesuffix(f" {asked}")
    return name.lower() if _NAME.fullmatch(name) else None


def _value(text: str) -> int:
    return int(text.replace("\u2212", "-").replace("$", "").replace(",", "").partition(".")[0])
