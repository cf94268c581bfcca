"""``affine sandbox`` tells an operator whether generated code is held here, and by what."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from affine_dagster.cli import sandbox
from affine_dagster.cli.main import main
from affine_dagster.cli.sandbox import PROBES, Probe, check_sandbox
from affine_dagster.environments.sandbox import server
from affine_dagster.reasons import AffineError


def test_the_command_names_the_layers_and_every_probe() -> None:
    result = CliRunner().invoke(main, ["sandbox"])
    assert result.exit_code == 0, result.output
    assert "allow-list" in result.output
    assert [line.split(maxsplit=1)[1] for line in result.output.splitlines() if line.startswith("held")] == list(PROBES)


def test_a_probe_that_gets_through_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "PROBES", {**PROBES, "a wall that is not there": Probe("return 1", lambda outcome: False)})
    said: list[str] = []
    with pytest.raises(AffineError, match="a wall that is not there") as caught:
        check_sandbox(said.append)
    assert caught.value.code == "sandbox_failed"
    assert "FAILED  a wall that is not there" in said


@pytest.mark.parametrize("command", ["demo", "dev"])
def test_where_no_sandbox_starts_a_demo_says_what_to_install_before_it_makes_anything(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "find_bubblewrap", lambda: tmp_path / "bwrap")
    result = CliRunner().invoke(main, [command, "--home", str(tmp_path / "home"), "--cache", str(tmp_path / "cache")])
    assert result.exit_code == 1
    assert "install bubblewrap" in result.output
    assert list(tmp_path.iterdir()) == []
