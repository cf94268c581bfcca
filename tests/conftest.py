"""What the tests of several rooms share; the parts themselves stand in ``tests/support/``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))

from tiny_worlds import TinyWorld, finished


@pytest.fixture(scope="session")
def tiny_world(tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    """One epoch of the league ``tiny``, run through undisturbed by ``affine run-epochs``. Do not write into it: take a copy."""
    return finished(tmp_path_factory.mktemp("tiny"))
