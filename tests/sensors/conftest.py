"""A development world without models, and sensors ticked as the daemon ticks them, for the tests of sensors and of sending."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pytest
from dagster import DagsterInstance, Definitions, RepositoryDefinition, RunRequest, SensorEvaluationContext
from dagster._core.definitions.sensor_definition import SensorExecutionData

from affine_dagster.chain.local import LocalChain
from affine_dagster.chain.local_world import LocalWorld
from affine_dagster.definitions import build_defs
from affine_dagster.league.world import Scenario, World, make_world
from affine_dagster.store import Store, Tables

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

TEMPO = 5


@dataclass
class Watch:
    """A world, its definitions, an instance, and the cursors that the daemon would keep."""

    world: World
    definitions: Definitions
    instance: DagsterInstance
    cursors: dict[str, str | None] = field(default_factory=dict)

    @cached_property
    def repository(self) -> RepositoryDefinition:
        return self.definitions.get_repository_def()

    def pass_epochs(self, epochs: int) -> None:
        """Let blocks pass until so many more epochs have closed, beacon included."""
        hand = LocalWorld(self.world.chain_path)
        hand.advance(epochs * TEMPO)
        hand.close()

    @property
    def tables(self) -> Tables:
        return Tables(Store(self.world.settings().store.url))

    @property
    def chain(self) -> LocalChain:
        return LocalChain(self.world.chain_path)

    def evaluate(self, sensor_name: str) -> SensorExecutionData:
        """One tick. Keys are added and the cursor is kept, as the daemon does; runs are not started."""
        repository = self.repository
        with SensorEvaluationContext(
            instance_ref=self.instance.get_ref(), last_tick_completion_time=None, last_run_key=None,
            cursor=self.cursors.get(sensor_name), log_key=None, repository_name=repository.name, repository_def=repository,
            sensor_name=sensor_name, resources=repository.get_top_level_resources(),
        ) as context:
            data = repository.get_sensor_def(sensor_name).evaluate_tick(context)
        self.cursors[sensor_name] = data.cursor or self.cursors.get(sensor_name)
        for request in data.dynamic_partitions_requests or []:
            self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        return data

    def requests(self, sensor_name: str) -> list[RunRequest]:
        return list(self.evaluate(sensor_name).run_requests or [])

    def epoch_keys(self) -> list[str]:
        return list(self.instance.get_dynamic_partitions("epochs"))


@pytest.fixture(scope="session")
def empty_instance(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance that nothing has run on: making its databases takes longer than a test."""
    home = tmp_path_factory.mktemp("instance")
    with DagsterInstance.local_temp(str(home)) as instance:
        instance.get_dynamic_partitions("epochs")
        instance.get_runs(limit=1)
    return home


@pytest.fixture
def make_watch(tmp_path: Path, empty_instance: Path) -> Iterator[Callable[..., Watch]]:
    """Make a watch over a new world; ``settings``: TOML after the world's own, ``replace``: text of the world's to change."""
    from checkpoints import write_checkpoint

    instances = ExitStack()

    def make(settings: str = "", replace: Mapping[str, str] | None = None) -> Watch:
        base = write_checkpoint(tmp_path / "base")
        world = make_world(tmp_path / "world", {"base": base}, Scenario("base", (), settings, tempo=TEMPO))
        text = world.settings_path.read_text()
        for old, new in (replace or {}).items():
            assert old in text
            text = text.replace(old, new)
        world.settings_path.write_text(text)
        shutil.copytree(empty_instance, tmp_path / "dagster")
        instance = instances.enter_context(DagsterInstance.local_temp(str(tmp_path / "dagster")))
        return Watch(world, build_defs(str(world.settings_path)), instance)

    with instances:
        yield make


@pytest.fixture
def watch(make_watch: Callable[..., Watch]) -> Watch:
    """A watch over a new world."""
    return make_watch()
