"""A small subnet on every adapter of the chain port: an owner, a validator with a permit, two miners, and one outsider.

An adapter joins the conformance suite (``test_chain_law.py``) by a maker in ``ADAPTERS``. What must not go in: laws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from affine_dagster.chain.keys import Hotkey, Signer, hotkey_from_uri
from affine_dagster.chain.local import LocalChain
from affine_dagster.chain.local_state import SubnetParameters
from affine_dagster.chain.local_world import LocalWorld
from affine_dagster.chain.port import Chain, ChainRejected

NETUID = 120


@dataclass(frozen=True)
class Keys:
    owner: Hotkey = field(default_factory=lambda: hotkey_from_uri("//Owner"))
    validator: Hotkey = field(default_factory=lambda: hotkey_from_uri("//Validator"))
    first: Hotkey = field(default_factory=lambda: hotkey_from_uri("//First"))
    second: Hotkey = field(default_factory=lambda: hotkey_from_uri("//Second"))
    outsider: Hotkey = field(default_factory=lambda: hotkey_from_uri("//Outsider"))


@dataclass(frozen=True)
class World:
    """``hand`` moves the chain; ``seen_by`` opens it for a hotkey. Uids: owner 0, validator 1, first 2, second 3."""

    keys: Keys
    hand: LocalWorld
    seen_by: Callable[[Signer | None], Chain]

    def found(self, **parameters: int | bool) -> World:
        """Found the subnet in block 1 and close it."""
        made = SubnetParameters(**{"tempo": 10, "weights_rate_limit": 0, **parameters})  # type: ignore[arg-type]
        self.hand.add_subnet(NETUID, self.keys.owner.ss58_address, parameters=made)
        self.hand.register(NETUID, self.keys.validator.ss58_address, stake_rao=5 * 10**12, permit=True)
        for key in (self.keys.first, self.keys.second):
            self.hand.register(NETUID, key.ss58_address, f"cold-{key.ss58_address}", stake_rao=10**9)
        self.hand.advance()
        return self


def local_world(folder: Path, keys: Keys) -> World:
    path = folder / "chain.db"
    return World(keys, LocalWorld(path), lambda key: LocalChain(path, key))


ADAPTERS: dict[str, Callable[[Path, Keys], World]] = {"local": local_world}


@pytest.fixture(scope="session")
def keys() -> Keys:
    return Keys()


@pytest.fixture(params=sorted(ADAPTERS))
def world(request: pytest.FixtureRequest, tmp_path: Path, keys: Keys) -> World:
    return ADAPTERS[request.param](tmp_path, keys)


@pytest.fixture
def refusal() -> Callable[[Callable[[], object]], str]:
    """The kind with which a call is refused."""

    def kind(call: Callable[[], object]) -> str:
        with pytest.raises(ChainRejected) as caught:
            call()
        return caught.value.kind

    return kind
