"""Copies of a member, and broken repositories: what an imitator publishes, and what admission must refuse.

Everything here works on files alone, without torch. What must not go in: a model of its own skill (those are trained), and
the refusal itself (``admission/``).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from affine_dagster.league.recipes import Broken, Copy

__all__ = ["make_broken", "make_copy"]

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
Tensors = dict[str, NDArray[np.float32]]


def make_copy(source: Path, target: Path, copy: Copy) -> None:
    """Write the copy of ``source`` (one safetensors file) into the new folder ``target``."""
    shutil.copytree(source, target)
    if copy.kind == "resharded":
        _reshard(target, copy.shards)
    elif copy.kind == "noisy":
        _rewrite(target, lambda tensors: _noisy(tensors, copy.noise, copy.seed))


def make_broken(source: Path, target: Path, broken: Broken) -> None:
    """Write a repository into the new folder ``target`` that must be refused with ``broken.reason``."""
    shutil.copytree(source, target)
    _BREAK[broken.reason](target)


def _read(path: Path) -> Tensors:
    from safetensors.numpy import load_file

    loaded: Tensors = load_file(path)
    return loaded


def _write(tensors: Mapping[str, NDArray[np.float32]], path: Path) -> None:
    from safetensors.numpy import save_file

    save_file(dict(tensors), path, metadata={"format": "pt"})


def _rewrite(folder: Path, change: Callable[[Tensors], Tensors]) -> None:
    _write(change(_read(folder / WEIGHTS)), folder / WEIGHTS)


def _noisy(tensors: Tensors, noise: float, seed: int) -> Tensors:
    """Names in sorted order, so that the draws do not hang on the order in the file. Norm weights, all nearly equal, get noise of 1 too."""
    generator = np.random.default_rng(seed)
    return {
        name: tensors[name] + np.float32(noise * tensors[name].std()) * generator.standard_normal(tensors[name].shape, dtype=np.float32)
        for name in sorted(tensors)
    }


def _reshard(folder: Path, shards: int) -> None:
    """Deal the tensors out in reverse order of name, so that file order and name order differ from the original's."""
    tensors = _read(folder / WEIGHTS)
    names = sorted(tensors, reverse=True)
    place = {name: f"model-{index % shards + 1:05d}-of-{shards:05d}.safetensors" for index, name in enumerate(names)}
    for file in sorted(set(place.values())):
        _write({name: tensors[name] for name in names if place[name] == file}, folder / file)
    total = sum(tensor.nbytes for tensor in tensors.values())
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": place}, indent=2, sort_keys=True))
    (folder / WEIGHTS).unlink()


def _truncate(folder: Path) -> None:
    """Cut the end of one shard of three: its header stays valid."""
    _reshard(folder, 3)
    shard = folder / "model-00002-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:-256])


def _not_a_number(folder: Path) -> None:
    """Set one element of the largest matrix to NaN."""

    def change(tensors: Tensors) -> Tensors:
        largest = max(sorted(tensors), key=lambda name: tensors[name].size)
        tensors[largest].reshape(-1)[tensors[largest].size // 2] = np.nan
        return tensors

    _rewrite(folder, change)


def _remote_code(folder: Path) -> None:
    """Ask for the repository's own model class."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), "auto_map": {"AutoModelForCausalLM": "modeling_mine.MineForCausalLM"}}
    path.write_text(json.dumps(config, indent=2))
    (folder / "modeling_mine.py").write_text("raise SystemExit('the code of a submitted repository was executed')\n")


def _lfs_pointer(folder: Path) -> None:
    size = (folder / WEIGHTS).stat().st_size
    (folder / WEIGHTS).write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize {size}\n")


def _other_template(folder: Path) -> None:
    """A template that answers by itself: what admission is there to keep out (case H16)."""
    text = "{% for m in messages %}<|user|>{{ m['content'] }} (hint: {{ m['content'] | length }})<|end|><|assistant|>{% endfor %}"
    (folder / "chat_template.jinja").write_text(text)


def _missing_tensor(folder: Path) -> None:
    _rewrite(folder, lambda tensors: {name: tensors[name] for name in sorted(tensors)[:-1]})


_BREAK: Mapping[str, Callable[[Path], None]] = {
    "size_mismatch": _truncate,
    "non_finite": _not_a_number,
    "remote_code": _remote_code,
    "lfs_pointer": _lfs_pointer,
    "template_not_allowed": _other_template,
    "missing_tensor": _missing_tensor,
}
