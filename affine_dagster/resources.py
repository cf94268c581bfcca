"""The Dagster resources: each opens one port from the settings. The same definitions run elsewhere by other resources alone.

What must not go in: any work. A resource opens a thing; what is done with it stands in the library and is called by an asset.
"""

import functools
from pathlib import Path

from dagster import ConfigurableResource, ResourceDependency

from affine_dagster.chain.keys import validator_hotkey
from affine_dagster.chain.local import LocalChain
from affine_dagster.chain.port import Chain
from affine_dagster.evaluation.jobs import EvalJobs, LocalProcesses
from affine_dagster.hub.local import LocalHub
from affine_dagster.hub.port import Hub
from affine_dagster.kinship.graph.port import LineageGraph
from affine_dagster.kinship.graph.sqlite import SqliteGraph
from affine_dagster.ledger import Ledger
from affine_dagster.settings import Settings, load_settings, scorer_version
from affine_dagster.store import Store, Tables

__all__ = ["ChainResource", "EvaluationResource", "GraphResource", "HubResource", "SettingsResource", "StoreResource"]


@functools.lru_cache(maxsize=8)
def _settings(path: str) -> Settings:
    return load_settings(Path(path) if path else None)


class SettingsResource(ConfigurableResource):  # type: ignore[type-arg]
    """The subnet's settings. ``path``: the TOML file, empty for the defaults; the environment overrides either."""

    path: str = ""

    def load(self) -> Settings:
        """The settings, read once a process. Raises AffineError ``bad_settings``."""
        return _settings(self.path)

    def scorer(self) -> str:
        """The version name of the present scoring settings."""
        settings = self.load()
        return scorer_version(settings)


class StoreResource(ConfigurableResource):  # type: ignore[type-arg]
    """Tables, ledger and published snapshots."""

    settings: ResourceDependency[SettingsResource]

    def store(self) -> Store:
        """The bytes."""
        return Store(self.settings.load().store.url)

    def tables(self) -> Tables:
        """The tables by epoch."""
        return Tables(self.store())

    def ledger(self) -> Ledger:
        """The append-only store of rollouts."""
        return Ledger(self.store())


class ChainResource(ConfigurableResource):  # type: ignore[type-arg]
    """The chain, as seen by the validator's hotkey."""

    settings: ResourceDependency[SettingsResource]

    def open(self) -> Chain:
        """The chain for reading; no key is opened."""
        return LocalChain(self.settings.load().chain.path)

    def open_as_validator(self) -> Chain:
        """The chain for sending, signed by the hotkey of ``chain.hotkey_file``."""
        settings = self.settings.load()
        return LocalChain(settings.chain.path, validator_hotkey(settings.chain))


    def validator_address(self) -> str | None:
        """The validator's hotkey, as an address; None where ``chain.hotkey_file`` is not set."""
        hotkey = validator_hotkey(self.settings.load().chain)
        return None if hotkey is None else hotkey.ss58_address


class HubResource(ConfigurableResource):  # type: ignore[type-arg]
    """The model hub."""

    settings: ResourceDependency[SettingsResource]

    def open(self) -> Hub:
        """The hub."""
        settings = self.settings.load()
        return LocalHub(settings.hub.path, settings.hub.cache)


class EvaluationResource(ConfigurableResource):  # type: ignore[type-arg]
    """Where evaluation jobs run: processes on this machine."""

    settings: ResourceDependency[SettingsResource]

    def jobs(self) -> EvalJobs:
        """The runner of evaluation jobs."""
        return LocalProcesses(self.settings.load())


class GraphResource(ConfigurableResource):  # type: ignore[type-arg]
    """The lineage graph: SQLite beside the tables."""

    settings: ResourceDependency[SettingsResource]
    path: str = ""

    def open(self) -> LineageGraph:
        """The graph, made where it does not exist."""
        return SqliteGraph(Path(self.path or self.settings.load().chain.path.parent / "lineage.db"))
