"""The process that makes one model of a real league: unpacks the base, tunes a child or copies with noise.

    python -m affine_dagster.league.real.worker FOLDER NAME

``FOLDER`` holds ``recipe.json``. Progress is one line a time on the output; the model appears under its final name only when
whole, and ``parts/NAME.json`` last. The process ends when its input ends: when the maker is killed, nobody goes on writing.
What must not go in: the order in which models are made (``make.py``).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from affine_dagster.environments.port import Task
from affine_dagster.environments.registry import environment
from affine_dagster.league.lessons import lesson_tasks
from affine_dagster.league.real.recipe import BASE, Child, RealRecipe, real_recipe_from_json
from affine_dagster.league.real.source import unpack
from affine_dagster.league.real.tuning import examples, tune
from affine_dagster.league.recipes import Copy
from affine_dagster.league.skills import rewards
from affine_dagster.serving.port import Sampling
from affine_dagster.settings import ServingSettings

__all__ = ["child_tasks", "main", "make_model"]

_WEIGHTS = "model.safetensors"

Said = Callable[[str], None]


def child_tasks(child: Child) -> list[Task]:
    """All training tasks of a child, lesson by lesson."""
    return [task for lesson in child.lessons for task in lesson_tasks(lesson, child.seed)]


def make_model(folder: Path, recipe: RealRecipe, name: str, said: Said) -> dict[str, Any]:
    """Make the model of that name in ``folder/models``, and return what is noted of it. Raises KeyError for an unknown name."""
    models = folder / "models"
    hidden = models / f".{name}"
    children = {child.name: child for child in recipe.children}
    copies = {copy.name: copy for copy in recipe.copies}
    noted: dict[str, Any] = {}
    if name == BASE:
        unpack(hidden)
    elif name in children:
        noted = _tuned(models / BASE, hidden, children[name], recipe, said)
    else:
        _noisy(models / BASE, hidden, copies[name])
    hidden.rename(models / name)
    return noted


def _tuned(base: Path, target: Path, child: Child, recipe: RealRecipe, said: Said) -> dict[str, Any]:
    tasks = child_tasks(child)
    model = tune(
        base, examples(base, tasks), child, recipe.tuned_layers, recipe.precision,
        lambda step, loss: said(f"{child.name}: step {step} of {child.steps}, loss {loss:.3f}"),
    )
    model.save_pretrained(target)
    for file in base.iterdir():
        if not (target / file.name).exists():
            (target / file.name).write_bytes(file.read_bytes())
    own = tasks[:: max(1, len(tasks) // recipe.checked_tasks)][: recipe.checked_tasks]
    right = _tried(target, own, ServingSettings(dtype=recipe.precision, batch_size=24, max_new_tokens=32))
    said(f"{child.name}: right on {sum(right):.0f} of {len(right)} of its own training tasks")
    return {
        "seen": sorted({(task.environment, task.prompt) for task in tasks}), "own_right": round(sum(right)), "own_tried": len(right),
    }


def _tried(folder: Path, tasks: list[Task], settings: ServingSettings) -> list[float]:
    """The rewards on tasks, family by family."""
    from affine_dagster.serving.transformers import TransformersEngine

    sampling = Sampling(settings.temperature, settings.top_p, settings.max_new_tokens, settings.max_model_length)
    with TransformersEngine(settings).open(folder) as loaded:
        return [
            reward
            for name in sorted({task.environment for task in tasks})
            for reward in rewards(loaded, environment(name), [task for task in tasks if task.environment == name], sampling)
        ]


def _noisy(base: Path, target: Path, copy: Copy) -> None:
    """Every tensor plus Gaussian noise of ``copy.noise`` of its own standard deviation, saved anew; names in sorted order."""
    import torch
    from safetensors.torch import load_file, save_file

    generator = torch.Generator().manual_seed(copy.seed)
    tensors = load_file(base / _WEIGHTS)
    changed = {}
    for name in sorted(tensors):
        exact = tensors[name].float()
        noise = torch.randn(exact.shape, generator=generator)
        changed[name] = (exact + copy.noise * exact.std() * noise).to(tensors[name].dtype)
    target.mkdir()
    for file in base.iterdir():
        if file.name != _WEIGHTS:
            (target / file.name).write_bytes(file.read_bytes())
    save_file(changed, target / _WEIGHTS, metadata={"format": "pt"})


def _end_with_input() -> None:
    """End this process, also in the middle of its work, when nobody holds the other end of its input any more."""
    sys.stdin.buffer.read()
    os._exit(1)


def main(folder: Path, name: str) -> None:
    """Make one model, and note what it took. Torch uses one thread."""
    began = time.monotonic()
    threading.Thread(target=_end_with_input, name="input", daemon=True).start()
    import torch

    torch.set_num_threads(1)
    recipe = real_recipe_from_json((folder / "recipe.json").read_text())
    noted = make_model(folder, recipe, name, lambda text: print(text, flush=True))
    part = {**noted, "cpu_seconds": round(time.process_time(), 1), "wall_seconds": round(time.monotonic() - began, 1)}
    hidden = folder / "parts" / f".{name}.json"
    hidden.write_text(json.dumps(part))
    hidden.rename(folder / "parts" / f"{name}.json")
    sys.stdout.flush()
    os._exit(0)  # the thread that waits on the input would hold the interpreter


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
