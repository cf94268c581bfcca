"""The main job, end to end: ``affine demo`` on the league's real models, judged by what the league measured of them."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from dagster import AssetCheckKey, AssetKey, DagsterInstance, TableMetadataValue
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from affine_dagster.chain.local import LocalChain
from affine_dagster.chain.local_world import LocalWorld
from affine_dagster.cli.main import default_cache
from affine_dagster.definitions import build_defs
from affine_dagster.environments.registry import environments
from affine_dagster.evaluation.tasksets import task_sets
from affine_dagster.history import replayed
from affine_dagster.leaderboard.snapshot import LeaderboardModel, LeaderboardSnapshot, read_latest
from affine_dagster.league.make import League, make_league
from affine_dagster.league.recipes import DEMO
from affine_dagster.league.world import DEMO_SCENARIO, World, open_world
from affine_dagster.scoring.rules.replay import EARLIER_RULES
from affine_dagster.settings import Settings, scorer_version
from affine_dagster.store import Store, Tables, epoch_name
from affine_dagster.tables import EPOCHS, FINGERPRINTS, PLAN, TASKS, WEIGHTS

pytestmark = pytest.mark.models

EPOCHS_RUN = range(3)
RECEIPT = [
    "weights_digest", "loaded_weights_digest", "template_hash", "tokenizer_signature", "engine", "engine_version", "sampling_digest",
    "seed", "environment_version", "attempt", "completion",
]


@dataclass(frozen=True)
class Demo:
    """A finished demo: what it printed, its world, and the league that it drew from."""

    printed: str
    world: World
    league: League

    @property
    def settings(self) -> Settings:
        return self.world.settings()

    @property
    def tables(self) -> Tables:
        return Tables(Store(self.settings.store.url))

    @property
    def scorer(self) -> str:
        return scorer_version(self.settings)

    @property
    def snapshot(self) -> LeaderboardSnapshot:
        found = read_latest(Store(self.settings.store.url))
        assert found is not None
        return found

    def model(self, repo: str) -> LeaderboardModel:
        return next(model for model in self.snapshot.models if model.repo == repo)

    def gains(self, name: str) -> dict[str, float]:
        """Measured skill of a league model above the base's, on tasks that neither training nor this job saw."""
        league = self.league
        return {env: league.skill(name, env).mean - league.skill("base", env).mean for env in self.settings.evaluation.environments}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    home = tmp_path_factory.mktemp("demo") / "world"
    command = [str(Path(sys.executable).parent / "affine"), "demo", "--home", str(home), "--cache", str(default_cache())]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return Demo(ran.stdout, open_world(home), make_league(default_cache() / "league", DEMO))


def test_it_prints_every_model_and_where_to_look(demo: Demo) -> None:
    for entry in DEMO_SCENARIO.entries:
        assert entry.raw is not None or entry.repo in demo.printed
    for place in ("ledger:", "leaderboard:", "affine ui --home"):
        assert place in demo.printed


def test_every_asset_of_every_epoch_is_materialised(demo: Demo) -> None:
    graph = build_defs(str(demo.world.settings_path)).resolve_asset_graph()
    partitioned = {key for key in graph.materializable_asset_keys if graph.get(key).is_partitioned}
    with DagsterInstance.from_config(str(demo.world.dagster_home)) as instance:
        done = {key: instance.get_materialized_partitions(key) for key in partitioned}
    assert done == {key: {epoch_name(epoch) for epoch in EPOCHS_RUN} for key in partitioned}


@pytest.mark.parametrize(
    ("repo", "state", "reason"),
    [
        ("bob/my-own-model", "copy", "genesis_copy"),
        ("frank/sharded", "copy", "exact_copy"),
        ("grace/totally-new", "copy", "exact_copy"),
        ("carol/broken", "rejected", "size_mismatch"),
    ],
)
def test_copies_and_broken_repositories_are_named(demo: Demo, repo: str, state: str, reason: str) -> None:
    model = demo.model(repo)
    assert (model.state, model.reason, model.weight) == (state, reason, None)


