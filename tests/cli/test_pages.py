"""The reference pages are what the code says."""

from pathlib import Path

import pytest

from affine_dagster.cli.pages import PAGES
from affine_dagster.settings import Settings

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_is_up_to_date(name: str) -> None:
    assert (DOCS / f"{name}.md").read_text() == PAGES[name](), f"run: affine page {name} > docs/{name}.md"


def test_every_setting_says_what_it_is() -> None:
    fields = {name: type(getattr(Settings(), name)).model_fields for name in Settings.model_fields}
    assert [f"{section}.{name}" for section, known in fields.items() for name, field in known.items() if not field.description] == []
