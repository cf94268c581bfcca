"""What of a completion is the program: golden cases of what small and large models write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.environments.programs.extraction import MAX_PROGRAM_CHARACTERS, program_text

BODY = "def f(a, b):\n    return a + b"

TAKEN = {
    "bare": BODY,
    "bare with prose before and behind": f"Here is it:\n\n{BODY}\n\nIt adds the numbers.",
    "fenced": f"```python\n{BODY}\n```",
    "fenced without a language": f"```\n{BODY}\n```",
    "fenced with prose": f"Sure!\n```python\n{BODY}\n```\nThis adds a and b.",
    "fenced with tildes": f"~~~\n{BODY}\n~~~",
    "fence never closed": f"```python\n{BODY}",
    "indented fence": "1. Like this:\n    ```python\n    def f(a, b):\n        return a + b\n    ```",
    "a second fence that calls it": f"```python\n{BODY}\n```\nUse it:\n```python\nprint(f(1, 2))\n```",
    "a first fence that calls it": f"```python\nprint(f(1, 2))\n```\n```python\n{BODY}\n```",
    "windows lines": BODY.replace("\n", "\r\n"),
    "indented as a whole": "  def f(a, b):\n    return a + b",
    "with a helper": f"def g(a):\n    return a\n\n{BODY}",
    "with an import": f"import math\n{BODY}",
    "with a constant": f"LIMIT = 3\n{BODY}",
    "with a decorator": f"import functools\n@functools.cache\n{BODY}",
    "with a comment": f"import math\n# adds\n{BODY}",
    "with a blank line inside": "def f(a, b):\n    c = a\n\n    return c + b",
    "with a closing bracket at the margin": "def f(a, b):\n    return sum([\n        a, b,\n])\n\nDone.",
    "prose that begins like an import": f"from the words it follows that\nimport is not needed:\n@all see\n{BODY}",
    "with two imports": f"import math, re\nfrom collections import Counter\n{BODY}",
    "with a call after an import": f"import sys\nsys.setrecursionlimit(10**4)\n{BODY}",
    "with assignments as they come": f"import math\nK=3\nMEMO: dict[int, int] = {{}}\n{BODY}",
    "a named lambda": "```python\nf = lambda a, b: a + b\n```",
}


@pytest.mark.parametrize("completion", TAKEN.values(), ids=list(TAKEN))
def test_a_program_is_found_and_defines_the_function(completion: str) -> None:
    source = program_text(completion)
    assert source is not None
    space: dict[str, object] = {}
    exec(compile(source, "test", "exec"), space)  # noqa: S102
    assert space["f"](1, 2) == 3  # type: ignore[operator]


REFUSED = {
    "nothing": "", "prose": "The sum of a and b is a + b.", "a bare expression": "a + b", "a bare return": "return a + b",
    "a lambda without a name": "lambda a, b: a + b", "another function": "def g(a, b):\n    return a + b",
    "an inner mention": "call f(a, b)",
    "an empty fence": "```python\n```", "a fence without the function": "```python\nprint(1)\n```\ndef f(a, b): return 1",
    "a flood": BODY + " " * MAX_PROGRAM_CHARACTERS,
}


@pytest.mark.parametrize("completion", REFUSED.values(), ids=list(REFUSED))
def test_what_defines_no_function_is_no_program(completion: str) -> None:
    assert program_text(completion) is None


@given(st.text(st.sampled_from("`~\n def f(:=)#@x"), max_size=300))
def test_any_text_is_a_program_or_none(text: str) -> None:
    source = program_text(text)
    assert source is None or "f" in source


HEADS = ("", "f", "f:", "f: int", "f(", "@a", "@a(", "import ", "import a", "from a", "def ", "def f", "```")


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("filler", [" ", "\t", "a", ".", ") ", "a ", "a.", ",", "[", "= ", ": ", "(", "\n "], ids=repr)
def test_a_line_of_one_thing_is_read_in_linear_time(head: str, filler: str) -> None:
    """Where a pattern could split such a line in many ways, this test would run for minutes (it did: ``f:`` and eight thousand spaces)."""
    line = (head + filler * MAX_PROGRAM_CHARACTERS)[: MAX_PROGRAM_CHARACTERS - 20]
    for text in (f"import a\n{line}x", f"{line}x\n{BODY[:10]}"):
        source = program_text(text)
        assert source is None or "f" in source
