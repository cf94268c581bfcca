"""The Dagster instance of a world is whole or absent, whenever its maker is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from dagster import DagsterInstance

from affine_dagster.cli.instance import make_whole

CONFIGURATION = Path(__file__).parents[2] / "dagster.yaml"


def usable(home: Path) -> bool:
    with DagsterInstance.from_config(str(home)) as instance:
        instance.add_dynamic_partitions("epochs", ["e0000000"])
        return list(instance.get_dynamic_partitions("epochs")) == ["e0000000"]


def test_a_new_home_is_usable_and_holds_the_configuration(tmp_path: Path) -> None:
    make_whole(tmp_path / "dagster", CONFIGURATION)
    assert usable(tmp_path / "dagster")
    assert (tmp_path / "dagster" / "dagster.yaml").read_text() == CONFIGURATION.read_text()
    assert not list(tmp_path.glob("*making*"))


def test_a_home_that_is_whole_stays_as_it_is(tmp_path: Path) -> None:
    make_whole(tmp_path / "dagster", CONFIGURATION)
    assert usable(tmp_path / "dagster")
    make_whole(tmp_path / "dagster", CONFIGURATION)
    with DagsterInstance.from_config(str(tmp_path / "dagster")) as instance:
        assert list(instance.get_dynamic_partitions("epochs")) == ["e0000000"]


@pytest.mark.parametrize("left", [None, "empty index", "yaml alone"])
def test_what_a_killed_start_left_is_moved_aside_and_made_anew(tmp_path: Path, left: str | None) -> None:
    """Point 20 of the kill benchmark: an index.db without tables, at which every later start failed."""
    home = tmp_path / "dagster"
    if left is not None:
        (home / "history" / "runs").mkdir(parents=True)
        (home / "dagster.yaml").write_text("")
    if left == "empty index":
        (home / "history" / "runs" / "index.db").touch()
    make_whole(home, CONFIGURATION)
    assert usable(home)
    assert len(list(tmp_path.glob("dagster.incomplete-*"))) == (0 if left is None else 1)


MAKER = """
import sys, os, signal
sys.path[:0] = {path!r}
from pathlib import Path
import sqlalchemy.engine.default as default
count = 0
real = default.DefaultDialect.do_execute
def struck(self, cursor, statement, parameters, context=None):
    global count
    count += 1
    if count == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, cursor, statement, parameters, context)
default.DefaultDialect.do_execute = struck
from affine_dagster.cli.instance import make_whole
make_whole(Path({home!r}), Path({configuration!r}))
"""


@pytest.mark.parametrize("at", [1, 5, 20, 45])
def test_a_maker_that_is_killed_at_any_statement_leaves_nothing_half(tmp_path: Path, at: int) -> None:
    home = tmp_path / "dagster"
    text = MAKER.format(path=sys.path, at=at, home=str(home), configuration=str(CONFIGURATION))
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", text], env=dict(os.environ), check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not home.exists()
    make_whole(home, CONFIGURATION)
    assert usable(home)
    assert not list(tmp_path.glob("*making*"))
