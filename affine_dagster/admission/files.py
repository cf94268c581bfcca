"""What the list of a repository's files tells before any of them is read, and which files are ever fetched.

Only the files named here reach this machine's loaders: no code, no pickle, no generation settings. What must not go in: what
is inside a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from affine_dagster.checkpoint.layout import INDEX, sharded
from affine_dagster.hub.names import check_file_name
from affine_dagster.hub.port import HubFile
from affine_dagster.reasons import AffineError
from affine_dagster.settings import AdmissionSettings

__all__ = ["check_files", "load_names"]

CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
_SIDE_FILES = (CONFIG, TOKENIZER, TOKENIZER_CONFIG, TEMPLATE)
_ADAPTER = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")
_FOREIGN_WEIGHTS = {
    ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".gguf", ".ggml", ".h5", ".msgpack", ".onnx", ".npz", ".npy", ".tflite", ".nemo",
}
_CODE = {".py", ".pyc", ".so", ".pyd", ".dll"}


def load_names(files: Sequence[HubFile]) -> tuple[str, ...]:
    """The names of the files that are loaded, sorted. Raises ``no_weights``, ``ambiguous_weights``."""
    names = {file.name for file in files}
    weights = {name for name in names if name.endswith(".safetensors")}
    index = {INDEX} if sharded(names) else set()
    return tuple(sorted(weights | index | names.intersection(_SIDE_FILES)))


def check_files(files: Sequence[HubFile], settings: AdmissionSettings) -> tuple[str, ...]:
    """Judge names and sizes; returns :func:`load_names`.

    Raises AffineError: ``file_not_allowed``, ``remote_code``, ``adapter_only``, ``missing_config``, ``not_safetensors``,
    ``no_weights``, ``ambiguous_weights``, ``empty_file``, ``tokenizer_unreadable``, ``too_large``.
    """
    names = {check_file_name(file.name) for file in files}
    _refuse(names, _CODE, "remote_code")
    if names.intersection(_ADAPTER):
        raise AffineError("adapter_only", ", ".join(sorted(names.intersection(_ADAPTER))))
    if CONFIG not in names:
        raise AffineError("missing_config", f"no {CONFIG}")
    _refuse(names, _FOREIGN_WEIGHTS, "not_safetensors")
    wanted = load_names(files)
    _check_sizes([file for file in files if file.name in wanted], settings)
    for name in (TOKENIZER, TOKENIZER_CONFIG):
        if name not in names:
            raise AffineError("tokenizer_unreadable", f"no {name}")
    return wanted


def _refuse(names: set[str], suffixes: set[str], code: str) -> None:
    found = sorted(name for name in names if PurePosixPath(name).suffix.lower() in suffixes)
    if found:
        raise AffineError(code, ", ".join(found)[:300])


def _check_sizes(files: Sequence[HubFile], settings: AdmissionSettings) -> None:
    weights = [file for file in files if file.name.endswith(".safetensors")]
    empty = [file.name for file in weights if file.size == 0]
    if empty:
        raise AffineError("empty_file", ", ".join(empty)[:300])
    total = sum(file.size for file in weights)
    if total > settings.max_model_bytes:
        raise AffineError("too_large", f"{total} bytes of weights, at most {settings.max_model_bytes}")
    large = [file for file in files if file not in weights and file.size > settings.max_file_bytes]
    if large:
        raise AffineError("too_large", f"{large[0].name} has {large[0].size} bytes, at most {settings.max_file_bytes}")
