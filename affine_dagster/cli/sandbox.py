"""``affine sandbox``: does the sandbox start here, of which layers is it, and does it hold.

What must not go in: how programs are held (``environments/sandbox``). The probes are a handful of the attacks of the tests, for an
operator on a machine where no test runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from affine_dagster.environments.sandbox.pool import SandboxPool
from affine_dagster.environments.sandbox.port import Limits, Outcome, Program, Raised, Returned
from affine_dagster.reasons import AffineError

__all__ = ["PROBES", "Probe", "check_sandbox", "require_sandbox"]


@dataclass(frozen=True)
class Probe:
    """An attack and what must come of it."""

    body: str
    held: Callable[[Outcome], bool]


def _refused(outcome: Outcome) -> bool:
    return outcome.ending == "finished" and all(isinstance(result, Raised) for result in outcome.results)


def _ended(outcome: Outcome) -> bool:
    return outcome.ending in ("cpu_limit", "memory_limit", "output_limit")


PROBES: Mapping[str, Probe] = {
    "an honest program": Probe("return 6 * 7", lambda outcome: outcome.results == (Returned(42),)),
    "a new process": Probe("import os\nos.fork()", _refused),
    "a signal to everybody": Probe("import os\nos.kill(-1, 9)", _refused),
    "a socket": Probe("import socket\nsocket.socket()", _refused),
    "the environment of process 1": Probe("open('/proc/1/environ').read()", _refused),
    "a file": Probe("open('/file', 'w').write('x')", _refused),
    "an endless loop": Probe("while True: pass", _ended),
    "a gigabyte of memory": Probe("return len(bytes(10**9))", _ended),
    "a megabyte of output": Probe("return 'x' * 10**6", _ended),
    "an honest program after them": Probe("return 6 * 7", lambda outcome: outcome.results == (Returned(42),)),
}


def check_sandbox(said: Callable[[str], None]) -> None:
    """Start a sandbox, say its layers, and run the probes in it.

    Raises ``sandbox_unavailable`` where none starts, ``sandbox_failed`` where a probe got through.
    """
    pool = SandboxPool(1)
    try:
        layers = pool.layers()
        said(f"bubblewrap        {layers.bubblewrap}")
        said(f"python            {layers.python}, standard library only")
        said(f"user              {'one of its own for each sandbox' if layers.own_user else 'in a user namespace'}")
        said(f"system calls      {'allow-list' if layers.filter else 'NOT filtered'}")
        said(f"control groups    {', '.join(layers.control_groups) or 'none may be made here: rlimits and the wall kill hold alone'}")
        programs = [_program(probe.body) for probe in PROBES.values()]
        outcomes = pool.run(programs, Limits(cpu_seconds=0.5))
    finally:
        pool.close()
    failed = [name for (name, probe), outcome in zip(PROBES.items(), outcomes, strict=True) if not probe.held(outcome)]
    for name in PROBES:
        said(f"{'FAILED' if name in failed else 'held':<8}{name}")
    if failed:
        raise AffineError("sandbox_failed", f"this got through: {', '.join(failed)}")


def require_sandbox() -> None:
    """Raise ``sandbox_unavailable``, with what to install, where no sandbox starts: before minutes go into what would need one."""
    SandboxPool(1).layers()


def _program(body: str) -> Program:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return Program(f"def f():\n{lines}\n", "f", ((),))
