"""Making a league in one or two processes, once: afterwards it comes from a cache folder that the caller names.

A league is whole or absent: it is made under a hidden name and renamed at the end, and of several askers at once one makes it
while the others wait. The cache's key covers the recipe, the code that shapes models, the environments' versions and the
libraries; so a change of any of them makes a new league and leaves the old one where it is. What must not go in: what is taught.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO

from affine_dagster.environments.registry import environment
from affine_dagster.league.jobs import Job, Schedule, plan
from affine_dagster.league.recipes import LeagueRecipe
from affine_dagster.league.skills import Skill
from affine_dagster.league.variants import make_broken
from affine_dagster.reasons import AffineError

__all__ = ["League", "Progress", "cpu_seconds", "league_key", "made_once", "make_league", "worker_environment"]

Progress = Callable[[str], None]
"""Gets one line for a person at a time."""

_SHAPING = ("jobs", "lessons", "muon", "skills", "tokenizer", "training", "variants", "worker")
"""The modules of this room that shape a league's files: their text is part of the cache's key, beside the recipe's own digest."""

_LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "reasoning-gym")

_MANIFEST = "league.json"
_LOG = "workers.log"


@dataclass(frozen=True)
class League:
    """A league on disk.

    ``models``: every repository by name, members, copies and broken ones alike, as folders in Hugging Face layout; read-only by
    agreement. ``broken``: the reason code with which admission must refuse each broken one. ``origins``: of what each copy is one.
    ``skills``: of every model that runs, in every environment. ``cpu_seconds``, ``wall_seconds``: what making it took.
    """

    folder: Path
    models: Mapping[str, Path]
    broken: Mapping[str, str]
    origins: Mapping[str, str]
    skills: tuple[Skill, ...]
    cpu_seconds: float
    wall_seconds: float

    def skill(self, model: str, environment: str) -> Skill:
        """The measured skill. Raises KeyError for a model or environment that was not measured."""
        return {(one.model, one.environment): one for one in self.skills}[model, environment]


def league_key(recipe: LeagueRecipe) -> str:
    """The name of a recipe's league in a cache: the recipe's name and sixteen hex digits over all that shapes it."""
    here = Path(__file__).parent
    parts = [recipe.digest, platform.machine(), platform.python_version()]
    parts += [hashlib.sha256((here / f"{module}.py").read_bytes()).hexdigest() for module in _SHAPING]
    parts += [f"{name} {environment(name).version}" for name in recipe.environments]
    parts += [f"{library} {version(library)}" for library in _LIBRARIES]
    return f"{recipe.name}-{hashlib.blake2b('|'.join(parts).encode(), digest_size=8).hexdigest()}"


def make_league(folder: Path, recipe: LeagueRecipe, progress: Progress = lambda _: None) -> League:
    """The recipe's league from the cache ``folder``, made first if it is not there.

    Raises AffineError ``league_failed`` if one of the processes ends early, with the end of what it printed.
    """
    return _load(made_once(folder, league_key(recipe), _MANIFEST, lambda work: _make(work, recipe, progress)))


def made_once(folder: Path, name: str, manifest: str, fill: Callable[[Path], None]) -> Path:
    """The subfolder ``name`` of a cache, filled first if it is not there; whole or absent, whoever is killed when.

    ``fill`` gets a hidden empty folder that is renamed when it returns; ``manifest`` names a file that a whole one holds. Of several
    askers at once one fills while the others wait. Raises what ``fill`` raises, and then leaves nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / name
    with _alone(folder / f".{name}.lock"):
        if not (final / manifest).exists():
            for left in folder.glob(f".making-{name}-*"):
                shutil.rmtree(left, ignore_errors=True)  # of a maker that was killed: the lock is ours, so it is gone
            work = Path(tempfile.mkdtemp(prefix=f".making-{name}-", dir=folder))
            try:
                fill(work)
                work.rename(final)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return final


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock that ends with the process, however it ends."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _load(folder: Path) -> League:
    manifest = json.loads((folder / _MANIFEST).read_text())
    return League(
        folder=folder,
        models={name: folder / "models" / name for name in manifest["models"]},
        broken=manifest["broken"],
        origins=manifest["origins"],
        skills=tuple(Skill(**one) for one in manifest["skills"]),
        cpu_seconds=manifest["cpu_seconds"],
        wall_seconds=manifest["wall_seconds"],
    )


def _make(work: Path, recipe: LeagueRecipe, progress: Progress) -> None:
    """Fill the folder: models, broken repositories, manifest."""
    wall, cpu = time.monotonic(), cpu_seconds()
    for name in ("models", "skills"):
        (work / name).mkdir()
    (work / "recipe.json").write_text(json.dumps(asdict(recipe)))
    _run_jobs(work, recipe, progress)
    for broken in recipe.broken:
        make_broken(work / "models" / broken.of, work / "models" / broken.name, broken)
    manifest = {
        "models": [one.name for group in (recipe.members, recipe.copies, recipe.broken) for one in group],
        "broken": {broken.name: broken.reason for broken in recipe.broken},
        "origins": {copy.name: copy.of for copy in recipe.copies},
        "skills": _skills(work, recipe),
        "cpu_seconds": round(cpu_seconds() - cpu, 1),
        "wall_seconds": round(time.monotonic() - wall, 1),
    }
    for left in ("skills", "seen", "candidates", "tokenizer"):
        shutil.rmtree(work / left, ignore_errors=True)
    (work / _LOG).unlink()
    (work / _MANIFEST).write_text(json.dumps(manifest, indent=1))
    progress(f"league {recipe.name}: {manifest['cpu_seconds']} CPU-seconds, {manifest['wall_seconds']} s")


def _skills(work: Path, recipe: LeagueRecipe) -> list[dict[str, object]]:
    """All measured skills; an exact copy has its origin's, under its own name."""
    measured = {path.stem: json.loads(path.read_text()) for path in (work / "skills").glob("*.json")}
    found: list[dict[str, object]] = [skill for member in recipe.members for skill in measured[member.name]]
    for copy in recipe.copies:
        found += [{**skill, "model": copy.name} for skill in measured[copy.name if copy.kind == "noisy" else copy.of]]
    return found


