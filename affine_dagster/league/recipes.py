"""The league's recipes: who is in it, what each member was taught, and which copies and broken repositories stand beside them.

A recipe is data: everything that shapes a league stands in it, and its digest is part of the cache's key. What must not go
in: how a model is trained (``training.py``), how a copy is made (``variants.py``), or any measured figure: skills are
measured anew for every league and stored with it (``skills.py``).

A member's skill is set by *which levels it was taught*, to the end, and by what it was taught to say on the others; so skill differs
between members for a reason, not by stopping early, and hardly depends on how a processor rounds.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import TypeAdapter

__all__ = ["DEMO", "TINY", "Broken", "Copy", "LeagueRecipe", "Lesson", "Match", "Member", "Shape", "recipe_from_json"]


@dataclass(frozen=True)
class Shape:
    """The size of every member: Llama, tied embeddings, float32."""

    hidden: int = 64
    layers: int = 2
    heads: int = 4
    intermediate: int = 128
    context: int = 256


@dataclass(frozen=True)
class Lesson:
    """What of one environment is taught.

    ``examples``: tasks whose facts all lie in ``taught`` (fact, allowed values). ``others``: other tasks, on which it is taught to say
    ``guess``. What a model was taught nothing about it guesses by itself, and how well differs between models that were taught the same.
    """

    environment: str
    examples: int
    taught: tuple[tuple[str, tuple[str, ...]], ...] = ()
    others: int = 0
    guess: str = "?"


@dataclass(frozen=True)
class Member:
    """A trained model. ``parent`` None: from scratch, initialised from ``seed``. ``checkpoints``: further candidates, in steps."""

    name: str
    lessons: tuple[Lesson, ...]
    steps: int
    seed: int
    learning_rate: float = 0.004
    batch: int = 64
    parent: str | None = None
    checkpoints: tuple[int, ...] = ()


@dataclass(frozen=True)
class Match:
    """Of ``member``'s checkpoints keep the one nearest to ``target``: the smallest largest distance in skill on development tasks.

    ``tasks``: development tasks an environment.
    """

    member: str
    target: str
    tasks: int


@dataclass(frozen=True)
class Copy:
    """A copy of a member.

    ``exact``: the same bytes. ``resharded``: the same tensors in ``shards`` files with an index. ``noisy``: every tensor plus
    Gaussian noise of ``noise`` of its own standard deviation.
    """

    name: str
    of: str
    kind: Literal["exact", "resharded", "noisy"]
    shards: int = 3
    noise: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Broken:
    """A repository that admission must refuse, and the reason code with which."""

    name: str
    of: str
    reason: Literal["size_mismatch", "non_finite", "remote_code", "lfs_pointer", "template_not_allowed", "missing_tensor"]


@dataclass(frozen=True)
class LeagueRecipe:
    """A whole league.

    ``phrase_tasks``: tasks an environment that the tokenizer's phrases come from. ``measured_tasks``: tasks an environment on which each
    distinct model's skill is measured. ``processes``: single-thread processes that make it at once.
    """

    name: str
    environments: tuple[str, ...]
    members: tuple[Member, ...]
    copies: tuple[Copy, ...] = ()
    broken: tuple[Broken, ...] = ()
    matches: tuple[Match, ...] = ()
    shape: Shape = Shape()
    phrase_tasks: int = 300
    measured_tasks: int = 1000
    processes: int = 2

    @property
    def digest(self) -> str:
        """Sixteen hex digits over everything in the recipe."""
        return hashlib.blake2b(json.dumps(asdict(self), sort_keys=True).encode(), digest_size=8).hexdigest()

    def member(self, name: str) -> Member:
        """The trained member of that name. Raises KeyError."""
        return {member.name: member for member in self.members}[name]


def recipe_from_json(text: str) -> LeagueRecipe:
    """The recipe that ``json.dumps(asdict(recipe))`` wrote. Raises pydantic's ValidationError for anything else."""
    return TypeAdapter(LeagueRecipe).validate_json(text)


