"""The steps that make a league, what each needs, and the order in which two processes take them.

What must not go in: what a step does (``worker.py``) and how processes are started (``make.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from affine_dagster.league.recipes import LeagueRecipe

__all__ = ["Job", "Schedule", "plan"]

Kind = Literal["tokenizer", "train", "choose", "copy", "measure"]


@dataclass(frozen=True)
class Job:
    """One step for one name. ``needs``: keys of the jobs that must be done before."""

    kind: Kind
    name: str
    needs: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """Kind and name."""
        return f"{self.kind}:{self.name}"


def plan(recipe: LeagueRecipe) -> list[Job]:
    """All jobs, the more urgent first: what others wait for before what nobody waits for.

    Exact copies need no measurement: their skill is their origin's.
    """
    chosen = {match.member: match for match in recipe.matches}

    def final(member: str) -> str:
        return f"choose:{member}" if member in chosen else f"train:{member}"

    jobs = [Job("tokenizer", "tokenizer")]
    for member in recipe.members:
        needs = {"tokenizer:tokenizer"} | ({final(member.parent)} if member.parent else set())
        jobs.append(Job("train", member.name, frozenset(needs)))
    jobs += [Job("choose", name, frozenset({f"train:{name}", final(match.target)})) for name, match in chosen.items()]
    jobs += [Job("copy", copy.name, frozenset({final(copy.of)})) for copy in recipe.copies]
    jobs += [Job("measure", member.name, frozenset({final(member.name)})) for member in recipe.members]
    jobs += [Job("measure", copy.name, frozenset({f"copy:{copy.name}"})) for copy in recipe.copies if copy.kind == "noisy"]
    return jobs


class Schedule:
    """Hands jobs to several takers, each once and only when what it needs is done. Safe under threads."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._waiting = list(jobs)
        self._done: set[str] = set()
        self._failure: BaseException | None = None
        self._changed = threading.Condition()

    def take(self) -> Job | None:
        """The first job that is ready; waits for one; None when there will be none."""
        with self._changed:
            while self._waiting and self._failure is None:
                for job in self._waiting:
                    if job.needs <= self._done:
                        self._waiting.remove(job)
                        return job
                self._changed.wait()
            return None

    def finish(self, job: Job) -> None:
        """Say that a job is done."""
        with self._changed:
            self._done.add(job.key)
            self._changed.notify_all()

    def fail(self, failure: BaseException) -> None:
        """Say that no league will come of this; the first failure stands."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def raise_failure(self) -> None:
        """Raise what was given to :meth:`fail`, if anything."""
        if self._failure is not None:
            raise self._failure
