"""The subnet's settings: one TOML file, environment overrides, one clear error that names the field.

Every number that a rule depends on stands here with its unit and its source. What must not go in: secrets (they come from
the environment or from mounted files, where they are used) and anything computed.
"""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from affine_dagster.reasons import AffineError

__all__ = [
    "AdmissionSettings", "ChainSettings", "EvaluationSettings", "GenesisModel", "HubSettings", "ScoringSettings",
    "ServingSettings", "Settings", "StoreSettings", "WeightSettings", "load_settings", "scorer_version",
]

Probability = Annotated[float, Field(gt=0, lt=1)]
Hex40 = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ChainSettings(_Section):
    """Where the chain is and which subnet is ours."""

    kind: Literal["local"] = Field(default="local", description="local: the development chain on SQLite")
    path: Path = Field(default=Path("var/chain.db"), description="the development chain's file")
    netuid: int = Field(default=120, ge=0, le=65535, description="our subnet")
    beacon_lag_blocks: int = Field(default=3, ge=1, description="blocks after the commit cutoff whose hash seeds the tasks")
    first_epoch: int | None = Field(default=None, ge=0, description="first epoch that is run; None: the newest closed one at the start")
    undecodable_limit: float = Field(
        default=1.0, gt=0, le=1, description="share of hotkeys with nothing decodable from which on the refresh aborts"
    )
    undecodable_floor: int = Field(default=20, ge=1, description="the share is only judged from this many hotkeys on")
    hotkey_file: Path | None = Field(default=None, description="file with the validator's hotkey seed or uri; never a coldkey")


class HubSettings(_Section):
    """Where models come from."""

    kind: Literal["local"] = Field(default="local", description="local: a folder of repositories with immutable revisions")
    path: Path = Field(default=Path("var/hub"), description="the local hub's folder")
    cache: Path = Field(default=Path("var/hub_cache"), description="where fetched revisions are kept; job files lie beside it")
    grace_epochs: int = Field(default=2, ge=0, description="epochs during which an unknown revision is deferred, not refused")


class StoreSettings(_Section):
    """Where ledger, tables and published snapshots lie: a folder now; a URL with the production issue."""

    url: str = Field(default="var/store", description="root of ledger, tables and published snapshots")


