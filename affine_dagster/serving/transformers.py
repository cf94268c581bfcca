"""The adapter to transformers on the CPU: ``config.json`` and safetensors in, completions out, no code or setting of the folder's.

Of the configuration only the fields that shape the arithmetic are read; ``auto_map``, ``generation_config.json``, adapters,
attention kernels and templates in Python have no way in. What must not go in: whether a model may enter (``admission/``).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from affine_dagster.checkpoint.configuration import arithmetic
from affine_dagster.checkpoint.digests import folder_layout
from affine_dagster.checkpoint.identity import identity
from affine_dagster.checkpoint.json_files import read_object
from affine_dagster.reasons import AffineError, Fault
from affine_dagster.serving.decoding import Decoded, decode
from affine_dagster.serving.port import Completion, LoadedModel, Receipt, Sampling
from affine_dagster.serving.prompts import Prompts
from affine_dagster.settings import ServingSettings

__all__ = ["ENGINE", "TransformersEngine"]

ENGINE = "transformers"
_LOOP = 2
"""Counts changes of our own decoding that could change a completion; part of the engine's version."""

_REFUSED = ("auto_map", "quantization_config")
_CLASSES = {
    "LlamaForCausalLM": ("LlamaConfig", "LlamaForCausalLM"),
    "Qwen2ForCausalLM": ("Qwen2Config", "Qwen2ForCausalLM"),
    "Qwen3ForCausalLM": ("Qwen3Config", "Qwen3ForCausalLM"),
    "MistralForCausalLM": ("MistralConfig", "MistralForCausalLM"),
}


class TransformersEngine:
    """Runs models on this machine's CPU."""

    def __init__(self, settings: ServingSettings) -> None:
        self._settings = settings

    @contextmanager
    def open(self, folder: Path) -> Iterator[LoadedModel]:
        """Load a model folder, and free it at the end; meanwhile the process uses the settings' number of threads.

        Raises AffineError ``not_loadable`` (the folder's content) or ``unloadable_here`` (memory, disk, a missing package).
        """
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(self._settings.threads)
        loaded = None
        try:
            loaded = _load(folder, self._settings)
            yield loaded
        finally:
            if loaded is not None:
                loaded.close()
            torch.set_num_threads(threads)
            gc.collect()  # modules hold themselves in cycles


class _Loaded:
    """A model in memory, until it is closed."""

    def __init__(self, model: Any, prompts: Prompts, stop_ids: frozenset[int], receipt: Receipt, batch_size: int) -> None:
        self._model = model
        self._prompts = prompts
        self._stop_ids = stop_ids
        self._receipt = receipt
        self._batch_size = batch_size

    @property
    def receipt(self) -> Receipt:
        """What was loaded."""
        return self._receipt

    def close(self) -> None:
        """Let the weights go."""
        self._model = None

    def complete(self, prompts: Sequence[str], seeds: Sequence[int], sampling: Sampling) -> list[Completion]:
        """One completion a message, in order. Batches are cut from the call's prompts sorted by length: a function of the call alone.

        Raises ValueError when prompts and seeds differ in number, RuntimeError after the model was closed.
        """
        if len(prompts) != len(seeds):
            raise ValueError(f"{len(prompts)} prompts and {len(seeds)} seeds")
        if self._model is None:
            raise RuntimeError("the model is closed")
        made: list[Completion | None] = [None] * len(prompts)
        encoded: dict[int, list[int]] = {}
        for place, prompt in enumerate(prompts):
            tokens = self._encode(prompt, sampling)
            if isinstance(tokens, Completion):
                made[place] = tokens
            else:
                encoded[place] = tokens
        order = sorted(encoded, key=lambda place: (len(encoded[place]), place))
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            rows = [encoded[place] for place in batch]
            limits = [min(sampling.max_new_tokens, sampling.max_model_length - len(row)) for row in rows]
            decoded = decode(self._model, rows, limits, [seeds[place] for place in batch], self._stop_ids, sampling)
            for place, row, result in zip(batch, rows, decoded, strict=True):
                made[place] = self._completion(len(row), result)
        return [completion for completion in made if completion is not None]

    def _encode(self, prompt: str, sampling: Sampling) -> list[int] | Completion:
        try:
            tokens = self._prompts.encode(prompt)
        except AffineError as error:
            return Completion("", "fault", 0, 0, error.code, error.detail)
        if len(tokens) >= sampling.max_model_length:
            detail = f"{len(tokens)} tokens leave no room for an answer in {sampling.max_model_length}"
            return Completion("", "fault", len(tokens), 0, "prompt_too_long", detail)
        return tokens

    def _completion(self, prompt_tokens: int, result: Decoded) -> Completion:
        count = len(result.tokens)
        if not result.finite:
            return Completion("", "fault", prompt_tokens, count, "invalid_sample", f"token {count + 1} has a non-finite logit")
        kept = result.tokens[:-1] if result.stopped else result.tokens
        return Completion(self._prompts.decode(list(kept)), "stop" if result.stopped else "length", prompt_tokens, count)


