"""Laws of the code location: what loading imports, and bad settings as one error that names the field before anything runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dagster import Definitions

from affine_dagster.definitions import EPOCH_JOB, HISTORY_JOB, REPLAY_JOB, RESCORE_JOB, SEND_JOB, SETTINGS_VARIABLE, build_defs
from affine_dagster.reasons import AffineError
from affine_dagster.resources import SettingsResource, StoreResource

ROOT = Path(__file__).parents[1]

HEAVY = (
    "torch", "transformers", "vllm", "trl", "bittensor", "bittensor_core", "kubernetes", "reasoning_gym", "matplotlib", "neo4j",
    "huggingface_hub", "scipy", "moocore", "pygmo",
)


def _python(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def _settings(tmp_path: Path, text: str) -> str:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    return str(path)


def test_loading_imports_no_heavy_package() -> None:
    program = f"import sys, affine_dagster.definitions; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = _python(program)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_the_definitions_can_be_loaded_whole() -> None:
    Definitions.validate_loadable(build_defs(""))


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[scoring]\nmargin = 'much'", "scoring.margin"),
        ("[scoring]\nmargn = 0.02", "scoring.margn"),
        ("[evaluation]\nenvironments = ['chain_sum', 'nonsense']", "evaluation.environments"),
        ("[evaluation]\nenvironments = ['chain_sum', 'chain_sum']", "evaluation.environments"),
    ],
)
def test_a_bad_field_stops_the_building_with_its_name(tmp_path: Path, text: str, field: str) -> None:
    with pytest.raises(AffineError) as caught:
        build_defs(_settings(tmp_path, text))
    assert caught.value.code == "bad_settings"
    assert field in str(caught.value)


def test_validating_the_workspace_names_the_bad_field_once(tmp_path: Path) -> None:
    variables = {SETTINGS_VARIABLE: _settings(tmp_path, "[weights]\nstale_tempos = 0"), "DAGSTER_HOME": str(tmp_path)}
    command = [Path(sys.executable).parent / "dagster", "definitions", "validate", "-w", str(ROOT / "workspace.yaml")]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert said.count("weights.stale_tempos") == 1, said
    assert "pydantic_core" not in said


def test_the_variable_names_the_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTINGS_VARIABLE, _settings(tmp_path, "[evaluation]\nenvironments = ['chain_sum']"))
    keys = {key.to_user_string() for key in build_defs().resolve_all_asset_keys()}
    assert [key for key in keys if key.startswith("evaluations/")] == ["evaluations/chain_sum"]


def test_a_resource_replaces_the_default_of_its_name(tmp_path: Path) -> None:
    other = StoreResource(settings=SettingsResource(path=_settings(tmp_path, "[store]\nurl = 'elsewhere'")))
    assert (build_defs("", store=other).resources or {})["store"] is other


def test_only_the_job_of_its_own_sends() -> None:
    definitions = build_defs("")
    senders = [
        name for name in (EPOCH_JOB, RESCORE_JOB, HISTORY_JOB, REPLAY_JOB, SEND_JOB)
        if "weight_submission" in {key.to_user_string() for key in definitions.resolve_job_def(name).asset_layer.selected_asset_keys}
    ]
    assert senders == [SEND_JOB]


def test_the_epoch_job_makes_every_asset_of_the_epoch() -> None:
    definitions = build_defs("")
    made = {key.to_user_string() for key in definitions.resolve_job_def(EPOCH_JOB).asset_layer.selected_asset_keys}
    everything = {key.to_user_string() for key in definitions.resolve_all_asset_keys()}
    assert everything - made == {"weight_submission", "rescored_history", "replayed_history"}


def test_the_rescore_job_is_evidence_to_leaderboard() -> None:
    made = {key.to_user_string() for key in build_defs("").resolve_job_def(RESCORE_JOB).asset_layer.selected_asset_keys}
    assert made == {"evidence", "frontier", "credits", "weights", "leaderboard"}
