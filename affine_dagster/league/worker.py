"""The processes that make a league: each takes jobs as lines of JSON on its input, and says what it did on its output.

    python -m affine_dagster.league.worker FOLDER INPUT:OUTPUT ...

``FOLDER`` holds ``recipe.json``; results appear in it under their final names only when whole. One process loads the libraries, and forks
a worker for each pair of file descriptors. A worker ends when its input ends, also in the middle of a job: when the maker is killed,
nobody goes on writing. What must not go in: the order of jobs.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from affine_dagster.environments.port import Task
from affine_dagster.environments.registry import environment
from affine_dagster.league import lessons, tokenizer, training
from affine_dagster.league.recipes import LeagueRecipe, Match, Member, recipe_from_json
from affine_dagster.league.skills import rewards, skill
from affine_dagster.league.variants import make_copy
from affine_dagster.serving.port import Sampling
from affine_dagster.settings import ServingSettings

__all__ = ["MODELS", "SKILLS", "Worker", "main"]

MODELS = "models"
SKILLS = "skills"
_CANDIDATES = "candidates"
_SEEN = "seen"
_TOKENIZER = "tokenizer"


class Worker:
    """Does jobs in one folder. ``said`` gets a line of progress for a person."""

    def __init__(self, folder: Path, recipe: LeagueRecipe, said: Callable[[str], None]) -> None:
        self._folder = folder
        self._recipe = recipe
        self._said = said
        self._tasks: dict[tuple[str, int], Mapping[str, list[Task]]] = {}

    def run(self, kind: str, name: str) -> None:
        """Do one job of :class:`affine_dagster.league.jobs.Job`. Raises what the job raises."""
        steps = {"tokenizer": self._tokenizer, "train": self._train, "choose": self._choose, "copy": self._copy, "measure": self._measure}
        steps[kind](name)

    def _tokenizer(self, name: str) -> None:
        made = tokenizer.build_tokenizer(tokenizer.phrases(lessons.phrase_texts(self._recipe)))
        made.save_pretrained(self._folder / name)
        self._said(f"tokenizer: {len(made)} tokens")

    def _train(self, name: str) -> None:
        member = self._recipe.member(name)
        tokens = self._load_tokenizer()
        model = self._start(member, tokens)
        taught = lessons.member_tasks(member)
        encoded = training.encode(tokens, [task.prompt for task in taught], [task.answer for task in taught])
        self._note_seen(member, {(task.environment, task.prompt) for task in taught})

        def keep(step: int) -> None:
            self._save(model, tokens, self._folder / _CANDIDATES / name / f"{step:05d}")

        def progress(step: int, loss: float) -> None:
            self._said(f"{name}: step {step} of {member.steps}, loss {loss:.3f}")

        training.train(model, encoded, member, pad=tokens.pad_token_id, keep=keep, progress=progress)
        if any(match.member == name for match in self._recipe.matches):
            keep(member.steps)
        else:
            self._save(model, tokens, self._folder / MODELS / name)

    def _start(self, member: Member, tokens: Any) -> Any:
        if member.parent is None:
            return training.new_model(tokens, self._recipe.shape, member.seed)
        from transformers import LlamaForCausalLM

        return LlamaForCausalLM.from_pretrained(self._folder / MODELS / member.parent)

    def _load_tokenizer(self) -> Any:
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast.from_pretrained(self._folder / _TOKENIZER)

    def _save(self, model: Any, tokens: Any, target: Path) -> None:
        hidden = target.with_name(f".{target.name}")
        model.save_pretrained(hidden)
        tokens.save_pretrained(hidden)
        hidden.rename(target)

    def _choose(self, name: str) -> None:
        match = next(match for match in self._recipe.matches if match.member == name)
        goal = self._development(match, self._folder / MODELS / match.target)
        distances: dict[str, float] = {}
        for candidate in sorted((self._folder / _CANDIDATES / name).iterdir()):
            found = self._development(match, candidate)
            distances[candidate.name] = max(abs(found[environment] - goal[environment]) for environment in goal)
        best = min(distances, key=lambda step: (distances[step], step))
        shutil.move(self._folder / _CANDIDATES / name / best, self._folder / MODELS / name)
        drawn = self._drawn("development", match.tasks)
        self._note_seen(self._recipe.member(name), {(task.environment, task.prompt) for tasks in drawn.values() for task in tasks})
        others = ", ".join(f"{distance:.3f}" for distance in sorted(distances.values())[1:])
        self._said(f"{name}: step {int(best)} is nearest to {match.target}, {distances[best]:.3f} apart at most (others {others})")

    def _development(self, match: Match, folder: Path) -> Mapping[str, float]:
        given = self._rewards(folder, "development", match.tasks)
        return {name: sum(values) / len(values) for name, values in given.items()}

    def _copy(self, name: str) -> None:
        copy = next(copy for copy in self._recipe.copies if copy.name == name)
        hidden = self._folder / MODELS / f".{name}"
        make_copy(self._folder / MODELS / copy.of, hidden, copy)
        hidden.rename(self._folder / MODELS / name)

    def _measure(self, name: str) -> None:
        origin = next((copy.of for copy in self._recipe.copies if copy.name == name), name)
        seen = self._seen(origin)
        given = self._rewards(self._folder / MODELS / name, "measurement", self._recipe.measured_tasks)
        drawn = self._drawn("measurement", self._recipe.measured_tasks)
        found = [
            skill(name, environment, values, [(environment, task.prompt) in seen for task in drawn[environment]])
            for environment, values in given.items()
        ]
        write_json(self._folder / SKILLS / f"{name}.json", [vars(one) for one in found])
        self._said(f"{name}: " + ", ".join(f"{one.environment} {one.mean:.3f}" for one in found))

    def _rewards(self, folder: Path, purpose: str, count: int) -> Mapping[str, list[float]]:
        from affine_dagster.serving.transformers import TransformersEngine

        settings = ServingSettings()
        sampling = Sampling(settings.temperature, settings.top_p, settings.max_new_tokens, settings.max_model_length)
        with TransformersEngine(settings).open(folder) as loaded:
            drawn = self._drawn(purpose, count)
            return {name: rewards(loaded, environment(name), tasks, sampling) for name, tasks in drawn.items()}

    def _drawn(self, purpose: str, count: int) -> Mapping[str, list[Task]]:
        if (purpose, count) not in self._tasks:
            names = self._recipe.environments
            self._tasks[purpose, count] = {name: lessons.tasks(purpose, environment(name), 0, count) for name in names}
        return self._tasks[purpose, count]

    def _note_seen(self, member: Member, prompts: set[tuple[str, str]]) -> None:
        """Keep which prompts a member has met, its parents' and what was noted before included."""
        known = prompts | self._seen(member.name) | (self._seen(member.parent) if member.parent else set())
        write_json(self._folder / _SEEN / f"{member.name}.json", sorted(known))

    def _seen(self, name: str) -> set[tuple[str, str]]:
        path = self._folder / _SEEN / f"{name}.json"
        return {(environment, prompt) for environment, prompt in json.loads(path.read_text())} if path.exists() else set()


