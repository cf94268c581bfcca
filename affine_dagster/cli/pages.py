"""Reference pages made from the code itself, so that they cannot go stale: settings and reasons.

``affine page settings > docs/settings.md``; a test compares. What must not go in: prose that the code does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from affine_dagster.reasons import REASONS
from affine_dagster.settings import GenesisModel, Settings

__all__ = ["PAGES"]


def _settings_page() -> str:
    lines = [
        "# Settings",
        "",
        "One TOML file, named by `$AFFINE_SETTINGS`; paths are relative to it. The environment goes before the file:",
        "`AFFINE_SCORING__MARGIN=0.03`. `affine settings FILE` checks a file and names each bad field. Made by `affine page settings`.",
    ]
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            lines += ["", f"## [{name}]", "", str(section.__doc__).strip(), "", *_fields(section)]
    lines += ["", "## [[scoring.genesis]]", "", str(GenesisModel.__doc__).strip(), "", *_fields(GenesisModel)]
    return "\n".join(lines) + "\n"


def _fields(section: type[BaseModel]) -> Iterator[str]:
    yield "| field | default | what it is |"
    yield "|---|---|---|"
    for name, field in section.model_fields.items():
        yield f"| `{name}` | {_default(field)} | {field.description or ''} |"


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "needed"
    return f"`{field.default}`" if not isinstance(field.default, tuple) else " ".join(f"`{value}`" for value in field.default) or "none"


def _reasons_page() -> str:
    lines = [
        "# Reasons",
        "",
        "Every state that a person can see carries one of these codes. Only a fault of the `model` costs the miner anything.",
        "Made by `affine page reasons`.",
        "",
        "| code | fault | meaning | next step |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{code}` | {entry.fault or ''} | {entry.meaning} | {entry.next_step} |" for code, entry in REASONS.items()]
    return "\n".join(lines) + "\n"


PAGES: Mapping[str, Callable[[], str]] = {"settings": _settings_page, "reasons": _reasons_page}
"""The pages by name."""
