"""A hostile tokenizer or template ends in the child, within its limits, and the parent is told whose fault it was."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from affine_dagster.admission.probe import _Run, _silence, probe
from affine_dagster.reasons import AffineError, Fault

MEMORY = 2**30


def refusal(folder: Path, seconds: float = 20) -> AffineError:
    with pytest.raises(AffineError) as error:
        probe(folder, seconds=seconds, memory_bytes=MEMORY)
    return error.value


LOOP = "{% for i in range(99999) %}{% for j in range(99999) %}"
ENDS = "{% endfor %}{% endfor %}"
BOMBS = {
    "allocates gigabytes": "{{ 'a' | center(9000000000) }}",
    "doubles a text": "{% set ns = namespace(x='aaaa') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    "writes without end": LOOP + "{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' }}" + ENDS,
    "drops the question": "assistant:",
    "leaves the sandbox": "{{ ''.__class__.__base__.__subclasses__() }}",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_template_bomb_is_refused(make: ModuleType, tmp_path: Path, bomb: str) -> None:
    error = refusal(make.write_checkpoint(tmp_path, template=BOMBS[bomb]))
    assert (error.code, error.reason.fault) == ("template_unrenderable", Fault.MODEL)


def test_a_template_that_never_ends_is_killed_at_the_limit(make: ModuleType, tmp_path: Path) -> None:
    folder = make.write_checkpoint(tmp_path, template=LOOP + ENDS)
    begun = time.monotonic()
    error = refusal(folder, seconds=2)
    assert time.monotonic() - begun < 10
    # where the machine is so busy that the child got no processor time, the miner is not blamed
    assert error.code in {"template_unrenderable", "admission_failed"}


def test_without_a_template_the_reason_says_so(make: ModuleType, tmp_path: Path) -> None:
    """H13."""
    assert refusal(make.write_checkpoint(tmp_path, template=None)).code == "no_chat_template"


def test_a_tokenizer_that_does_not_load_is_refused(make: ModuleType, tmp_path: Path) -> None:
    folder = make.write_checkpoint(tmp_path)
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": [["a"]]}}')
    assert refusal(folder).code == "tokenizer_unreadable"


def run(status: int, cpu_seconds: float, timed_out: bool) -> _Run:
    return _Run(b"", status, cpu_seconds, timed_out)


@pytest.mark.parametrize(
    ("ended", "stages", "code"),
    [
        (run(-9, 9.0, True), ["tokenizer", "template"], "template_unrenderable"),
        (run(-9, 9.0, True), ["tokenizer"], "tokenizer_unreadable"),
        (run(-6, 0.1, False), ["tokenizer"], "tokenizer_unreadable"),
        (run(-24, 10.0, False), ["tokenizer", "template"], "template_unrenderable"),
        (run(-9, 0.5, True), ["tokenizer", "template"], "admission_failed"),
        (run(-9, 0.5, False), ["tokenizer", "template"], "admission_failed"),
        (run(1, 0.5, False), [], "admission_failed"),
    ],
)
def test_a_silence_is_the_miners_only_if_its_files_used_up_the_limits(ended: _Run, stages: list[str], code: str) -> None:
    assert _silence(ended, stages, 10).code == code


def test_the_child_gets_no_secret(make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken interpreter path in the environment would stop the child if it were passed on."""
    monkeypatch.setenv("PYTHONHOME", str(tmp_path / "nowhere"))
    assert probe(make.write_checkpoint(tmp_path / "model"), seconds=30, memory_bytes=MEMORY).max_token_id == make.VOCABULARY - 1


def test_the_child_loads_little() -> None:
    """It starts once a submission: what it does not need would cost more than all that it does."""
    code = "import affine_dagster.admission.probe, sys; print(*({'polars', 'numpy', 'pydantic', 'dagster', 'torch'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []
