"""JSON files of a checkpoint, read with bounds: a size before the bytes, an object or nothing.

What must not go in: the meaning of any field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from affine_dagster.reasons import AffineError

__all__ = ["MAX_JSON_BYTES", "parse_object", "read_object"]

MAX_JSON_BYTES = 4 * 2**20
"""A parsed JSON text takes up to some twenty times its bytes; config files of real models have at most about 2 MB."""

Json = Mapping[str, object]


def parse_object(content: bytes, code: str, name: str) -> Json:
    """The JSON object in ``content``. Raises ``code`` for anything else."""
    try:
        plain = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise AffineError(code, f"{name}: {ascii(str(error))[:200]}") from error
    if not isinstance(plain, dict):
        raise AffineError(code, f"{name} is not a JSON object")
    return plain


def read_object(path: Path, code: str, max_bytes: int = MAX_JSON_BYTES) -> Json:
    """The JSON object in a file. Raises ``code`` if it is absent, larger than ``max_bytes`` or not an object."""
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise AffineError(code, f"{path.name}: {error.strerror}") from error
    if len(content) > max_bytes:
        raise AffineError(code, f"{path.name} has more than {max_bytes} bytes")
    return parse_object(content, code, path.name)