def _load(folder: Path, settings: ServingSettings) -> _Loaded:
    """Load, and put every failure under its owner's name."""
    try:
        return _loaded(folder, settings)
    except AffineError as error:
        code = "not_loadable" if error.reason.fault is Fault.MODEL else "unloadable_here"
        raise AffineError(code, f"{error.code}: {error.detail}") from error
    except (MemoryError, OSError, ImportError) as error:
        raise AffineError("unloadable_here", f"{type(error).__name__}: {error}") from error
    except Exception as error:
        # what transformers and torch raise for an impossible model is not one type; running out of memory is a RuntimeError
        ours = "can't allocate memory" in str(error) or "not enough memory" in str(error)
        raise AffineError("unloadable_here" if ours else "not_loadable", f"{type(error).__name__}: {str(error)[:500]}") from error


def _loaded(folder: Path, settings: ServingSettings) -> _Loaded:
    before = _stamp(folder)
    known = identity(folder)
    config = read_object(folder / "config.json", "missing_config")
    prompts = Prompts(folder)
    model = _model(folder, known.architecture, config, settings.dtype)
    if _stamp(folder) != before:
        raise AffineError("unloadable_here", "the folder changed while it was read")
    rows = model.get_input_embeddings().num_embeddings
    if prompts.max_token_id >= rows:
        raise AffineError("token_beyond_embedding", f"token {prompts.max_token_id}, {rows} rows")
    receipt = Receipt(
        weights_digest=known.weights_digest, tensors_digest=known.tensors_digest, config_digest=known.config_digest,
        template_hash=known.template_hash, tokenizer_signature=known.tokenizer_signature, engine=ENGINE,
        engine_version=f"{version('transformers')} torch {version('torch')} {settings.dtype} loop {_LOOP}",
    )
    return _Loaded(model, prompts, prompts.stop_ids(config), receipt, settings.batch_size)


def _stamp(folder: Path) -> list[tuple[str, int, int]]:
    return sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in folder.iterdir())


def _model(folder: Path, architecture: str, config: Mapping[str, Any], dtype: str) -> Any:
    import torch
    import transformers
    from safetensors.torch import load

    if architecture not in _CLASSES:
        raise AffineError("architecture_not_allowed", architecture)
    if refused := [name for name in _REFUSED if config.get(name) is not None]:
        raise AffineError("remote_code" if "auto_map" in refused else "quantized", f"config.json has {', '.join(refused)}")
    config_class, model_class = (getattr(transformers, name) for name in _CLASSES[architecture])
    own = config_class(**arithmetic(config))
    state: dict[str, torch.Tensor] = {}
    for name in folder_layout(folder).files:
        state.update(load((folder / name).read_bytes()))  # a copy: a mapped file could still change under the model
    transformers.logging.disable_progress_bar()
    model, found = model_class.from_pretrained(
        None, config=own, state_dict=state, dtype=getattr(torch, dtype), attn_implementation="sdpa",
        local_files_only=True, use_safetensors=True, trust_remote_code=False, output_loading_info=True,
    )
    wrong = {name: sorted(map(str, keys)) for name, keys in found.items() if keys}
    if wrong:
        raise AffineError("missing_tensor", f"the weights do not fit: {str(wrong)[:400]}")
    return model.eval()
