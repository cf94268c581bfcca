"""Making a real league once: afterwards it comes from a cache folder that the caller names, and is whole or absent.

The cache's key covers the recipe, the code that shapes models, the environments' versions and the packages, the model's own
among them. What must not go in: what is taught (``recipe.py``) and how (``tuning.py``).
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from affine_dagster.environments.registry import environment
from affine_dagster.league.jobs import Job, Schedule
from affine_dagster.league.make import Progress, made_once, worker_environment
from affine_dagster.league.real.recipe import BASE, RealRecipe
from affine_dagster.league.real.source import PACKAGES, check_packages
from affine_dagster.reasons import AffineError

__all__ = ["Part", "RealLeague", "make_real_league", "real_league_key"]

_SHAPING = ("real/source", "real/tuning", "real/worker", "lessons", "../serving/prompts", "../checkpoint/template")
"""The modules, from the folder of the league, that shape the files: their text is part of the key, beside the recipe's digest."""

_LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "reasoning-gym", *PACKAGES)

_MANIFEST = "league.json"


@dataclass(frozen=True)
class Part:
    """One model and what making it took.

    ``own_right`` of ``own_tried``: how many of its own training tasks a child solves, None for what was not taught anything.
    """

    name: str
    cpu_seconds: float
    wall_seconds: float
    own_right: int | None = None
    own_tried: int | None = None


@dataclass(frozen=True)
class RealLeague:
    """A real league on disk.

    ``models``: folders in Hugging Face layout by name; read-only by agreement. ``seen``: (environment, prompt) of each child's
    training. ``parts``: in the order of the recipe. ``cpu_seconds``, ``wall_seconds``: what making all of it took.
    """

    folder: Path
    models: Mapping[str, Path]
    seen: Mapping[str, frozenset[tuple[str, str]]]
    parts: tuple[Part, ...]
    cpu_seconds: float
    wall_seconds: float


def real_league_key(recipe: RealRecipe) -> str:
    """The name of a recipe's league in a cache: the recipe's name and sixteen hex digits over all that shapes it.

    Raises AffineError ``missing_package``.
    """
    check_packages()
    here = Path(__file__).parents[1]
    parts = [recipe.digest, platform.machine(), platform.python_version()]
    parts += [hashlib.sha256((here / f"{module}.py").read_bytes()).hexdigest() for module in _SHAPING]
    parts += [f"{name} {environment(name).version}" for name in recipe.environments]
    parts += [f"{library} {version(library)}" for library in _LIBRARIES]
    return f"{recipe.name}-{hashlib.blake2b('|'.join(parts).encode(), digest_size=8).hexdigest()}"


def make_real_league(folder: Path, recipe: RealRecipe, progress: Progress = lambda _: None) -> RealLeague:
    """The recipe's league from the cache ``folder``, made first if it is not there.

    Raises AffineError ``missing_package``, and ``league_failed`` if one of the processes ends early, with the end of what it printed.
    """
    return _load(made_once(folder, real_league_key(recipe), _MANIFEST, lambda work: _make(work, recipe, progress)))


def _load(folder: Path) -> RealLeague:
    manifest = json.loads((folder / _MANIFEST).read_text())
    noted = {name: json.loads((folder / "parts" / f"{name}.json").read_text()) for name in manifest["models"]}
    return RealLeague(
        folder=folder,
        models={name: folder / "models" / name for name in manifest["models"]},
        seen={name: frozenset((one, prompt) for one, prompt in part["seen"]) for name, part in noted.items() if "seen" in part},
        parts=tuple(
            Part(name, part["cpu_seconds"], part["wall_seconds"], part.get("own_right"), part.get("own_tried"))
            for name, part in noted.items()
        ),
        cpu_seconds=manifest["cpu_seconds"],
        wall_seconds=manifest["wall_seconds"],
    )


def _make(work: Path, recipe: RealRecipe, progress: Progress) -> None:
    """Fill the folder: models, what is noted of each, manifest."""
    began = time.monotonic()
    for name in ("models", "parts", "logs"):
        (work / name).mkdir()
    (work / "recipe.json").write_text(json.dumps(asdict(recipe)))
    base = Job("train", BASE)
    schedule = Schedule([base, *(Job("train", name, frozenset({base.key})) for name in recipe.models if name != BASE)])
    running: list[subprocess.Popen[str]] = []
    threads = [threading.Thread(target=_attend, args=(work, schedule, running, progress)) for _ in range(recipe.processes)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as failure:  # an interrupt: nothing more is taken, and what runs is ended
        schedule.fail(failure)
        raise
    finally:
        for process in running:
            process.kill()
    schedule.raise_failure()
    spent = [json.loads(path.read_text())["cpu_seconds"] for path in (work / "parts").glob("*.json")]
    manifest = {
        "models": list(recipe.models), "cpu_seconds": round(sum(spent), 1), "wall_seconds": round(time.monotonic() - began, 1),
    }
    (work / _MANIFEST).write_text(json.dumps(manifest, indent=1))


def _attend(work: Path, schedule: Schedule, running: list[subprocess.Popen[str]], progress: Progress) -> None:
    """Have one model after another made, each by a process of its own, until there is none."""
    try:
        while (job := schedule.take()) is not None:
            log = work / "logs" / f"{job.name}.log"
            with log.open("w") as errors:
                process = subprocess.Popen(  # noqa: S603 - our own module
                    [sys.executable, "-W", "ignore", "-m", "affine_dagster.league.real.worker", str(work), job.name],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=worker_environment(),
                )
            running.append(process)
            for line in process.stdout or ():
                progress(line.rstrip())
            if process.wait() != 0:
                raise AffineError("league_failed", f"{job.name}: {log.read_text()[-2000:].strip()}")  # noqa: TRY301 - one way out
            schedule.finish(job)
    except BaseException as failure:  # raised again by the thread that made the others
        schedule.fail(failure)
