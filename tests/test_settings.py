"""Laws of the settings: bad values name their field before anything runs, and a scorer's version follows its settings."""

from pathlib import Path

import pytest

from affine_dagster.reasons import AffineError
from affine_dagster.settings import Settings, load_settings, scorer_version


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[scoring]\nmargin = 'much'", "scoring.margin"),
        ("[scoring]\nalpha_daily = 1.5", "scoring.alpha_daily"),
        ("[evaluation]\nenvironments = []", "evaluation.environments"),
        ("[evaluation]\nmax_taks = 3", "evaluation.max_taks"),
        ("[chain]\nnetuid = -1", "chain.netuid"),
        ("[[scoring.genesis]]\nrepo = 'a/b'\nrevision = 'main'", "scoring.genesis.0.revision"),
        ("[scoring]\nmargin = 0.05\ngain = 0.05", "gain (0.05) must be greater than margin"),
    ],
)
def test_a_bad_field_is_named(tmp_path: Path, text: str, field: str) -> None:
    with pytest.raises(AffineError) as caught:
        load_settings(_file(tmp_path, text))
    assert caught.value.code == "bad_settings"
    assert field in str(caught.value)


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    path = _file(tmp_path, "[scoring\n")
    with pytest.raises(AffineError, match=r"settings\.toml"):
        load_settings(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AffineError, match="absent"):
        load_settings(tmp_path / "absent.toml")


def test_the_environment_goes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFFINE_SCORING__MARGIN", "0.03")
    assert load_settings(_file(tmp_path, "[scoring]\nmargin = 0.01")).scoring.margin == 0.03


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    settings = load_settings(_file(tmp_path, "[chain]\npath = 'c.db'\n[store]\nurl = 'store'"))
    assert settings.chain.path == tmp_path / "c.db"
    assert settings.store.url == str(tmp_path / "store")


def _with(section: str, **values: object) -> Settings:
    settings = Settings()
    return settings.model_copy(update={section: getattr(settings, section).model_copy(update=values)})


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("scoring", {"margin": 0.021}),
        ("evaluation", {"environments": ("chain_sum", "bit_count")}),
        ("evaluation", {"max_tasks": 7}),
        ("evaluation", {"max_epochs": 7}),
        ("evaluation", {"assay_tasks": 7}),
        ("evaluation", {"coverage_floor": 0.5}),
    ],
)
def test_a_scorer_version_changes_with_what_changes_results(section: str, values: dict[str, object]) -> None:
    assert scorer_version(_with(section, **values)) != scorer_version(Settings())


@pytest.mark.parametrize(("section", "values"), [("evaluation", {"processes": 9}), ("serving", {"threads": 9})])
def test_a_scorer_version_does_not_change_with_how_it_is_run(section: str, values: dict[str, object]) -> None:
    assert scorer_version(_with(section, **values)) == scorer_version(Settings())
