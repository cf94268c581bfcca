"""Fixtures of the league's tests: leagues from the cache that the demo uses too, and a checkpoint made without training."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from affine_dagster.cli.main import default_cache
from affine_dagster.league.make import League, make_league
from affine_dagster.league.recipes import DEMO, TINY


@pytest.fixture(scope="session")
def tiny() -> League:
    """The tiny league."""
    return make_league(default_cache() / "league", TINY)


@pytest.fixture(scope="session")
def demo_league() -> League:
    """The demo's league."""
    return make_league(default_cache() / "league", DEMO)


@pytest.fixture(scope="session")
def checkpoints() -> ModuleType:
    """The maker of tiny checkpoints, ``tests/support/checkpoints.py``."""
    path = Path(__file__).parent.parent / "support" / "checkpoints.py"
    spec = importlib.util.spec_from_file_location("affine_test_checkpoints", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def source(tmp_path: Path, checkpoints: ModuleType) -> Path:
    """A sound repository that nobody had to train."""
    folder: Path = checkpoints.write_checkpoint(tmp_path / "source")
    return folder
