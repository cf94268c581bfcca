"""Which names of repositories, revisions and files are names at all: the first wall against paths that leave their folder.

What must not go in: which files a *model* may consist of (``admission/``), or any access to a disk or a network.
"""

from __future__ import annotations

import re

from affine_dagster.reasons import AffineError

__all__ = ["check_file_name", "check_repo", "check_revision"]

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[0-9a-f]{40}", re.ASCII)
_MAX_NAME_BYTES = 1024
_MAX_PART_BYTES = 255
"""A part of a path may have 255 bytes on every file system that we know of."""


def check_repo(repo: str) -> tuple[str, str]:
    """Owner and name of ``owner/name``. Raises ``invalid_repo``."""
    parts = repo.split("/")
    if len(parts) != 2 or ".." in repo or not all(_PART.fullmatch(part) for part in parts):
        raise AffineError("invalid_repo", f"repository {repo[:200]!r}")
    return parts[0], parts[1]


def check_revision(revision: str) -> str:
    """The revision, if it has 40 lower-case hex digits. Raises ``invalid_repo``."""
    if not _REVISION.fullmatch(revision):
        raise AffineError("invalid_repo", f"revision {revision[:80]!r}")
    return revision


def check_file_name(name: str) -> str:
    """The name, if it is relative, with '/', and stays in its folder on every system. Raises ``file_not_allowed``."""
    parts = name.split("/")
    bad_part = any(part in {"", ".", ".."} or len(part.encode("utf-8", "replace")) > _MAX_PART_BYTES for part in parts)
    if bad_part or len(name) > _MAX_NAME_BYTES or "\\" in name or not name.isprintable():
        raise AffineError("file_not_allowed", f"file name {name[:200]!r}")
    return name
