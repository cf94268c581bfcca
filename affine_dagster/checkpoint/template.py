"""The chat template: which one counts, its hash, and rendering it in an immutable sandbox.

One resolution order, that of transformers 5: ``chat_template.jinja``, then ``chat_template`` of ``tokenizer_config.json``, as a
text or in the older list form by the name ``default``. What counts is hashed and passed to engines explicitly (case H14).
The sandbox bounds results, not time or every allocation: hostile templates are rendered only in a killable child process with
limits (``admission/probe.py``). What must not go in: which templates are allowed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from blake3 import blake3
from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from affine_dagster.checkpoint.json_files import read_object
from affine_dagster.reasons import AffineError

__all__ = ["DATE", "MAX_RENDERED", "MAX_TEMPLATE_BYTES", "effective_template", "render", "special_tokens", "template_hash"]

TEMPLATE_FILE = "chat_template.jinja"
TOKENIZER_CONFIG = "tokenizer_config.json"
MAX_TEMPLATE_BYTES = 64 * 1024
"""Templates of public base models have at most about 20 kB; one of 120 kB held a puzzle solver (case H16)."""
MAX_RENDERED = 1_000_000
"""Characters that one rendering may have."""
DATE = datetime(2026, 1, 1)  # noqa: DTZ001  a template sees a date, never the clock
"""What ``strftime_now`` says: a template that prints the date must give the same prompt on every validator and every day."""
_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")
_MAX_OPERAND = 100_000


class _Generation(Extension):
    """``{% generation %}`` marks the assistant's tokens for training; for a prompt it is transparent."""

    tags = {"generation"}  # noqa: RUF012  jinja2's own declaration

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Parse the block as its body."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Sandbox(ImmutableSandboxedEnvironment):
    """jinja2's immutable sandbox that also refuses the operators which make much out of little."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute a binary operation, unless it could be large."""
        numbers = all(isinstance(side, int | float) and abs(side) <= _MAX_OPERAND for side in (left, right))
        if not numbers or (operator == "**" and abs(right) > 64):
            raise TemplateError(f"operator {operator} on more than numbers up to {_MAX_OPERAND}")
        return super().call_binop(context, operator, left, right)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json(
    value: object, ensure_ascii: bool = False, indent: int | None = None, separators: tuple[str, str] | None = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _strftime(pattern: str) -> str:
    return DATE.strftime(pattern[:100])


def _sandbox() -> _Sandbox:
    environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = _to_json
    del environment.filters["random"]
    del environment.globals["lipsum"]
    functions: dict[str, Callable[..., Any]] = {"raise_exception": _raise_exception, "strftime_now": _strftime}
    environment.globals.update(functions)
    return environment


@lru_cache(maxsize=32)
def _compiled(template: str) -> Template:
    """Compiling takes a millisecond, rendering ten microseconds; the sandbox lets no rendering change what the next one sees."""
    return _sandbox().from_string(template)


def effective_template(folder: Path) -> str:
    """The template that counts. Raises ``no_chat_template``, ``template_unrenderable`` (not text, or over the bound)."""
    file = folder / TEMPLATE_FILE
    if file.is_file():
        with file.open("rb") as opened:
            content = opened.read(MAX_TEMPLATE_BYTES + 1)
        try:
            return _bounded(content.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise AffineError("template_unrenderable", f"{TEMPLATE_FILE} is not UTF-8") from error
    return _bounded(_from_config(read_object(folder / TOKENIZER_CONFIG, "no_chat_template").get("chat_template")))


def _from_config(value: object) -> str:
    if isinstance(value, list):
        value = next((entry.get("template") for entry in value if isinstance(entry, dict) and entry.get("name") == "default"), None)
    if not isinstance(value, str) or not value.strip():
        raise AffineError("no_chat_template", f"neither {TEMPLATE_FILE} nor chat_template in {TOKENIZER_CONFIG}")
    return value


def _bounded(template: str) -> str:
    if not template.strip():
        raise AffineError("no_chat_template", "the template is empty")
    size = len(template.encode("utf-8", "surrogatepass"))
    if size > MAX_TEMPLATE_BYTES:
        raise AffineError("template_unrenderable", f"the template has over {MAX_TEMPLATE_BYTES} bytes")
    return template


def template_hash(template: str) -> str:
    """BLAKE3 of the template's UTF-8, 64 hex digits."""
    return str(blake3(template.encode("utf-8", "surrogatepass")).hexdigest())


def special_tokens(folder: Path) -> Mapping[str, str]:
    """The special tokens that a template may name (bos, eos, pad, unk), from ``tokenizer_config.json``."""
    config = read_object(folder / TOKENIZER_CONFIG, "tokenizer_unreadable")
    found: dict[str, str] = {}
    for name in _SPECIAL:
        value = config.get(name)
        content = value.get("content") if isinstance(value, dict) else value
        if isinstance(content, str):
            found[name] = content
    return found


def render(
    template: str,
    messages: Sequence[Mapping[str, str]],
    *,
    tokens: Mapping[str, str] | None = None,
    add_generation_prompt: bool = True,
    max_characters: int = MAX_RENDERED,
) -> str:
    """The prompt for a conversation: messages with ``role`` and ``content``; ``tokens`` as from :func:`special_tokens`.

    Raises ``template_unrenderable`` with jinja2's message, or when the result has over ``max_characters``.
    """
    pieces: list[str] = []
    length = 0
    try:
        compiled = _compiled(template)
        variables = {**(tokens or {}), "messages": [dict(message) for message in messages], "add_generation_prompt": add_generation_prompt}
        for piece in compiled.generate(**variables):
            length += len(piece)
            if length > max_characters:
                raise AffineError("template_unrenderable", f"more than {max_characters} characters")  # noqa: TRY301
            pieces.append(piece)
    except AffineError:
        raise
    except MemoryError as error:
        raise AffineError("template_unrenderable", "out of memory") from error
    except Exception as error:
        # a template can raise whatever Python can: all of it is the template's
        raise AffineError("template_unrenderable", f"{type(error).__name__}: {ascii(str(error))[:300]}") from error
    return "".join(pieces)
