"""Arguments by kind: the edges that careless programs forget, and random ones around the specification's constants.

What must not go in: what a program makes of them. Nothing here is larger than a reference can do in a millisecond.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from affine_dagster.environments.programs.specification import Kind, Parameter

__all__ = ["argument_lists", "draw", "edges"]

_LETTERS = "aeorstbn"
_Draw = Callable[[random.Random, Sequence[int]], Any]


def _integer(dice: random.Random, constants: Sequence[int]) -> int:
    if constants and dice.random() < 0.3:
        return dice.choice([-1, 1]) * dice.choice(constants) + dice.randint(-1, 1)
    return dice.randint(-20, 20) if dice.random() < 0.8 else dice.randint(-1000, 1000)


def _count(dice: random.Random, constants: Sequence[int]) -> int:
    return dice.randint(0, 25)


def _integers(dice: random.Random, constants: Sequence[int]) -> list[int]:
    return [_integer(dice, constants) for _ in range(dice.randint(1, 9))]


def _word(dice: random.Random) -> str:
    return "".join(dice.choice(_LETTERS) for _ in range(dice.randint(1, 7)))


def _words(dice: random.Random, constants: Sequence[int]) -> list[str]:
    pool = [_word(dice) for _ in range(dice.randint(2, 6))]
    return [dice.choice(pool) for _ in range(dice.randint(1, 8))]


def _text(dice: random.Random, constants: Sequence[int]) -> str:
    return " ".join(_words(dice, constants))


def _rows(dice: random.Random, constants: Sequence[int]) -> list[list[int]]:
    return [[dice.randint(-3, 9) for _ in range(dice.randint(0, 5))] for _ in range(dice.randint(1, 5))]


def _nested(dice: random.Random, constants: Sequence[int], depth: int = 0) -> list[Any]:
    found: list[Any] = []
    for _ in range(dice.randint(0 if depth else 1, 4)):
        deeper = dice.random() < 0.45 and depth < 4
        found.append(_nested(dice, constants, depth + 1) if deeper else _integer(dice, constants))
    return found


def _tree(dice: random.Random, constants: Sequence[int], depth: int = 0) -> list[Any] | None:
    if depth and dice.random() < 0.25 + 0.1 * depth:
        return None
    return [_integer(dice, constants), _tree(dice, constants, depth + 1), _tree(dice, constants, depth + 1)]


def _intervals(dice: random.Random, constants: Sequence[int]) -> list[list[int]]:
    starts = [dice.randint(0, 20) for _ in range(dice.randint(1, 6))]
    return [[start, start + dice.randint(0, 6)] for start in starts]


def _grid(dice: random.Random, constants: Sequence[int]) -> list[str]:
    width, wall = dice.randint(1, 6), dice.choice([0.1, 0.25, 0.4])
    rows = ["".join("#" if dice.random() < wall else "." for _ in range(width)) for _ in range(dice.randint(1, 6))]
    if dice.random() < 0.15:
        return rows
    rows[0] = "." + rows[0][1:]
    rows[-1] = rows[-1][:-1] + "."
    return rows


def _postfix(dice: random.Random, constants: Sequence[int], depth: int = 0) -> list[int | str]:
    if depth > 3 or (depth and dice.random() < 0.4):
        return [dice.randint(-9, 9)]
    return [*_postfix(dice, constants, depth + 1), *_postfix(dice, constants, depth + 1), dice.choice("+-*@")]


def _edges_of_a_graph(dice: random.Random, constants: Sequence[int]) -> list[list[int]]:
    size = constants[0]
    return [[dice.randrange(size), dice.randrange(size)] for _ in range(dice.randint(1, size))]


def _brackets(dice: random.Random, constants: Sequence[int]) -> str:
    def made(depth: int) -> str:
        parts = []
        for _ in range(dice.randint(0 if depth else 1, 3)):
            pair = dice.choice(["()", "[]"])
            parts.append(pair[0] + (made(depth + 1) if depth < 5 else "") + pair[1] + dice.choice(["", "", "x"]))
        return "".join(parts)

    text = made(0)
    if text and dice.random() < 0.3:
        place = dice.randrange(len(text))
        text = text[:place] + dice.choice(["", "(", "]"]) + text[place + 1 :]
    return text


_DRAWS: Mapping[Kind, _Draw] = {
    "integer": _integer, "count": _count, "integers": _integers, "words": _words, "text": _text, "rows": _rows, "nested": _nested,
    "tree": _tree, "intervals": _intervals, "grid": _grid, "postfix": _postfix, "edges": _edges_of_a_graph, "brackets": _brackets,
}

_MAZES = (
    [".#...", "...#.", "#.#..", "##..#", ".....", "##.#."],
    ["...#..", "###..#", "#.###.", ".#....", ".####.", "#..###", "..#..."],
    ["..#.#.", "..##.#", "#.#.#.", ".##.#.", "...##."],
    ["..####", ".##...", ".#.##.", ".##.#.", "...##."], [".#..##", ".###.#", "#..#.#", ".##.#."],
)
"""Found by search: the first has another shortest way if any of the four straight steps is missing, each of the eight steps is missed in
one of the next three, and in the last fewer cells can be reached if any of the eight is missing. Random grids can nearly always be
crossed by steps to the right and down."""

_FAR = (-1000, 1000)
_EDGES: Mapping[Kind, Sequence[Any]] = {
    "integer": (0, 1, -1, 2, -7, 1000), "count": (0, 1, 2, 3, 5), "integers": ([], [0], [0, 0], [-5, 5, -5], [7, 6, 5, 4, 3, 2, 1]),
    "words": ([], ["a"], ["a", "a"], ["st", "ts", "STst"], [""]), "text": ("", "a"),
    "rows": ([], [[]], [[], [1]], [[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[2, 1], [0, 3], [1, 2]]),
    "nested": ([], [[]], [[[[9]]]], [5, [5, [5, [5]]]]),
    "tree": (None, [3, None, None], [-4, [9, None, None], None], [0, None, [0, None, None]]),
    "intervals": ([], [[1, 1]], [[5, 6], [1, 9]], [[0, 1], [2, 3], [4, 5]], [[0, 1], [3, 4], [6, 9]], [[1, 30], [2, 3], [10, 11]]),
    "grid": (["."], ["#"], ["..", ".."], [".#", "#."], ["...", "##.", "..."], *_MAZES), "postfix": ([7], [1, 2, "-"], [2, 3, "@"]),
    "edges": ([], [[0, 1]], [[0, 0]], [[1, 2], [2, 3], [0, 4]]), "brackets": ("", "()", "(]", "((", "[([()])]", ")("),
}


def draw(kind: Kind, dice: random.Random, constants: Sequence[int]) -> Any:
    """A random argument of a kind; a third of the whole numbers lie at a constant or next to one."""
    return _DRAWS[kind](dice, constants)


def edges(kind: Kind, constants: Sequence[int]) -> list[Any]:
    """The arguments of a kind that careless programs forget; numbers at each constant and beside it."""
    near = [number for constant in constants for number in (constant - 1, constant, constant + 1)]
    if kind == "integer":
        return [*_EDGES[kind], *near]
    return [*_EDGES[kind], near] if kind == "integers" else list(_EDGES[kind])


def argument_lists(
    parameters: Sequence[Parameter], dice: random.Random, constants: Sequence[int], count: int, begun: Sequence[tuple[Any, ...]] = ()
) -> list[tuple[Any, ...]]:
    """Arguments for at least ``count`` calls, all different, or for all that a count can be.

    First those that were ``begun`` with, then every edge of every parameter, then random ones. Where there are several whole numbers an
    edge comes with a random other, a very small, a very large and the same one: a program that is one off shows there or nowhere.
    """
    found = {repr(list(arguments)): arguments for arguments in begun}
    for place, parameter in enumerate(parameters):
        for edge in edges(parameter.kind, constants):
            beside = [[draw(other.kind, dice, constants) for other in parameters]]
            if len(parameters) > 1:  # whole numbers all of them
                beside += [[other] * len(parameters) for other in (*_FAR, edge)]
            for arguments in beside:
                arguments[place] = edge
                found[repr(arguments)] = tuple(arguments)
    for _ in range(20 * count):
        if len(found) >= count:
            break
        drawn = tuple(draw(parameter.kind, dice, constants) for parameter in parameters)
        found[repr(list(drawn))] = drawn
    return list(found.values())