class AdmissionSettings(_Section):
    """What may enter."""

    architectures: tuple[str, ...] = Field(
        default=("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "MistralForCausalLM"),
        description="architectures that may enter",
    )
    max_header_bytes: int = Field(default=100_000_000, ge=1024, description="safetensors' own limit on a header, bytes")
    max_model_bytes: int = Field(default=80 * 2**30, ge=1, description="sum of the weights files, bytes")
    max_file_bytes: int = Field(default=64 * 2**20, ge=1, description="any file that is not weights, bytes")
    templates: Literal["genesis", "any"] = Field(default="genesis", description="genesis: the chat template must equal a genesis model's")
    tokenizers: Literal["genesis", "any"] = Field(
        default="genesis", description="genesis: normalizer, pre_tokenizer and decoder must equal a genesis model's"
    )
    probe_seconds: float = Field(default=20.0, gt=0, description="wall limit of the child process that loads tokenizer and template")
    probe_memory_bytes: int = Field(default=2 * 2**30, ge=2**28, description="memory limit of that process")
    revisions_per_epoch: int = Field(
        default=200, ge=1, description="revisions judged in one epoch, each within probe_seconds and its own size; the others wait in line"
    )
    max_deferrals: int = Field(default=6, ge=1, description="epochs a submission may be deferred in a row")


class ServingSettings(_Section):
    """How a model is run. All sampling parameters come from here, none from submitted files."""

    engine: Literal["transformers"] = Field(default="transformers", description="what runs the models")
    dtype: Literal["float32", "bfloat16"] = Field(default="float32", description="number format of the weights in memory")
    threads: int = Field(default=1, ge=1, description="threads of one evaluation process; results may depend on it")
    batch_size: int = Field(default=256, ge=1, description="prompts generated at once")
    max_new_tokens: int = Field(default=24, ge=1, description="answer tokens, at most")
    max_model_length: int = Field(default=256, ge=8, description="prompt and answer, tokens")
    temperature: float = Field(default=0.0, ge=0, description="0: greedy")
    top_p: float = Field(default=1.0, gt=0, le=1, description="nucleus of the sampling; unused when greedy")


class EvaluationSettings(_Section):
    """Who runs on how much."""

    environments: tuple[str, ...] = Field(
        default=("number_sorting", "spell_backward", "chain_sum", "bit_count"),
        min_length=1,
        max_length=16,
        description="families that models run on; each is an asset and a coordinate of the frontier",
    )
    batch_tasks: int = Field(default=50, ge=1, description="tasks an environment between two looks at the evidence")
    tasks_per_epoch: int = Field(default=1000, ge=1, description="contest tasks an environment in one epoch")
    assay_tasks: int = Field(default=2000, ge=1, description="assay tasks an environment (DESIGN section 4)")
    max_tasks: int = Field(default=20_000, ge=1, description="contest tasks an environment that one pair may ever use")
    max_epochs: int = Field(default=8, ge=1, description="epochs that one pair may run before it expires undecided")
    max_models_per_epoch: int = Field(default=200, ge=1, description="challengers planned in one epoch")
    processes: int = Field(default=2, ge=1, description="evaluation jobs at once")
    attempts: int = Field(default=3, ge=1, description="tries of a task or of a job before its fault stands")
    job_seconds: float = Field(default=3600.0, gt=0, description="wall limit of one evaluation job")
    coverage_floor: float = Field(default=0.9, gt=0, le=1, description="share of tasks with a result below which there is no verdict")
    breaker_models: int = Field(default=3, ge=2, description="different models failing alike that open the breaker")
    breaker_share: float = Field(default=0.5, gt=0, le=1, description="share of the epoch's models failing alike that opens the breaker")


class GenesisModel(_Section):
    """A model that was there first."""

    repo: str = Field(description="repository on the hub")
    revision: Hex40 = Field(description="its immutable revision")


class ScoringSettings(_Section):
    """Everything that the scorer's version depends on (DESIGN section 4)."""

    rule: Literal["frontier_credits"] = Field(default="frontier_credits", description="the rule that pays")
    margin: float = Field(default=0.02, ge=0, lt=0.1, description="m: the gain that wins, in reward")
    tolerance: float = Field(default=0.05, gt=0, lt=1, description="tau: worse by less than this is not worse")
    gain: float = Field(default=0.06, gt=0, lt=1, description="D1: the gain worth finding")
    alpha_daily: Probability = Field(default=0.01, description="false wins a day, whole subnet")
    owner_slots: int = Field(default=200, ge=1, description="owners a day that get a share of alpha")
    day_blocks: int = Field(default=7200, ge=1, description="blocks a day at 12 s")
    alpha_not_worse: Probability = Field(default=0.01, description="error of calling a worse model not worse, a pair and environment")
    futile_at: float = Field(default=9.0, gt=1, description="evidence against a gain worth finding at which a challenger stops")
    discordance: Probability = Field(default=0.3, description="q_plan when no earlier epoch tells; err high")
    assay_alpha: Probability = Field(default=0.05, description="two-sided miscoverage of an assay's interval, an environment")
    grid: int = Field(default=100, ge=10, le=1000, description="1/epsilon: steps of the credit grid in [0, 1]")
    half_life_blocks: int = Field(default=14 * 7200, ge=1, description="blocks in which a credit halves")
    target_credit: float = Field(default=0.0, ge=0, description="hypervolume at which nothing is burned; 0 = off")
    genesis: tuple[GenesisModel, ...] = Field(default=(), description="models that were there first, in order")

    @model_validator(mode="after")
    def _gain_above_margin(self) -> ScoringSettings:
        if self.gain <= self.margin:
            raise ValueError(f"gain ({self.gain}) must be greater than margin ({self.margin})")
        return self


class WeightSettings(_Section):
    """How weights are sent."""

    dry_run: bool = Field(default=False, description="record what would be sent, send nothing")
    burn_hotkey: str | None = Field(default=None, description="None: the subnet owner's hotkey at the snapshot")
    version_key: int = Field(default=0, ge=0, description="the subnet's version key")
    stale_tempos: int = Field(default=2, ge=1, description="tempos without sent weights that raise the alarm")


class Settings(BaseSettings):
    """All settings. ``AFFINE_SCORING__MARGIN=0.03`` overrides ``[scoring] margin``."""

    model_config = SettingsConfigDict(env_prefix="AFFINE_", env_nested_delimiter="__", frozen=True, extra="forbid")

    chain: ChainSettings = ChainSettings()
    hub: HubSettings = HubSettings()
    store: StoreSettings = StoreSettings()
    admission: AdmissionSettings = AdmissionSettings()
    serving: ServingSettings = ServingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    scoring: ScoringSettings = ScoringSettings()
    weights: WeightSettings = WeightSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment goes before the file (which arrives as init values)."""
        return (env_settings, init_settings)


def load_settings(path: Path | None) -> Settings:
    """The settings of a TOML file (None: the defaults), overridden by the environment.

    Relative paths in the file are relative to the file's folder. Raises AffineError ``bad_settings`` that names each field.
    """
    values: dict[str, object] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise AffineError("bad_settings", f"{path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise AffineError("bad_settings", f"{path}: {error}") from error
    try:
        settings = Settings(**values)  # type: ignore[arg-type]
    except ValidationError as error:
        lines = "; ".join(f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors())
        raise AffineError("bad_settings", f"{path or 'environment'}: {lines}") from None  # it says all that pydantic says
    return settings if path is None else _anchored(settings, path.resolve().parent)


def _anchored(settings: Settings, folder: Path) -> Settings:
    chain = settings.chain.model_copy(
        update={
            "path": folder / settings.chain.path,
            "hotkey_file": None if settings.chain.hotkey_file is None else folder / settings.chain.hotkey_file,
        }
    )
    hub = settings.hub.model_copy(update={"path": folder / settings.hub.path, "cache": folder / settings.hub.cache})
    url = settings.store.url
    store = settings.store if "://" in url else StoreSettings(url=str(folder / url))
    return settings.model_copy(update={"chain": chain, "hub": hub, "store": store})


SCORER_CODE = 2
"""Counts changes of the scoring code that change results; part of every scorer version."""


def scorer_version(settings: Settings) -> str:
    """The short name under which a scorer's rows are kept: a digest of all that changes results, and of the code's count.

    That is the scoring settings, the environments, and the evaluation settings that end a contest or an assay. Returns 's' and
    ten hex digits; the alphabet is safe in partition keys and paths.
    """
    evaluation = settings.evaluation
    ends = (evaluation.max_tasks, evaluation.max_epochs, evaluation.assay_tasks, evaluation.coverage_floor)
    text = f"{SCORER_CODE}|{settings.scoring.model_dump_json()}|{','.join(evaluation.environments)}|{ends}"
    return "s" + hashlib.blake2b(text.encode(), digest_size=5).hexdigest()
