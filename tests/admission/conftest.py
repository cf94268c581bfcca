"""Fixtures of the admission tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """The maker of tiny checkpoints, ``tests/support/checkpoints.py``."""
    path = Path(__file__).parent.parent / "support" / "checkpoints.py"
    spec = importlib.util.spec_from_file_location("affine_test_checkpoints", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
