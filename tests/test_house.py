"""Laws of the house: its top level, its floors, the two files that Dagster reads, and what the wheel holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance
from dagster._core.remote_origin import ManagedGrpcPythonEnvCodeLocationOrigin
from dagster._core.workspace.load import location_origins_from_yaml_paths

from sensors.epochs import SERIAL_TAG

ROOT = Path(__file__).parents[1]

TOP_LEVEL = {
    ".ci", ".gitignore", "Makefile", "README.md", "affine_dagster", "assets", "benchmarks", "dagster.yaml", "docs", "k8s", "pyproject.toml",
    "sensors", "tests", "workspace.yaml",
}
"""DESIGN section 3, and git's own file."""

PACKAGES = ("affine_dagster", "assets", "sensors")


def _tracked() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout: the files of a source archive are not listed")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.split("\n")[:-1]


def test_the_top_level_is_exactly_the_design() -> None:
    assert {name.split("/")[0] for name in _tracked()} == TOP_LEVEL


def test_tests_are_no_package() -> None:
    """An ``__init__.py`` under tests would shadow ``assets`` and ``sensors``."""
    assert not [name for name in _tracked() if name.startswith("tests/") and name.endswith("__init__.py")]


def test_names_of_test_files_are_unique() -> None:
    names = [Path(name).name for name in _tracked() if name.startswith("tests/") and Path(name).name.startswith("test_")]
    assert sorted(names) == sorted(set(names))


def test_a_room_imports_only_rooms_below_it() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


# --- workspace.yaml, pyproject.toml, dagster.yaml ------------------------------------------------------------------------------


def test_the_workspace_names_the_location_as_the_project_does() -> None:
    """Sensor state hangs on the location's name."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert tool["dg"]["directory_type"] == "project"
    (origin,) = location_origins_from_yaml_paths([str(ROOT / "workspace.yaml")])
    assert origin.location_name == tool["dg"]["project"]["code_location_name"]


def test_the_workspace_loads_the_definitions_of_the_project() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    (origin,) = location_origins_from_yaml_paths([str(ROOT / "workspace.yaml")])
    assert isinstance(origin, ManagedGrpcPythonEnvCodeLocationOrigin)
    assert origin.loadable_target_origin.module_name == f"{tool['dg']['project']['root_module']}.definitions"


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterInstance]:
    home = tmp_path_factory.mktemp("home")
    shutil.copyfile(ROOT / "dagster.yaml", home / "dagster.yaml")
    with DagsterInstance.from_config(str(home)) as made:
        yield made


def test_dagster_yaml_is_an_instance_that_runs_epochs_one_by_one(instance: DagsterInstance) -> None:
    limits = instance.get_concurrency_config().run_queue_config.tag_concurrency_limits
    assert {limit["value"]: limit["limit"] for limit in limits if limit["key"] == SERIAL_TAG} == {"epoch": 1, "weights": 1}


def test_a_run_whose_process_died_is_found(instance: DagsterInstance) -> None:
    """Case D10: an evicted run stays "started" for ever unless somebody looks."""
    assert instance.run_monitoring_enabled
    assert instance.run_monitoring_max_runtime_seconds > 0
    assert instance.run_monitoring_start_timeout_seconds > 0


def test_a_pool_has_a_limit_and_is_freed_when_its_run_has_ended(instance: DagsterInstance) -> None:
    assert instance.get_concurrency_config().pool_config.default_pool_limit is not None
    assert instance.run_monitoring_settings["free_slots_after_run_end_seconds"] > 0


def test_nothing_is_reported_to_a_stranger(instance: DagsterInstance) -> None:
    assert not instance.telemetry_enabled


# --- the wheel -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built offline by the build system that pyproject.toml names, from a copy of the tracked files."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    for name in _tracked():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    build = f"from setuptools.build_meta import build_wheel; print(build_wheel({str(out)!r}))"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True, text=True)
    (made,) = out.glob("*.whl")
    return made


def test_the_wheel_lists_exactly_the_three_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" not in name}
    assert names == set(PACKAGES)


def test_the_wheel_lacks_no_module(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.endswith((".py", ".sql", ".toml"))}
    tracked = {name for name in _tracked() if name.startswith(PACKAGES) and name.endswith((".py", ".sql", ".toml"))}
    assert held == {name for name in tracked if (ROOT / name).is_file()}


VALIDATE = """
from dagster import Definitions
import affine_dagster.definitions, assets, sensors
Definitions.validate_loadable(affine_dagster.definitions.defs)
print(affine_dagster.__file__, assets.__file__, sensors.__file__)
"""


def test_the_wheel_installed_elsewhere_validates(wheel: Path, tmp_path: Path) -> None:
    target, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(wheel) as archive:  # a wheel of pure Python is installed by unpacking it
        archive.extractall(target)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("AFFINE_", "DAGSTER_"))}
    environment = {**plain, "PYTHONPATH": str(target)}
    done = subprocess.run([sys.executable, "-c", VALIDATE], cwd=elsewhere, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(Path(name).is_relative_to(target) for name in done.stdout.split()[-3:])
