"""Fixtures of the real league's tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))


@pytest.fixture
def write_checkpoint() -> Callable[..., Path]:
    """The maker of tiny checkpoints."""
    from checkpoints import write_checkpoint as write

    made: Callable[..., Path] = write
    return made
