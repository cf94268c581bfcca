"""What a sandbox is: programs with inputs go in, what each call gave comes out. It never says whether a program is right.

The judge stands outside: it holds the expected values and compares. So nothing that a program prints, writes or exits with can be
taken for a verdict; the worst that it can do is to give wrong values for its own calls. What must not go in: tasks, rewards, and how
programs are held (``bubblewrap.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

__all__ = ["Ending", "Limits", "Outcome", "Program", "Raised", "Returned", "Sandbox", "Value"]

Value: TypeAlias = bool | int | float | str | list["Value"] | tuple["Value", ...] | dict[str | int, "Value"] | None
"""What crosses the wall in both directions, by value: an argument of a call, or what it returned. Exact types, no subclasses."""

Ending = Literal["finished", "not_loaded", "cpu_limit", "wall_limit", "memory_limit", "output_limit", "died"]
"""How a program ended. ``not_loaded``: no function of that name came of its source.
``died``: its process ended early (a signal, an exit)."""


@dataclass(frozen=True)
class Limits:
    """What one program may use.

    ``cpu_seconds`` and ``wall_seconds`` for all its calls, ``memory_bytes`` of address space, ``output_bytes`` for the values that it
    returns together, ``processes`` beside its own, ``file_bytes`` of any file.
    """

    cpu_seconds: float = 1.0
    wall_seconds: float = 5.0
    memory_bytes: int = 256 * 2**20
    output_bytes: int = 64 * 2**10
    processes: int = 0
    file_bytes: int = 0


@dataclass(frozen=True)
class Program:
    """Source text, the name of the function that it must define, and the arguments of each call of it, in order."""

    source: str
    function: str
    calls: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class Returned:
    """A call's value. The types are exact: what is no ``Value`` arrives as :class:`Raised` ``NotPlain``."""

    value: Value


@dataclass(frozen=True)
class Raised:
    """A call's exception: the name of its type and its message, cut to 200 characters; both are the program's own words."""

    error: str
    message: str


@dataclass(frozen=True)
class Outcome:
    """How a program ended, and the results of the calls that came before that (all of them where it ``finished``).

    ``detail``: what a person is told beside the ending: the program's own words, cut to 200 characters.
    """

    ending: Ending
    results: tuple[Returned | Raised, ...] = ()
    detail: str = ""


class Sandbox(Protocol):
    """Runs programs. Safe under threads."""

    def run(self, programs: Sequence[Program], limits: Limits) -> list[Outcome]:
        """An outcome a program, in order; no program's outcome depends on the others in the list.

        Raises AffineError ``sandbox_unavailable`` where none can be started (what to install is in its detail), ``sandbox_failed``
        where one broke for a reason that is not a program's.
        """
        ...

    def close(self) -> None:
        """End every process of it. Safe to call again."""
        ...