@dataclass(frozen=True)
class _Worker:
    """The near ends of a worker's pipes: a line a job, and lines of what it did.

    ``orders`` is unbuffered: nothing is left to be written when the pipe of a worker that is gone is closed.
    """

    orders: IO[bytes]
    answers: IO[str]


def cpu_seconds() -> float:
    """Processor seconds so far: user and system time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _run_jobs(work: Path, recipe: LeagueRecipe, progress: Progress) -> None:
    schedule = Schedule(plan(recipe))
    tell = threading.Lock()

    def say(text: str) -> None:
        with tell:
            progress(text)

    starter, workers = _start(work, recipe.processes)
    threads = [threading.Thread(target=_attend, args=(worker, schedule, say, work / _LOG), daemon=True) for worker in workers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for worker in workers:
            worker.orders.close()  # which ends a worker, also in the middle of a job
        starter.wait()
        for worker in workers:
            worker.answers.close()
    schedule.raise_failure()


def worker_environment() -> dict[str, str]:
    """The variables of a process that makes models: one thread, no network, this code, and it may write bytecode."""
    root = str(Path(__file__).parents[2])
    chosen = {
        "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | chosen


def _start(work: Path, count: int) -> tuple[subprocess.Popen[bytes], list[_Worker]]:
    """Workers on one thread each, forked by one process that has loaded what they all use.

    It may write bytecode: compiling torch and transformers anew costs seven seconds each time.
    """
    orders, answers = [os.pipe() for _ in range(count)], [os.pipe() for _ in range(count)]
    inner = [(reading, writing) for (reading, _), (_, writing) in zip(orders, answers, strict=True)]
    with (work / _LOG).open("w") as log:
        starter = subprocess.Popen(  # noqa: S603 - our own module
            [
                sys.executable, "-W", "ignore", "-m", "affine_dagster.league.worker", str(work),
                *(f"{reading}:{writing}" for reading, writing in inner),
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=worker_environment(), pass_fds=[end for ends in inner for end in ends],
        )
    for end in (end for ends in inner for end in ends):
        os.close(end)
    outer = [(writing, reading) for (_, writing), (reading, _) in zip(orders, answers, strict=True)]
    return starter, [_Worker(os.fdopen(writing, "wb", buffering=0), os.fdopen(reading)) for writing, reading in outer]


def _attend(worker: _Worker, schedule: Schedule, say: Progress, log: Path) -> None:
    """Give a worker one job after another until there is none."""
    try:
        while (job := schedule.take()) is not None:
            if not _done(worker, job, say):
                raise AffineError("league_failed", f"{job.key}: {log.read_text()[-2000:].strip()}")  # noqa: TRY301 - one way out
            schedule.finish(job)
    except BaseException as failure:  # raised again by the thread that made the workers
        schedule.fail(failure)


def _done(worker: _Worker, job: Job, say: Progress) -> bool:
    """Have one job done; False if the worker ends over it."""
    try:
        worker.orders.write(json.dumps({"kind": job.kind, "name": job.name}).encode() + b"\n")
    except BrokenPipeError:
        return False
    for line in worker.answers:
        answer = json.loads(line)
        if "done" in answer:
            return True
        say(answer["said"])
    return False
