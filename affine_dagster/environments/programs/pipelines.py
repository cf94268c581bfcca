"""Levels 4 and 5: which items of a list, what becomes of each, and what is made of them; over numbers, and over words and rows.

Each part is drawn apart, so that a level has thousands of behaviours. What must not go in: recursion (``structures.py``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from affine_dagster.environments.programs.specification import Parameter, Relation, Specification

__all__ = ["number_pipeline", "word_pipeline"]

_Part = tuple[str, str, str]
"""Name, words, code. In the code ``x`` is the item, ``{k}`` a constant, ``{z}`` zero. What is made of items is said before them, and what
becomes of each without a comma: so it is clear that the items are chosen first, changed then, and put together last."""

_NUMBERS: Sequence[_Part] = (
    ("all", "all numbers", ""), ("even", "the even numbers", " if x % 2 == 0"), ("odd", "the odd numbers", " if x % 2 == 1"),
    ("positive", "the numbers above zero", " if x > {z}"), ("negative", "the numbers below zero", " if x < {z}"),
    ("above", "the numbers greater than {k}", " if x > {k}"), ("below", "the numbers less than {k}", " if x < {k}"),
    ("multiples", "the multiples of {k}", " if x % {k} == 0"), ("not_multiples", "the numbers that are not multiples of {k}", " if x % {k} != 0"),
)
_CHANGED: Sequence[_Part] = (
    ("same", "{items}", "x"), ("squares", "the squares of {items}", "x * x"), ("doubles", "the doubles of {items}", "2 * x"),
    ("absolute", "the absolute values of {items}", "abs(x)"), ("opposites", "the opposites of {items}", "-x"),
    ("shifted", "the results of adding {k} to each of {items}", "x + {k}"),
    ("scaled", "the results of multiplying each of {items} by {k}", "x * {k}"),
    ("remainders", "the remainders of {items} modulo {k}", "x % {k}"),
)
_MADE: Sequence[_Part] = (
    ("sum", "the sum of {items}", "sum({list})"), ("count", "the number of different values among {items}", "len(set({list}))"),
    ("largest", "the largest of {items}, or 0 if there are none", "max({list}, default=0)"),
    ("smallest", "the smallest of {items}, or 0 if there are none", "min({list}, default=0)"),
    ("list", "the list of {items}", "{list}"), ("sorted", "the sorted list of {items}", "sorted({list})"),
    ("descending", "the list, from the largest to the smallest, of {items}", "sorted({list}, reverse=True)"),
    ("reversed", "the list, in reverse order, of {items}", "{list}[::-1]"),
    ("unique", "the sorted list, each value only once, of {items}", "sorted(set({list}))"),
    ("spread", "the difference between the largest and the smallest of {items}, or 0 if there are none", "max({list}, default=0) - min({list}, default=0)"),
    ("prefix", "the list of running totals of {items}", "[sum({list}[:i + 1]) for i in range(len({list}))]"),
    ("rises", "how often in {items} one is less than the one after it", "sum(p < q for p, q in zip({list}, {list}[1:]))"),
)
_IN_ANY_ORDER = frozenset({"sum", "count", "largest", "smallest", "sorted", "descending", "unique", "spread"})

_WORDS: Sequence[_Part] = (
    ("all", "all words", ""), ("longer", "the words longer than {k} letters", " if len(x) > {k}"),
    ("shorter", "the words shorter than {k} letters", " if len(x) < {k}"), ("starting", "the words that start with '{c}'", " if x.startswith('{c}')"),
    ("ending", "the words that end with '{c}'", " if x.endswith('{c}')"), ("containing", "the words that contain '{c}'", " if '{c}' in x"),
    ("without", "the words without '{c}'", " if '{c}' not in x"),
)
_SPELLED: Sequence[_Part] = (
    ("same", "{items}", "x"), ("backward", "the results of spelling each of {items} backward", "x[::-1]"),
    ("upper", "the results of writing each of {items} in capital letters", "x.upper()"), ("lengths", "the lengths of {items}", "len(x)"),
    ("initials", "the results of cutting each of {items} down to its first {k} letters", "x[:{k}]"),
    ("endings", "the results of cutting each of {items} down to its last {k} letters", "x[-{k}:]"),
    ("letters", "the results of putting the letters of each of {items} in alphabetical order", "''.join(sorted(x))"),
    ("counted", "the numbers of times that '{c}' stands in each of {items}", "x.count('{c}')"),
)
_GATHERED: Sequence[_Part] = (
    ("list", "the list of {items}", "{list}"), ("sorted", "the sorted list of {items}", "sorted({list})"),
    ("unique", "the sorted list, each only once, of {items}", "sorted(set({list}))"),
    ("tally", "a dictionary from each of {items} to how often it is among them", "{{x: {list}.count(x) for x in {list}}}"),
    ("first_places", "a dictionary from each of {items} to its first position among them", "{{x: {list}.index(x) for x in {list}}}"),
    ("commonest", "the commonest (of equally common ones the smallest, or None if there are none) of {items}",
     "min({list}, key=lambda x: (-{list}.count(x), x), default=None)"),
)
_BY_WORD_ORDER = frozenset({"sorted", "unique", "commonest"})

_ROWS: Sequence[_Part] = (
    ("row_sums", "the list of the sums of its rows", "[sum(row) for row in rows]"),
    ("row_largest", "the list of the largest number of each row, 0 for an empty row", "[max(row, default=0) for row in rows]"),
    ("flat", "all its numbers in one list, row by row", "[x for row in rows for x in row]"),
    ("long_rows", "the list of its rows with more than {k} numbers", "[row for row in rows if len(row) > {k}]"),
    ("rows_by_sum", "its rows in the order of their sums, rows of the same sum as they stood", "sorted(rows, key=sum)"),
    ("by_length", "a dictionary from each length of a row to the number of rows of that length", "{{len(row): sum(len(other) == len(row) for other in rows) for row in rows}}"),
    ("holding", "the number of its rows that hold the number {k}", "sum({k} in row for row in rows)"),
    ("diagonal", "the list of the numbers on its diagonal, as far as its rows reach", "[row[i] for i, row in enumerate(rows) if i < len(row)]"),
)


def _shuffled(dice: random.Random, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    (items,) = arguments
    return (dice.sample(items, len(items)),)


_ORDER_IS_NOTHING = Relation("the order of the items does not matter", _shuffled)


def number_pipeline(dice: random.Random) -> Specification:
    """Level 4: numbers are chosen, changed, and put together."""
    chosen, changed, made = dice.choice(_NUMBERS), dice.choice(_CHANGED), dice.choice(_MADE)
    k, q = dice.randint(2, 9), dice.randint(2, 9)
    items = changed[1].format(items=chosen[1].format(k=k), k=q)
    listed = f"[{changed[2].format(k=q)} for x in numbers{chosen[2].format(k=k, z=0)}]"
    constants = tuple(number for part, mark, number in ((chosen, "{k}", k), (chosen, "{z}", 0), (changed, "{k}", q)) if mark in part[2])
    source = f"def f(numbers):\n    items = {listed}\n    return {made[2].format(list='items')}"
    relations = (_ORDER_IS_NOTHING,) if made[0] in _IN_ANY_ORDER else ()
    name = f"{made[0]}_of_{changed[0]}_of_{chosen[0]}"
    return Specification(4, name, made[1].format(items=items), (Parameter("numbers", "integers"),), source, constants, relations)


def word_pipeline(dice: random.Random) -> Specification:
    """Level 5: words are chosen, respelled and gathered; or something is made of a list of rows."""
    if dice.random() < 0.2:
        return _of_rows(dice)
    chosen, spelled, gathered = dice.choice(_WORDS), dice.choice(_SPELLED), dice.choice(_GATHERED)
    k, q, c, d = dice.randint(2, 5), dice.randint(1, 3), dice.choice("aeorst"), dice.choice("aeorst")
    items = spelled[1].format(items=chosen[1].format(k=k, c=c), k=q, c=d).replace(" 1 letters", " letter")
    listed = f"[{spelled[2].format(k=q, c=d)} for x in words{chosen[2].format(k=k, c=c)}]"
    source = f"def f(words):\n    items = {listed}\n    return {gathered[2].format(list='items')}"
    relations = (_ORDER_IS_NOTHING,) if gathered[0] in _BY_WORD_ORDER else ()
    name = f"{gathered[0]}_of_{spelled[0]}_of_{chosen[0]}"
    return Specification(5, name, gathered[1].format(items=items), (Parameter("words", "words"),), source, (k, q), relations)


def _of_rows(dice: random.Random) -> Specification:
    name, words, code = dice.choice(_ROWS)
    k = dice.randint(1, 4)
    source = f"def f(rows):\n    return {code.format(k=k)}"
    return Specification(5, name, words.format(k=k), (Parameter("rows", "rows"),), source, (k,) if "{k}" in code else ())
