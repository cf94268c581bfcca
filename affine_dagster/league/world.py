"""A development world: a chain with a subnet, a hub with the league's repositories, and miners who commit them epoch by epoch.

The demo, ``make dev``, the tests and the benchmarks draw their worlds from here. What must not go in: the validator's side
(it only ever sees the chain and the hub through their ports).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from affine_dagster.chain.epochs import newest_closed_epoch
from affine_dagster.chain.keys import Hotkey, hotkey_from_uri
from affine_dagster.chain.local import LocalChain
from affine_dagster.chain.local_state import SubnetParameters
from affine_dagster.chain.local_world import LocalWorld
from affine_dagster.hub.local import LocalHub
from affine_dagster.reasons import AffineError
from affine_dagster.settings import Settings, load_settings

__all__ = ["DEMO_SCENARIO", "TINY_SCENARIO", "Entry", "Scenario", "World", "make_world", "open_world", "play_epoch", "produce_blocks"]

NETUID = 120
VALIDATOR = "//Validator"
OWNER = "//Owner"
RAO = 10**9


@dataclass(frozen=True)
class Entry:
    """A miner commits something in an epoch: the league's ``model`` under ``<miner>/<name>``, or ``raw`` bytes as they are."""

    epoch: int
    miner: str
    model: str = ""
    name: str = ""
    raw: bytes | None = None

    @property
    def repo(self) -> str:
        """The repository's name on the hub."""
        return f"{self.miner.lower()}/{self.name or self.model}"


@dataclass(frozen=True)
class Scenario:
    """Who commits what when, against which genesis model, under which settings (TOML after the world's own sections)."""

    genesis: str
    entries: tuple[Entry, ...]
    settings: str
    tempo: int = 30

    @property
    def miners(self) -> Sequence[str]:
        """All miners, in the order in which they first commit."""
        return list(dict.fromkeys(entry.miner for entry in self.entries))


DEMO_SCENARIO = Scenario(
    genesis="base",
    entries=(
        Entry(0, "Ada", "specialist"),
        Entry(0, "Bob", "base", name="my-own-model"),
        Entry(0, "Carol", "broken"),
        Entry(0, "Dan", raw=b"{model: acme/m, revision: main}"),
        Entry(0, "Ivy", "independent"),
        Entry(1, "Eve", "strong"),
        Entry(1, "Frank", "specialist_resharded", name="sharded"),
        Entry(2, "Grace", "strong", name="totally-new"),
        Entry(2, "Heidi", "strong_noisy", name="tuned"),
    ),
    settings="""
[serving]
batch_size = 256
max_new_tokens = 24

[evaluation]
environments = ["number_sorting", "spell_backward", "chain_sum", "bit_count", "program_expressions"]
batch_tasks = 100
tasks_per_epoch = 1000
assay_tasks = 1000
max_tasks = 2000

[scoring]
margin = 0.03
tolerance = 0.10
gain = 0.10
alpha_daily = 0.05
owner_slots = 5
""",
)
"""The demo: a base that was there first; an honest specialist and an honest all-round improvement; an exact copy of the base, a re-sharded
and an exact copy of paid models, a noisy copy, an independent of equal skill, a broken repository and garbage on the chain."""

TINY_SCENARIO = Scenario(
    genesis="base",
    entries=(Entry(0, "Ada", "strong"), Entry(0, "Dan", raw=b"{model: acme/m, revision: main}")),
    settings="""
[serving]
batch_size = 32
max_new_tokens = 12

[evaluation]
batch_tasks = 5
tasks_per_epoch = 20
assay_tasks = 20
max_tasks = 40
processes = 1

[scoring]
margin = 0.03
tolerance = 0.45
gain = 0.2
alpha_daily = 0.9
owner_slots = 1
alpha_not_worse = 0.5
""",
)
"""For tests that kill and restart: one challenger, twenty tasks an environment in batches of five, one worker at a time. Its levels are
so loose that twenty tasks can decide a contest; they say nothing about the rule."""


@dataclass(frozen=True)
class World:
    """Where everything of a development world lies."""

    home: Path

    @property
    def settings_path(self) -> Path:
        """The validator's settings."""
        return self.home / "settings.toml"

    @property
    def dagster_home(self) -> Path:
        """The Dagster instance."""
        return self.home / "dagster"

    @property
    def chain_path(self) -> Path:
        """The development chain's file."""
        return self.home / "chain.db"

    @property
    def hub_path(self) -> Path:
        """The local hub."""
        return self.home / "hub"

    def settings(self) -> Settings:
        """The settings as the validator reads them."""
        return load_settings(self.settings_path)