def test_an_undecodable_commitment_is_kept_and_shown(demo: Demo) -> None:
    assert [model.state for model in demo.snapshot.models if model.reason == "undecodable"] == ["rejected"]


def test_a_copy_points_to_its_origin(demo: Demo) -> None:
    assert demo.model("frank/sharded").peer == demo.model("ada/specialist").submission_id
    assert demo.model("grace/totally-new").peer == demo.model("eve/strong").submission_id


@pytest.mark.parametrize(("repo", "name"), [("ada/specialist", "specialist"), ("eve/strong", "strong")])
def test_what_was_accepted_is_better_as_measured(demo: Demo, repo: str, name: str) -> None:
    gains, scoring = demo.gains(name), demo.settings.scoring
    assert demo.model(repo).state == "accepted"
    assert max(gains.values()) > scoring.margin
    assert min(gains.values()) > -scoring.tolerance


def test_an_equal_as_measured_is_not_accepted_and_nothing_is_paid_for_it(demo: Demo) -> None:
    assert max(demo.gains("independent").values()) < demo.settings.scoring.margin
    model = demo.model("ivy/independent")
    assert model.state in ("futile", "undecided", "regressed", "expired")
    assert model.weight is None


def test_noise_on_a_paid_model_earns_nothing(demo: Demo) -> None:
    assert demo.model("heidi/tuned").state != "accepted"
    assert demo.model("heidi/tuned").weight is None


def test_scores_agree_with_the_measured_skill(demo: Demo) -> None:
    """Both are means over independent fresh tasks, so their intervals overlap."""
    for repo, name in (("affine/base", "base"), ("ada/specialist", "specialist"), ("eve/strong", "strong")):
        for score in demo.model(repo).scores:
            skill = demo.league.skill(name, score.environment)
            assert score.lower is not None
            assert score.upper is not None
            assert score.lower <= skill.high
            assert skill.low <= score.upper


def test_only_honest_improvers_are_paid_and_the_larger_gain_is_paid_more(demo: Demo) -> None:
    paid = {model.repo: model.weight for model in demo.snapshot.models if model.weight}
    assert set(paid) == {"ada/specialist", "eve/strong"}
    assert sum(weight for weight in paid.values() if weight) == 65_535
    volume = {name: sum(demo.gains(name).values()) for name in ("specialist", "strong")}
    assert (paid["eve/strong"] > paid["ada/specialist"]) == (volume["strong"] > volume["specialist"])  # type: ignore[operator]


