"""One sandbox for this folder's tests: an attack must leave it whole for the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from affine_dagster.environments.sandbox.pool import SandboxPool


@pytest.fixture(scope="session")
def pool() -> Iterator[SandboxPool]:
    made = SandboxPool(1)
    yield made
    made.close()
