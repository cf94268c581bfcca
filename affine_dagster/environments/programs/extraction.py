"""Which part of a completion is the program.

Accepted are: the first fenced block that defines the function (an unclosed last fence runs to the end); else, without fences, the text from
the first line that begins a definition or an import, up to the first line that is no code and not indented. Not accepted: a bare
expression, a bare ``return``, a lambda without a name: the prompt asks for a function. Linear in the text, which is bounded first. What
must not go in: whether the program is right.
"""

from __future__ import annotations

import re

__all__ = ["MAX_PROGRAM_CHARACTERS", "program_text"]

MAX_PROGRAM_CHARACTERS = 8000
"""Longer completions are no answer, whatever they hold."""

_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*$", re.MULTILINE)
_BEGINS = re.compile(
    r"def |class |async def |@[\w.]+(?:\(.*\))? *(?:#|$)|import +[\w.]+ *(?:,|as |;|#|$)|from +[\w.]+ +import |[A-Za-z_]\w* = "
)
_GOES_ON = re.compile(r"[A-Za-z_][\w.]*(?:\(.*\) *$|(?::[\w.\[\], ]+| *)=[^=])")
"""A call, or an assignment however it is written: code if code stands before it, and else as likely prose.

No two repetitions that take the same character stand beside each other: a line of spaces would be split between them in every way.
"""


def program_text(completion: str, function: str = "f") -> str | None:
    """The program's source, or None where there is none that could define the function."""
    if len(completion) > MAX_PROGRAM_CHARACTERS:
        return None
    text = completion.replace("\r\n", "\n")
    defines = re.compile(rf"^[ \t]*(?:def[ \t]+{function}[ \t]*\(|{function}[ \t]*=)", re.MULTILINE)
    parts = _FENCE.split(text)
    fenced = parts[1::2]
    source = next((_dedented(block) for block in fenced if defines.search(block)), None) if fenced else _unfenced(text)
    return source if source is not None and defines.search(source) else None


def _dedented(block: str) -> str:
    """A block that is indented as a whole is meant without it."""
    lines = block.strip("\n").split("\n")
    margin = len(lines[0]) - len(lines[0].lstrip(" \t"))
    indent = lines[0][:margin]
    return "\n".join(line.removeprefix(indent) for line in lines) + "\n"


def _unfenced(text: str) -> str | None:
    kept: list[str] = []
    for line in text.split("\n"):
        begins = _BEGINS.match(line) is not None
        if not kept and not (begins or line.lstrip().startswith("def ")):
            continue
        if kept and not (begins or line[:1] in (" ", "\t", "", ")", "]", "}", "#") or _GOES_ON.match(line)):
            break
        kept.append(line if kept else line.lstrip())
    return "\n".join(kept) + "\n" if kept else None
