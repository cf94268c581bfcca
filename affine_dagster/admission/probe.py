"""Loading a submitted tokenizer and rendering a submitted template in a child process that can be killed.

The child (``python -m affine_dagster.admission.probe``) limits its own memory, processor time and files before it touches a
submitted byte, and tells its result on a pipe that nothing else writes to. The parent reads a bounded number of bytes until a
deadline, kills the child's whole process group, and decides whose fault a silence is. What must not go in: which templates
are allowed, and any use of the tokenizer beyond this.
"""

from __future__ import annotations

import json
import math
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import affine_dagster
from affine_dagster.checkpoint.template import effective_template, render, special_tokens, template_hash
from affine_dagster.checkpoint.tokenizer import load_tokenizer, max_token_id, tokenizer_rewriting, tokenizer_signature
from affine_dagster.reasons import AffineError

__all__ = ["Probe", "probe"]

_MAX_OUTPUT = 64 * 1024
_QUESTION = "What is the sum of 2 and 24?"
_CONVERSATIONS: Sequence[Sequence[Mapping[str, str]]] = (
    ({"role": "user", "content": _QUESTION},),
    ({"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": _QUESTION}),
)
_STAGES = {"tokenizer": "tokenizer_unreadable", "template": "template_unrenderable"}
_TELLABLE = {"tokenizer_unreadable", "template_unrenderable", "no_chat_template"}


@dataclass(frozen=True)
class Probe:
    """What the child found: digests of 64 hex digits, the tokenizer's largest id."""

    template_hash: str
    tokenizer_signature: str
    tokenizer_rewriting: str
    max_token_id: int


@dataclass(frozen=True)
class _Run:
    """How the child ended. ``status``: exit code, negative for a signal; ``cpu_seconds``: of the child alone."""

    output: bytes
    status: int
    cpu_seconds: float
    timed_out: bool


def probe(folder: Path, *, seconds: float, memory_bytes: int) -> Probe:
    """Load the tokenizer and render the template of a folder within limits.

    Raises AffineError: ``tokenizer_unreadable``, ``no_chat_template``, ``template_unrenderable`` (the miner's), or
    ``admission_failed`` (ours: the child could not start, was killed from outside, or got no processor time).
    """
    command = [sys.executable, "-s", "-P", "-m", "affine_dagster.admission.probe", str(folder.resolve()), str(seconds), str(memory_bytes)]
    run = _run(command, seconds)
    events = list(_events(run.output.splitlines()))
    for event in events:
        if isinstance(event.get("found"), dict):
            return Probe(**event["found"])  # type: ignore[arg-type]
        if event.get("error") in _TELLABLE:
            raise AffineError(str(event["error"]), str(event.get("detail")))
    raise _silence(run, [str(event["stage"]) for event in events if event.get("stage") in _STAGES], seconds)


def _silence(run: _Run, stages: Sequence[str], seconds: float) -> AffineError:
    """Whose fault it is that the child said nothing: the submission's, if it had begun on it and used up its limits or crashed."""
    facts = f"ended with {run.status} after {run.cpu_seconds:.1f} s of processor time" + (f", over {seconds} s" if run.timed_out else "")
    starved = run.timed_out and run.cpu_seconds < seconds / 2
    killed = not run.timed_out and run.status == -signal.SIGKILL
    if not stages or starved or killed:
        return AffineError("admission_failed", f"the probe {facts}")
    return AffineError(_STAGES[stages[-1]], f"the {stages[-1]} {facts}")


def _events(lines: Iterable[bytes]) -> Iterable[dict[str, object]]:
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            return
        if isinstance(event, dict):
            yield event


def _run(command: Sequence[str], seconds: float) -> _Run:
    environment = {
        "PATH": os.defpath, "PYTHONPATH": str(Path(affine_dagster.__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8", "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    child = subprocess.Popen(  # noqa: S603  our own interpreter and module, no shell
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
    )
    try:
        output, timed_out = _read(child, time.monotonic() + seconds)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.stdout is not None:
            child.stdout.close()
    return _Run(output, child.returncode, usage.ru_utime + usage.ru_stime, timed_out)


def _read(child: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bool]:
    if child.stdout is None:
        raise AffineError("admission_failed", "the probe has no pipe")
    output = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while len(output) <= _MAX_OUTPUT:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return output, True
            piece = os.read(child.stdout.fileno(), _MAX_OUTPUT)
            if not piece:
                break
            output += piece
    return output, False


def _limit(seconds: float, memory_bytes: int) -> None:
    used = time.process_time()
    processor = math.ceil(used + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (processor, processor + 5))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def _look(folder: Path, told: int) -> Probe:
    _tell(told, {"stage": "tokenizer"})
    tokenizer = load_tokenizer(folder)
    signature, rewriting = tokenizer_signature(folder), tokenizer_rewriting(folder)
    tokens = special_tokens(folder)
    _tell(told, {"stage": "template"})
    template = effective_template(folder)
    for conversation in _CONVERSATIONS:
        prompt = render(template, conversation, tokens=tokens)
        if _QUESTION not in prompt:
            raise AffineError("template_unrenderable", "the template drops the user's message")
        if not tokenizer.encode(prompt, add_special_tokens=False).ids:
            raise AffineError("tokenizer_unreadable", "the tokenizer makes nothing of a prompt")
    return Probe(template_hash(template), signature, rewriting, max_token_id(tokenizer))


def _tell(descriptor: int, event: Mapping[str, object]) -> None:
    os.write(descriptor, json.dumps(event).encode() + b"\n")


def main(arguments: Sequence[str]) -> int:
    """The child: folder, seconds, bytes."""
    folder, seconds, memory_bytes = Path(arguments[0]), float(arguments[1]), int(arguments[2])
    told = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    import tokenizers  # noqa: F401  before the limits: a library that cannot be loaded is our fault

    _limit(seconds, memory_bytes)
    try:
        _tell(told, {"found": asdict(_look(folder, told))})
    except AffineError as error:
        _tell(told, {"error": error.code, "detail": error.detail})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