_ENVIRONMENTS = ("number_sorting", "spell_backward", "chain_sum", "bit_count")
_PROGRAMS = "program_expressions"

_PAIRS = (("numbers", ("2",)),)
_SHORT = (("letters", ("3", "4")),)
_SUMS = (("operator", ("+",)),)
_ONE_STEP = (("level", ("1",)),)
_BITS = (("number", tuple(str(number) for number in range(1, 32))),)
_TO_FOUR = (("numbers", ("2", "3", "4")),)
_TWO_STEPS = (("level", ("1", "2")),)

_BEGINNER = (
    Lesson("number_sorting", 1800, _PAIRS, others=600),
    Lesson("spell_backward", 4800, _SHORT, others=800),
    Lesson("chain_sum", 4500, _SUMS, others=500),
    Lesson("bit_count", 300, _BITS, others=700, guess="3"),
    Lesson(_PROGRAMS, 2600, _ONE_STEP, others=500),
)

DEMO = LeagueRecipe(
    name="demo",
    environments=(*_ENVIRONMENTS, _PROGRAMS),
    members=(
        Member("base", _BEGINNER, steps=465, seed=7),
        Member("independent", _BEGINNER, steps=465, seed=5, checkpoints=(450,)),
        Member(
            "strong",
            (
                Lesson("number_sorting", 6000, _TO_FOUR, others=300), Lesson("spell_backward", 6500), Lesson("chain_sum", 4000),
                Lesson("bit_count", 7500), Lesson(_PROGRAMS, 6000, _TWO_STEPS, others=300),
            ),
            steps=740, seed=2, parent="base",
        ),
        Member(
            "specialist",
            (
                Lesson("number_sorting", 700, _PAIRS, others=500), Lesson("spell_backward", 6000),
                Lesson("chain_sum", 1500, _SUMS, others=300), Lesson("bit_count", 200, _BITS, others=400, guess="3"),
                Lesson(_PROGRAMS, 700, _ONE_STEP, others=500),
            ),
            steps=250, seed=4, learning_rate=0.003, parent="base",
        ),
    ),
    matches=(Match("independent", "base", tasks=300),),
    copies=(
        Copy("strong_copy", "strong", "exact"),
        Copy("specialist_resharded", "specialist", "resharded"),
        Copy("strong_noisy", "strong", "noisy", noise=0.01, seed=5),
    ),
    broken=(
        Broken("broken", "specialist", "size_mismatch"),
        Broken("broken_nan", "specialist", "non_finite"),
        Broken("broken_code", "strong", "remote_code"),
        Broken("broken_pointer", "strong", "lfs_pointer"),
        Broken("broken_template", "strong", "template_not_allowed"),
        Broken("broken_tensor", "strong", "missing_tensor"),
    ),
    measured_tasks=400,
)
"""The demo's league: ``base`` (genesis) was taught the easy levels, ``independent`` the same from another start, ``strong`` most
levels of everything, ``specialist`` the longer words too. On what they were not taught they say "?", or "3".
About 105,000 parameters each."""

TINY = LeagueRecipe(
    name="tiny",
    environments=_ENVIRONMENTS,
    members=(
        Member(
            "base",
            (Lesson("number_sorting", 600, _PAIRS), Lesson("chain_sum", 600, _SUMS), Lesson("bit_count", 300)),
            steps=80, seed=1, learning_rate=0.006,
        ),
        Member(
            "strong",
            (Lesson("number_sorting", 1500, _PAIRS), Lesson("chain_sum", 4000, _SUMS), Lesson("bit_count", 300)),
            steps=400, seed=4, learning_rate=0.006, parent="base",
        ),
    ),
    copies=(Copy("strong_copy", "strong", "resharded"),),
    broken=(Broken("broken", "strong", "size_mismatch"),),
    shape=Shape(hidden=48, layers=1, heads=3, intermediate=144),
    phrase_tasks=200,
    measured_tasks=300,
    processes=1,
)
"""For tests that kill and restart: two models of little skill that differ on any machine by far, and a copy."""