def test_the_chain_holds_the_newest_weights(demo: Demo) -> None:
    settings = demo.settings
    LocalWorld(settings.chain.path).advance(1)  # what was sent last lies in the open block
    chain = LocalChain(settings.chain.path)
    head = chain.head().number
    uids = {neuron.uid: neuron.hotkey for neuron in chain.neurons(settings.chain.netuid, block=head)}
    (sent,) = chain.weights(settings.chain.netuid, block=head).values()
    table = demo.tables.need(WEIGHTS, max(EPOCHS_RUN), demo.scorer).filter(pl.col("weight") > 0)
    largest = max(table["weight"])
    on_chain = {uids[uid]: weight for uid, weight in sent.items()}
    assert on_chain == {row["hotkey"]: row["weight"] * 65_535 // largest for row in table.iter_rows(named=True)}


def test_anyone_can_recompute_the_tasks_from_the_beacon(demo: Demo) -> None:
    evaluation = demo.settings.evaluation
    for epoch in EPOCHS_RUN:
        again = task_sets(demo.tables.need(EPOCHS, epoch), environments(evaluation.environments), evaluation)
        assert demo.tables.need(TASKS, epoch).equals(again)


def test_every_rollout_has_its_whole_receipt(demo: Demo) -> None:
    store = Store(demo.settings.store.url)
    rows = pl.concat([pl.read_parquet(Path(store.url) / name) for name in store.names("ledger/")])
    prints = demo.tables.until(FINGERPRINTS, max(EPOCHS_RUN)).select("weights_digest", "template_hash", "tokenizer_signature").unique()
    assert rows.height > 0
    assert rows.select(pl.col(RECEIPT).is_null().any()).row(0) == (False,) * len(RECEIPT)
    assert rows.filter(pl.col("weights_digest") != pl.col("loaded_weights_digest")).is_empty()
    assert rows.join(prints, on=prints.columns, how="anti").is_empty()


def _metadata(demo: Demo, asset: str) -> dict[str, object]:
    with DagsterInstance.from_config(str(demo.world.dagster_home)) as instance:
        event = instance.get_latest_materialization_event(AssetKey(asset))
    assert event is not None
    assert event.asset_materialization is not None
    return {name: entry.value for name, entry in event.asset_materialization.metadata.items()}


def _shown(model: LeaderboardModel) -> str:
    return model.repo or f"{model.submission_id[:12]}…"


def test_the_ui_has_the_standings_and_the_pareto_picture(demo: Demo) -> None:
    shown = _metadata(demo, "leaderboard")
    assert isinstance(shown["standings"], TableMetadataValue)
    assert [record.data["model"] for record in shown["standings"].records] == [_shown(model) for model in demo.snapshot.models]
    assert str(shown["pareto"]).startswith("![picture](data:image/png;base64,")


def test_each_family_s_majority_rate_is_published(demo: Demo) -> None:
    shown = _metadata(demo, "task_sets")
    families = environments(demo.settings.evaluation.environments)
    rates = {f"majority rate of {family.name} {family.version}": family.majority_rate for family in families}
    assert {name: shown[name] for name in rates} == rates


@pytest.mark.parametrize(("asset", "check"), [(["weights"], "sendable"), (["evaluations", "chain_sum"], "coverage")])
def test_the_checks_are_recorded_and_passed(demo: Demo, asset: list[str], check: str) -> None:
    with DagsterInstance.from_config(str(demo.world.dagster_home)) as instance:
        (record,) = instance.event_log_storage.get_asset_check_execution_history(AssetCheckKey(AssetKey(asset), check), limit=1)
    assert record.status is AssetCheckExecutionRecordStatus.SUCCEEDED


def test_a_challenger_stops_before_the_incumbents_do(demo: Demo) -> None:
    budget = demo.settings.evaluation.tasks_per_epoch
    assert max(score.n for score in demo.model("heidi/tuned").scores) < budget
    planned = demo.tables.need(PLAN, 2).filter((pl.col("role") == "challenger") & pl.col("planned"))
    assert planned["tasks"].to_list() == [budget]


def test_the_graph_has_every_admitted_model_and_genesis(demo: Demo) -> None:
    assert _metadata(demo, "lineage_graph")["nodes"] == demo.tables.until(FINGERPRINTS, max(EPOCHS_RUN)).height


def test_history_under_the_earlier_rules_is_told_from_the_books(demo: Demo) -> None:
    """A re-upload of genesis would have been the champion of July 2026; nobody is said to be decided where results are missing."""
    command = [str(Path(sys.executable).parent / "affine"), "replay", "--home", str(demo.world.home)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "champion_challenger" in told
    rows = replayed(demo.settings, ["all"], "all")
    assert set(rows["rule"]) == {*EARLIER_RULES, "frontier_credits"}
    kept = pl.concat([demo.tables.need(WEIGHTS, epoch, demo.scorer) for epoch in EPOCHS_RUN]).filter(pl.col("weight") > 0)
    ours = rows.filter((pl.col("rule") == "frontier_credits") & (pl.col("weight") > 0))
    assert ours.select("epoch", "hotkey", "weight").equals(kept.select("epoch", "hotkey", "weight").sort("epoch", "hotkey"))
    crowned = rows.filter((pl.col("rule") == "champion_challenger") & pl.col("crowned") & (pl.col("epoch") == 0))
    prints = demo.tables.until(FINGERPRINTS, 2)
    assert prints.filter(pl.col("hotkey") == crowned["hotkey"].item())["repo"].to_list() == ["bob/my-own-model"]
    assert rows.filter((pl.col("coverage") < 1) != (pl.col("reason") == "not_decidable")).is_empty()
