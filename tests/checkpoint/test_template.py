"""Which chat template counts, and what the sandbox lets it do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from affine_dagster.checkpoint.template import MAX_TEMPLATE_BYTES, effective_template, render, template_hash
from affine_dagster.reasons import AffineError

USER = [{"role": "user", "content": "hi"}]


def config(folder: Path, value: object) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": value}))


def refusal_of(template: str) -> str:
    with pytest.raises(AffineError) as error:
        render(template, USER)
    return error.value.code


def test_the_file_goes_before_the_config(tmp_path: Path) -> None:
    """H14: two different templates in the two places."""
    config(tmp_path, "from the config")
    assert effective_template(tmp_path) == "from the config"
    (tmp_path / "chat_template.jinja").write_text("from the file")
    assert effective_template(tmp_path) == "from the file"


def test_the_older_list_form_counts_by_its_default(tmp_path: Path) -> None:
    """H14."""
    config(tmp_path, [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}])
    assert effective_template(tmp_path) == "plain"


@pytest.mark.parametrize("value", [None, "", "  ", 5, [], [{"name": "tool_use", "template": "x"}], [3], {"default": "x"}])
def test_without_a_template_there_is_a_refusal(tmp_path: Path, value: object) -> None:
    """H13."""
    config(tmp_path, value)
    with pytest.raises(AffineError) as error:
        effective_template(tmp_path)
    assert error.value.code == "no_chat_template"


def test_a_template_of_120_kilobytes_is_refused(tmp_path: Path) -> None:
    """H16."""
    (tmp_path / "chat_template.jinja").write_text("x" * 120_000)
    assert MAX_TEMPLATE_BYTES < 120_000
    with pytest.raises(AffineError) as error:
        effective_template(tmp_path)
    assert error.value.code == "template_unrenderable"


def test_the_hash_tells_templates_apart() -> None:
    assert template_hash("a") == template_hash("a") != template_hash("a ")


def test_a_conversation_is_rendered_with_tokens_and_the_generation_prompt() -> None:
    turns = "{% for m in messages %}{{ m.role }}:{{ m['content'] }};{% endfor %}"
    template = "{{ bos_token }}" + turns + "{% if add_generation_prompt %}A:{% endif %}"
    assert render(template, USER, tokens={"bos_token": "<s>"}) == "<s>user:hi;A:"
    assert render(template, USER, add_generation_prompt=False) == "user:hi;"


def test_what_public_templates_use_is_there() -> None:
    template = (
        "{%- for m in messages %}\n    {%- if loop.first %}{{- m.content | trim | tojson }}{%- endif %}{% generation %}g{% endgeneration %}"
        "{%- break %}{%- endfor %}{{ strftime_now('%Y') }}{{ 7 % 4 }}{{ ns.x if ns is defined else 'none' }}"
    )
    assert render(template, USER) == '"hi"g20263none'


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages.append(1) }}", "{{ ''.__class__.__mro__ }}", "{{ raise_exception('no') }}", "{% for", "{{ undefined_thing.x }}",
        "{{ messages | random }}", "{{ lipsum() }}", "{{ 'a' * 1000000000 }}", "{{ 9 ** 9 ** 9 }}",
        "{% for i in range(1000000) %}{% endfor %}",
        "{% for i in range(2000) %}{{ 'a' | center(1000) }}{% endfor %}", "{{ 1 / 0 }}", "{% include 'config.json' %}",
        "{{ self.__init__.__globals__ }}", "{{ cycler.__init__.__globals__.os }}",
    ],
)
def test_what_a_template_may_not_do_is_its_own_fault(template: str) -> None:
    assert refusal_of(template) == "template_unrenderable"


def test_one_rendering_does_not_see_another() -> None:
    template = "{% set ns = namespace(n=0) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}"
    assert render(template, USER) == render(template, USER) == "1"
