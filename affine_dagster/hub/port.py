"""All that the system needs of a model hub: immutable revisions, sizes before bytes, ranged reads, a local folder to load from.

What must not go in: judgement of what is in a repository (``admission/``), or any adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["Hub", "HubFile"]


@dataclass(frozen=True)
class HubFile:
    """A file of a revision. ``name`` is relative, with '/'; ``size`` in bytes."""

    name: str
    size: int


class Hub(Protocol):
    """A model hub. All calls raise AffineError: ``not_found``, ``gated`` (the miner's), ``hub_unavailable`` (the hub's)."""

    def files(self, repo: str, revision: str) -> Sequence[HubFile]:
        """The files of a 40-hex revision, sorted by name, without reading them.

        Of a revision that is out of reach now (closed, gone, hub down) and of which :meth:`folder` gave something out before: those
        files. So whatever was loaded once can be loaded again.
        """
        ...

    def read(self, repo: str, revision: str, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """A range of a file (None: to its end)."""
        ...

    def folder(self, repo: str, revision: str, names: Sequence[str]) -> Path:
        """A local folder that holds exactly these files, complete; cached by (repo, revision), safe under several processes."""
        ...