def make_world(home: Path, models: Mapping[str, Path], scenario: Scenario) -> World:
    """Make a world in an empty folder: chain, subnet, keys, published repositories, settings (written last: the world is whole).

    ``models``: the league's folders by name; every model that the scenario names must be there (KeyError).
    """
    home.mkdir(parents=True, exist_ok=True)
    world = World(home.resolve())
    hub = LocalHub(world.hub_path)
    genesis = hub.publish("affine/base", models[scenario.genesis])
    revisions = {entry.repo: hub.publish(entry.repo, models[entry.model]) for entry in scenario.entries if entry.raw is None}
    hand = LocalWorld(world.chain_path)
    parameters = SubnetParameters(tempo=scenario.tempo, weights_rate_limit=scenario.tempo // 3)
    hand.add_subnet(NETUID, _key(OWNER).ss58_address, parameters=parameters)
    hand.register(NETUID, _key(VALIDATOR).ss58_address, _key(VALIDATOR + "//cold").ss58_address, stake_rao=1000 * RAO, permit=True)
    for miner in scenario.miners:
        hand.register(NETUID, _key(f"//{miner}").ss58_address, _key(f"//{miner}//cold").ss58_address)
    hand.advance(1)
    hand.close()
    (home / "keys").mkdir(exist_ok=True)
    (home / "keys" / "validator.hotkey").write_text(VALIDATOR + "\n")
    due = [
        {"epoch": entry.epoch, "miner": entry.miner, "data": _payload(entry, revisions).decode()} for entry in scenario.entries
    ]
    (home / "miners.json").write_text(json.dumps(due, indent=1))
    world.settings_path.write_text(_settings_text(scenario, genesis))
    return world


def open_world(home: Path) -> World:
    """A world that was made before. Raises ``bad_settings`` where none was, and makes nothing."""
    world = World(home.resolve())
    if not world.settings_path.is_file():
        raise AffineError("bad_settings", f"--home {home}: no world was made there (there is no {world.settings_path.name})")
    return world


def play_epoch(world: World, epoch: int) -> None:
    """Let the miners commit what they commit in this epoch, and let blocks pass until it has closed."""
    hand = LocalWorld(world.chain_path)
    chain = LocalChain(world.chain_path)
    while chain.subnet(NETUID, block=chain.head().number).epoch_index < epoch:
        hand.advance(1)
    _commit_due(world, epoch)
    settings = world.settings().chain
    while (newest_closed_epoch(chain, settings) or -1) < epoch and newest_closed_epoch(chain, settings) != epoch:
        hand.advance(1)
    hand.close()
    chain.close()


@contextmanager
def produce_blocks(world: World, seconds: float, said: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """While inside, close a block every so many seconds and let the miners commit in their epochs."""
    stop = threading.Event()

    def run() -> None:
        hand = LocalWorld(world.chain_path)
        chain = LocalChain(world.chain_path)
        played = chain.subnet(NETUID, block=chain.head().number).epoch_index - 1
        while not stop.wait(seconds):
            epoch = chain.subnet(NETUID, block=hand.advance(1)).epoch_index
            if epoch > played:
                played = epoch
                said(f"epoch {epoch} begins")
                _commit_due(world, epoch)

    thread = threading.Thread(target=run, name="blocks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _commit_due(world: World, epoch: int) -> None:
    """Commit what is due in the epoch and not on the chain yet, one block each."""
    hand = LocalWorld(world.chain_path)
    reader = LocalChain(world.chain_path)
    known = {(entry.hotkey, entry.data) for entry in reader.commitments(NETUID, after=-1, until=reader.head().number)}
    for entry in json.loads((world.home / "miners.json").read_text()):
        key = _key(f"//{entry['miner']}")
        data = str(entry["data"]).encode()
        if entry["epoch"] == epoch and (key.ss58_address, data) not in known:
            LocalChain(world.chain_path, key).commit(NETUID, data)
            hand.advance(1)


def _payload(entry: Entry, revisions: Mapping[str, str]) -> bytes:
    return entry.raw if entry.raw is not None else json.dumps({"model": entry.repo, "revision": revisions[entry.repo]}).encode()


def _key(uri: str) -> Hotkey:
    return hotkey_from_uri(uri)


def _settings_text(scenario: Scenario, genesis_revision: str) -> str:
    return f"""# Made by a development world; see docs/settings.md.
[chain]
path = "chain.db"
netuid = {NETUID}
beacon_lag_blocks = 3
first_epoch = 0
hotkey_file = "keys/validator.hotkey"

[hub]
path = "hub"
cache = "hub_cache"

[store]
url = "store"
{scenario.settings}
[[scoring.genesis]]
repo = "affine/base"
revision = "{genesis_revision}"
"""
