"""docs/programs.md is what the code does: its prompts are the families' own, and its numbers are the code's constants."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from affine_dagster.environments.programs.extraction import MAX_PROGRAM_CHARACTERS
from affine_dagster.environments.programs.family import (
    _SHOWN,
    LEVELS,
    LIMITS,
    PROGRAM_EXPRESSIONS,
    PROGRAM_LOOPS,
    PROGRAM_STRUCTURES,
    ProgramFamily,
)
from affine_dagster.environments.programs.judge import _RELATED_CALLS, CALLS
from affine_dagster.environments.registry import environments
from affine_dagster.environments.sandbox.bubblewrap import ALLOW, INSTALL
from affine_dagster.environments.sandbox.inside import _WORDS
from affine_dagster.environments.sandbox.pool import _PATIENCE
from affine_dagster.environments.sandbox.seccomp import ALLOWED
from affine_dagster.environments.sandbox.server import _SPARE_MEMORY, MEMORY_BYTES
from affine_dagster.environments.sandbox.values import MAX_DEPTH, MAX_INTEGER_BITS
from affine_dagster.settings import ServingSettings, Settings

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "programs.md").read_text()
FAMILIES: Mapping[str, ProgramFamily] = {family.name: family for family in (PROGRAM_EXPRESSIONS, PROGRAM_LOOPS, PROGRAM_STRUCTURES)}
EXAMPLES = re.findall(r"^### Level (\d): [^\n]*\n\n`(\w+)`, seed (\d+):\n\n```text\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)


def _table(head: str) -> list[list[str]]:
    """The rows of the page's table with this head."""
    (rows,) = re.findall(rf"^{re.escape(head)}\n[|-]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [row.strip("| ").split(" | ") for row in rows.splitlines()]


def _number(value: float) -> str:
    return f"{value:,g}"


def test_the_environments_are_the_families_with_their_levels_and_majority_rates() -> None:
    expected = [[f"`{name}`", ", ".join(map(str, family.levels)), str(family.majority_rate)] for name, family in FAMILIES.items()]
    assert _table("| environment | levels | solved by its commonest program |") == expected


def test_every_level_has_one_example() -> None:
    assert [int(level) for level, *_ in EXAMPLES] == sorted(LEVELS)


@pytest.mark.parametrize(("level", "family", "seed", "text"), EXAMPLES, ids=[f"level {level}" for level, *_ in EXAMPLES])
def test_an_example_is_the_prompt_of_its_seed(level: str, family: str, seed: str, text: str) -> None:
    """It is wrapped on the page, at blanks."""
    task = FAMILIES[family].task(int(seed))
    assert (task.facts["level"], task.prompt) == (level, " ".join(text.split("\n")))


def test_the_lengths_of_prompts_and_references_are_those_of_the_first_seeds() -> None:
    prompts, references = dict.fromkeys(LEVELS, 0), dict.fromkeys(LEVELS, 0)
    for family in FAMILIES.values():
        for seed in range(300):
            task = family.task(seed)
            level = int(task.facts["level"])
            prompts[level] = max(prompts[level], len(task.prompt))
            references[level] = max(references[level], len(task.answer))
    expected = [[str(level), str(_SHOWN[level]), str(prompts[level]), str(references[level])] for level in LEVELS]
    assert _table("| level | examples shown | longest prompt | longest reference |") == expected


def test_every_limit_is_the_constant_of_the_code() -> None:
    assert _table("| limit | value |") == [
        ["characters of a completion", _number(MAX_PROGRAM_CHARACTERS)],
        ["calls compared with the reference, at least (where the only argument is a count: all 26)", _number(CALLS)],
        ["pairs of calls for each property", _number(_RELATED_CALLS)],
        ["processor time, loading and all calls together", f"{LIMITS.cpu_seconds:g} s"],
        ["time on the wall, loading and all calls together", f"{LIMITS.wall_seconds:g} s"],
        [
            "time on the wall of a second try, for a program that used less than half of its processor time",
            f"{_PATIENCE * LIMITS.wall_seconds:g} s",
        ],
        ["memory (address space)", f"{_number(LIMITS.memory_bytes / 2**20)} MiB"],
        ["all returned values together, as text", f"{_number(LIMITS.output_bytes / 2**10)} KiB"],
        ["bits of a whole number that is returned", _number(MAX_INTEGER_BITS)],
        ["lists in lists that are returned", _number(MAX_DEPTH)],
        ["further processes or threads", _number(LIMITS.processes)],
        ["bytes written to a file", _number(LIMITS.file_bytes)],
        ["characters of an error's name and message that are kept, each", _number(_WORDS)],
        ["memory of a whole sandbox, where control groups can be made", f"{_number((MEMORY_BYTES + _SPARE_MEMORY) / 2**20)} MiB"],
    ]


@pytest.mark.parametrize("advice", [INSTALL, ALLOW])
def test_what_to_do_without_a_sandbox_is_what_its_error_says(advice: str) -> None:
    assert f"> {advice}\n" in re.sub(r"\n> (?=the container)", " ", PAGE)


def test_the_machines_are_those_with_a_list_of_system_calls() -> None:
    assert f"Linux on {' or '.join(f'`{machine}`' for machine in ALLOWED)};" in PAGE


def test_the_defaults_that_are_too_small_are_the_defaults() -> None:
    serving = ServingSettings()
    assert f"({serving.max_new_tokens} tokens an answer, {serving.max_model_length} with the prompt)" in PAGE


def test_the_settings_to_add_are_settings() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    settings = Settings.model_validate(tomllib.loads(text))
    assert {family.name for family in environments(settings.evaluation.environments)} & set(FAMILIES)


def test_there_is_one_place_for_the_figures() -> None:
    assert PAGE.count("<!-- difficulty -->") == 1