def write_json(path: Path, content: object) -> None:
    """Write a file that is whole or absent."""
    path.parent.mkdir(exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(json.dumps(content))
    hidden.replace(path)


def _lines(source: TextIO) -> queue.SimpleQueue[str]:
    """The input's lines, read beside the work, so that its end ends the process at once."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in source:
            lines.put(line)
        os._exit(1)

    threading.Thread(target=read, name="input", daemon=True).start()
    return lines


def _serve(folder: Path, reading: int, writing: int) -> NoReturn:
    """Do jobs until the input ends."""
    answers = os.fdopen(writing, "w", buffering=1)
    lines = _lines(os.fdopen(reading))
    recipe = recipe_from_json((folder / "recipe.json").read_text())
    worker = Worker(folder, recipe, lambda text: print(json.dumps({"said": text}), file=answers))
    while True:
        job = json.loads(lines.get())
        worker.run(job["kind"], job["name"])
        print(json.dumps({"done": True}), file=answers)


def main(folder: Path, pairs: Sequence[tuple[int, int]]) -> None:
    """Load what all workers use, fork them, and wait for them. Torch uses one thread, and has none yet where a process is forked."""
    import torch
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast  # noqa: F401 - for the workers

    torch.set_num_threads(1)
    for own in pairs:
        if os.fork() == 0:
            for end in (end for pair in pairs if pair != own for end in pair):
                os.close(end)
            _serve(folder, *own)
    for end in (end for pair in pairs for end in pair):
        os.close(end)
    for _ in pairs:
        os.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), [(int(reading), int(writing)) for reading, _, writing in (pair.partition(":") for pair in sys.argv[2:])])
