"""One sandbox of each kind for this folder's tests: an attack must leave it whole for the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from affine_dagster.environments.sandbox.pool import SandboxPool
from affine_dagster.environments.sandbox.server import Server


@pytest.fixture(scope="session", params=[None, False], ids=["as it comes", "user namespace"])
def pool(request: pytest.FixtureRequest) -> Iterator[SandboxPool]:
    """As the caller gets it (for root, a user of its own), and as a caller who is not root gets it."""
    made = SandboxPool(1, lambda: Server(own_user=request.param))
    yield made
    made.close()
