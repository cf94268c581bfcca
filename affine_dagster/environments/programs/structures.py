"""Level 6: recursion, trees, intervals, grids, stacks, graphs: what needs more than one pass over a list.

Each builder has parameters of its own, so that knowing one program by heart solves few tasks. What must not go in: how inputs of these
shapes are drawn (``inputs.py``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from affine_dagster.environments.programs.specification import Builder, Parameter, Relation, Specification

__all__ = ["structure"]


def _recurrence(dice: random.Random) -> Specification:
    p, q, r, s, m = dice.randint(0, 3), dice.randint(1, 4), dice.randint(1, 3), dice.randint(-2, 3), dice.choice([97, 101, 1009])
    words = (
        f"the n-th number of the sequence that begins with {p}, {q} (n is 0 and 1) and goes on with {r} times the last plus {s} times "
        f"the one before, modulo {m}"
    )
    source = f"def f(n):\n    a, b = {p}, {q}\n    for _ in range(n):\n        a, b = b, ({r} * b + {s} * a) % {m}\n    return a"
    return Specification(6, "recurrence", words, (Parameter("n", "count"),), source)


def _nested_sum(dice: random.Random) -> Specification:
    weight, limit = dice.randint(1, 4), dice.randint(-3, 6)
    words = (
        f"the sum of all numbers greater than {limit} in a list that may hold lists in lists, where a number counts {weight} more times "
        "for each list that it lies deeper (once in the outermost)"
    )
    source = (
        "def f(nested):\n    def total(items, depth):\n        return sum(total(x, depth + 1) if isinstance(x, list) else "
        f"x * (1 + {weight} * depth) * (x > {limit}) for x in items)\n    return total(nested, 0)"
    )
    return Specification(6, "nested_sum", words, (Parameter("nested", "nested"),), source, (limit,))


def _nested_flat(dice: random.Random) -> Specification:
    k = dice.randint(1, 3)
    words = (
        "all numbers of a list that may hold lists in lists, in one list from left to right, but not those in a list that lies in more "
        f"than {k} others"
    )
    source = (
        "def f(nested):\n    def flat(items, depth):\n        found = []\n        for x in items:\n            if not isinstance(x, list):\n"
        f"                found.append(x)\n            elif depth < {k}:\n                found += flat(x, depth + 1)\n        return found\n"
        "    return flat(nested, 0)"
    )
    return Specification(6, "nested_flat", words, (Parameter("nested", "nested"),), source)


_TREE = "a binary tree, given as [value, left, right] or None"
_TREE_WORDS: Sequence[tuple[str, str, str]] = (
    ("tree_path", "the largest sum of values on a way from the root of {t} down to a leaf, each value plus {k}, or 0 for None",
     "0 if tree is None else tree[0] + {k} + (max(f(x) for x in tree[1:] if x is not None) if tree[1] or tree[2] else 0)"),
    ("tree_depth", "the sum over all nodes of {t} of value times (depth plus {k}), where the root has depth 0",
     "_weighed(tree, {k})"),
    ("tree_order", "the list of the values of {t} that are not {k}, the left subtree before a node and the right one after it",
     "[] if tree is None else f(tree[1]) + [tree[0]] * (tree[0] != {k}) + f(tree[2])"),
    ("tree_leaves", "the number of leaves of {t} whose value is greater than {k}",
     "0 if tree is None else int(tree[0] > {k}) if not tree[1] and not tree[2] else f(tree[1]) + f(tree[2])"),
)


def _tree(dice: random.Random) -> Specification:
    name, words, code = dice.choice(_TREE_WORDS)
    k = dice.randint(-2, 5)
    helper = "def _weighed(tree, depth):\n    return 0 if tree is None else tree[0] * depth + _weighed(tree[1], depth + 1) + _weighed(tree[2], depth + 1)\n\n"
    source = f"{helper if '_weighed' in code else ''}def f(tree):\n    return {code.format(k=k)}"
    return Specification(6, name, words.format(t=_TREE, k=k), (Parameter("tree", "tree"),), source, (k,))


def _shuffled(dice: random.Random, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return (dice.sample(arguments[0], len(arguments[0])), *arguments[1:])


_ANY_ORDER = Relation("the order of the items does not matter", _shuffled)


def _intervals(dice: random.Random) -> Specification:
    gap, longest = dice.randint(0, 3), dice.choice(["merged", "len(merged)", "sum(end - start for start, end in merged)"])
    what = {
        "merged": "the sorted list of merged intervals", "len(merged)": "the number of merged intervals",
    }.get(longest, "the sum of end minus start over the merged intervals")
    words = f"{what} when the intervals [start, end] of a list are merged wherever the next starts at most {gap} after the end of one before it"
    source = (
        "def f(intervals):\n    merged = []\n    for start, end in sorted(intervals):\n"
        f"        if merged and start <= merged[-1][1] + {gap}:\n            merged[-1][1] = max(merged[-1][1], end)\n"
        f"        else:\n            merged.append([start, end])\n    return {longest}"
    )
    return Specification(6, "intervals", words, (Parameter("intervals", "intervals"),), source, (gap,), (_ANY_ORDER,))


def _grid(dice: random.Random) -> Specification:
    diagonal, longest = dice.random() < 0.5, dice.random() < 0.5
    moves = "[(0, 1), (1, 0), (0, -1), (-1, 0)" + (", (1, 1), (1, -1), (-1, 1), (-1, -1)]" if diagonal else "]")
    how = "to the eight cells around it" if diagonal else "up, down, left and right"
    what = (
        "the fewest steps from the upper left to the lower right cell, or -1 where there is no way" if longest
        else "the number of cells that can be reached from the upper left cell, itself included, or 0 where it is '#'"
    )
    words = f"for a grid, given as a list of strings of '.' and '#', {what}; a step goes {how}, and never onto '#'"
    end = "steps.get((len(grid) - 1, len(grid[0]) - 1), -1)" if longest else "len(steps)"
    source = (
        f"def f(grid):\n    steps = {{(0, 0): 0}} if grid[0][0] == '.' else {{}}\n    todo = list(steps)\n    for i, j in todo:\n"
        f"        for di, dj in {moves}:\n            cell = (i + di, j + dj)\n"
        "            if 0 <= cell[0] < len(grid) and 0 <= cell[1] < len(grid[0]) and grid[cell[0]][cell[1]] == '.' and cell not in steps:\n"
        f"                steps[cell] = steps[i, j] + 1\n                todo.append(cell)\n    return {end}"
    )
    return Specification(6, "grid_steps" if longest else "grid_reach", words, (Parameter("grid", "grid"),), source)


def _postfix(dice: random.Random) -> Specification:
    k = dice.randint(2, 9)
    words = (
        f"the value of an expression in postfix order, given as a list of whole numbers and of '+', '-', '*' and '@', where p q @ means {k} times p minus q"
    )
    source = (
        "def f(tokens):\n    stack = []\n    for token in tokens:\n        if isinstance(token, int):\n            stack.append(token)\n            continue\n"
        "        q, p = stack.pop(), stack.pop()\n        stack.append(p + q if token == '+' else p - q if token == '-' else p * q if token == '*' "
        f"else {k} * p - q)\n    return stack[-1]"
    )
    return Specification(6, "postfix", words, (Parameter("tokens", "postfix"),), source)


def _graph(dice: random.Random) -> Specification:
    what, code = dice.choice([
        ("the number of groups of connected points", "len(groups)"), ("the size of the largest group of connected points", "max(map(len, groups))"),
        ("the sorted list of the smallest point of each group of connected points", "sorted(map(min, groups))"),
        ("the number of points that are in the group of point 0", "len(next(g for g in groups if 0 in g))"),
    ])
    size = dice.randint(5, 9)
    words = f"{what}, where the points are 0 to {size - 1} and a list of pairs [p, q] says which are joined"
    source = (
        f"def f(edges):\n    groups = [{{point}} for point in range({size})]\n    for p, q in edges:\n        joined = [g for g in groups if p in g or q in g]\n"
        f"        groups = [g for g in groups if g not in joined] + [set().union(*joined)]\n    return {code}"
    )
    return Specification(6, "graph", words, (Parameter("edges", "edges"),), source, (size,), (_ANY_ORDER,))


def _ways(dice: random.Random) -> Specification:
    coins = sorted(dice.sample(range(1, 10), 3))
    ordered = dice.random() < 0.5
    words = (
        f"in how many ways n can be written as a sum of the numbers {coins[0]}, {coins[1]} and {coins[2]}, each used any number of times (0 in one way), "
        + ("where another order is another way" if ordered else "where the order does not matter")
    )
    body = (
        f"    for total in range(1, n + 1):\n        ways[total] = sum(ways[total - c] for c in {coins} if c <= total)\n" if ordered
        else f"    for c in {coins}:\n        for total in range(c, n + 1):\n            ways[total] += ways[total - c]\n"
    )
    source = f"def f(n):\n    ways = [1] + [0] * n\n{body}    return ways[n]"
    return Specification(6, "ways_ordered" if ordered else "ways", words, (Parameter("n", "count"),), source)


def _brackets(dice: random.Random) -> Specification:
    k = dice.randint(1, 3)
    words = f"how many of the round and square brackets in a text lie deeper than {k}, the outermost at depth 1, or -1 if they do not close each other properly"
    source = (
        "def f(text):\n    stack, deep = [], 0\n    for c in text:\n        if c in '([':\n            stack.append(c)\n"
        f"            deep += len(stack) > {k}\n        elif c in ')]':\n            if not stack or stack.pop() + c not in ('()', '[]'):\n"
        f"                return -1\n            deep += len(stack) >= {k}\n    return -1 if stack else deep"
    )
    return Specification(6, "brackets", words, (Parameter("text", "brackets"),), source)


_BUILDERS: Sequence[Builder] = (_recurrence, _nested_sum, _nested_flat, _tree, _tree, _intervals, _grid, _postfix, _graph, _ways, _brackets)


def structure(dice: random.Random) -> Specification:
    """Level 6: one of the builders, with parameters of its own."""
    built = dice.choice(_BUILDERS)(dice)
    return replace(built, words=built.words.replace(" plus -", " minus "))
