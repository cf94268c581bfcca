"""Epochs in which little happens, and a change of the scoring settings: through real runs, on a real chain, hub and models.

One world for all tests: epoch 0 has an honest improvement; epoch 1 no submission; epoch 2 invalid ones alone; before the end of
epoch 3 the improvement's owner is gone; epoch 4 closes after a scoring setting has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest
from dagster import AssetKey, DagsterInstance, RunRequest, RunsFilter, TableMetadataValue

from affine_dagster.chain.keys import hotkey_from_uri
from affine_dagster.chain.local import LocalChain
from affine_dagster.chain.local_world import LocalWorld
from affine_dagster.cli.main import default_cache
from affine_dagster.cli.runs import Ticker
from affine_dagster.cli.serve import dagster_environment, prepare_home
from affine_dagster.definitions import EPOCH_JOB, HISTORY_JOB, REPLAY_JOB, RESCORE_JOB, SEND_JOB, build_defs
from affine_dagster.leaderboard.snapshot import LeaderboardSnapshot, parse
from affine_dagster.league.make import make_league
from affine_dagster.league.recipes import TINY
from affine_dagster.league.world import NETUID, OWNER, Entry, Scenario, World, make_world, play_epoch
from affine_dagster.reasons import REASONS, AffineError
from affine_dagster.settings import load_settings, scorer_version
from affine_dagster.store import Store, Tables, epoch_name
from affine_dagster.tables import (
    CONTESTS,
    CREDITS,
    EVIDENCE,
    FRONTIER,
    PLAN,
    STANDINGS,
    SUBMISSIONS,
    TABLES,
    WEIGHT_SUBMISSIONS,
    WEIGHTS,
)

pytestmark = pytest.mark.models

UNKNOWN = b'{"model": "gus/nothing", "revision": "0123456789012345678901234567890123456789"}'

SCENARIO = Scenario(
    genesis="base",
    entries=(
        Entry(0, "Ada", "strong"),
        Entry(2, "Dan", raw=b"{model: acme/m, revision: main}"),
        Entry(2, "Carol", "broken"),
        Entry(2, "Gus", raw=UNKNOWN),
        Entry(4, "Bob", "base", name="mine"),
    ),
    settings="""
[serving]
batch_size = 100
max_new_tokens = 12

[evaluation]
environments = ["number_sorting", "chain_sum"]
batch_tasks = 100
tasks_per_epoch = 200
assay_tasks = 300
max_tasks = 400
processes = 1

[scoring]
margin = 0.03
tolerance = 0.2
gain = 0.15
alpha_daily = 0.9
owner_slots = 1
alpha_not_worse = 0.2
""",
)
"""The two environments in which the league's models differ (a credit is a volume: nothing in one is nothing), at loose levels."""

PAID, QUIET, INVALID, GONE, CHANGED = range(5)
ADA, BURN = (hotkey_from_uri(uri).ss58_address for uri in ("//Ada", OWNER))


@dataclass
class Validator:
    """The world, its instance, and what was seen on the way."""

    world: World
    instance: DagsterInstance
    sent_before: Mapping[int, Mapping[int, int]] = field(default_factory=dict)

    @property
    def tables(self) -> Tables:
        return Tables(self.store)

    @property
    def store(self) -> Store:
        return Store(self.world.settings().store.url)

    @property
    def scorer(self) -> str:
        return scorer_version(self.world.settings())

    @property
    def other_settings(self) -> Path:
        """The same world under another margin."""
        return self.world.home / "other.toml"

    @property
    def other_scorer(self) -> str:
        return scorer_version(load_settings(self.other_settings))

    def ticker(self, settings: Path | None = None) -> Ticker:
        return Ticker(build_defs(str(settings or self.world.settings_path)), self.instance)

    def run_epoch(self, epoch: int) -> None:
        play_epoch(self.world, epoch)
        ticker = self.ticker()
        ticker.tick("epochs", EPOCH_JOB)
        ticker.tick("weights_due", SEND_JOB)

    def on_chain(self) -> Mapping[int, Mapping[int, int]]:
        hand = LocalWorld(self.world.chain_path)
        hand.advance(1)  # what was sent lies in the open block
        hand.close()
        chain = LocalChain(self.world.chain_path)
        return chain.weights(NETUID, block=chain.head().number)

    def snapshot(self, epoch: int, scorer: str) -> LeaderboardSnapshot:
        content = self.store.get(f"published/{scorer}/{epoch_name(epoch)}.json")
        assert content is not None
        return parse(content)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Validator]:
    """The world after epoch 3, under its first settings."""
    league = make_league(default_cache() / "league", TINY)
    world = make_world(tmp_path_factory.mktemp("kinds") / "world", league.models, SCENARIO)
    prepare_home(world)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in dagster_environment(world).items():
            patch.setenv(name, value)
        with DagsterInstance.get() as instance:
            validator = Validator(world, instance)
            for epoch in (PAID, QUIET, INVALID):
                validator.run_epoch(epoch)
            hand = LocalWorld(world.chain_path)
            hand.deregister(NETUID, ADA)
            hand.close()
            validator.run_epoch(GONE)
            yield validator


# --- epochs in which little happens -----------------------------------------------------------------------------------------------


def test_every_asset_materialises_in_every_epoch(played: Validator) -> None:
    """A backfill waits for ever for what never materialises."""
    definitions = build_defs(str(played.world.settings_path))
    assets = [key for job in (EPOCH_JOB, SEND_JOB) for key in definitions.resolve_job_def(job).asset_layer.selected_asset_keys]
    made = {key.to_user_string(): played.instance.get_materialized_partitions(key) for key in assets}
    epochs = {epoch_name(epoch) for epoch in (PAID, QUIET, INVALID, GONE)}
    assert set(made) == {key.to_user_string() for key in definitions.resolve_all_asset_keys()} - {"rescored_history", "replayed_history"}
    assert {name: sorted(epochs - keys) for name, keys in made.items() if not epochs <= keys} == {}


def test_every_run_of_an_epoch_succeeded_and_says_which_it_was(played: Validator) -> None:
    """Case D14."""
    runs = played.instance.get_runs(RunsFilter(job_name=EPOCH_JOB))
    assert all(run.is_success for run in runs if run.tags["dagster/partition"] != epoch_name(CHANGED))
    said = {(run.tags["dagster/partition"], run.tags["affine/epoch"], run.tags["affine/attempt"]) for run in runs}
    assert {(epoch_name(epoch), str(epoch), "0") for epoch in (PAID, QUIET, INVALID, GONE)} <= said


@pytest.mark.parametrize("epoch", [PAID, QUIET, INVALID, GONE])
def test_every_state_has_a_reason_and_a_next_step(played: Validator, epoch: int) -> None:
    """Case O2."""
    for model in played.snapshot(epoch, played.scorer).models:
        assert model.reason in REASONS
        assert model.next_step


@pytest.mark.parametrize("epoch", [PAID, QUIET, INVALID, GONE])
def test_weights_sum_and_may_be_sent(played: Validator, epoch: int) -> None:
    weights = played.tables.need(WEIGHTS, epoch, played.scorer)
    assert weights["weight"].sum() == 65_535
    assert weights["sendable"].all()
    assert weights["reason"].is_in(list(REASONS)).all()


def test_the_improvement_entered_and_was_paid_after_its_assay(played: Validator) -> None:
    """Without this the epochs below would show nothing."""
    assert ADA in played.tables.need(FRONTIER, PAID, played.scorer)["hotkey"].to_list()
    paid = played.tables.need(WEIGHTS, QUIET, played.scorer).filter(pl.col("weight") > 0)
    assert paid["hotkey"].to_list() == [ADA]


def test_an_epoch_without_submissions_measures_and_pays(played: Validator) -> None:
    assert played.tables.need(SUBMISSIONS, QUIET).is_empty()
    assert set(played.tables.need(PLAN, QUIET)["purpose"]) == {"assay"}


def test_an_epoch_of_invalid_submissions_runs_nobody_and_says_why(played: Validator) -> None:
    assert played.tables.need(PLAN, INVALID).is_empty()
    models = {model.repo: model for model in played.snapshot(INVALID, played.scorer).models}
    assert (models[None].state, models[None].reason, models[None].fault) == ("rejected", "undecodable", "model")
    assert (models["carol/broken"].state, models["carol/broken"].reason) == ("rejected", "size_mismatch")
    assert (models["gus/nothing"].state, models["gus/nothing"].fault) == ("deferred", "hub")


def test_an_epoch_of_invalid_submissions_pays_as_before(played: Validator) -> None:
    before, after = (played.tables.need(WEIGHTS, epoch, played.scorer) for epoch in (QUIET, INVALID))
    assert before.drop("epoch").equals(after.drop("epoch"))


def test_the_weight_of_an_owner_who_is_gone_is_burned(played: Validator) -> None:
    weights = played.tables.need(WEIGHTS, GONE, played.scorer)
    assert weights.filter(pl.col("weight") > 0).select("hotkey", "weight", "burn").rows() == [(BURN, 65_535, True)]
    assert played.tables.need(CREDITS, GONE, played.scorer)["reason"].to_list() == ["not_registered"]


def test_the_model_of_an_owner_who_is_gone_stays_on_the_frontier(played: Validator) -> None:
    before, after = (played.tables.need(FRONTIER, epoch, played.scorer) for epoch in (INVALID, GONE))
    assert before.select("weights_digest", "lower", "incumbent").equals(after.select("weights_digest", "lower", "incumbent"))


def test_an_owner_who_is_gone_is_told_why_nothing_is_paid(played: Validator) -> None:
    (model,) = [model for model in played.snapshot(GONE, played.scorer).models if model.hotkey == ADA]
    assert (model.state, model.reason, model.weight) == ("accepted", "not_registered", 0)
    assert model.credit is not None
    assert model.credit > 0


def test_what_was_sent_last_burns(played: Validator) -> None:
    row = played.tables.need(WEIGHT_SUBMISSIONS, GONE).row(0, named=True)
    assert (row["class"], row["values"]) == ("ok", [65_535])
    chain = LocalChain(played.world.chain_path)
    owner = [neuron.uid for neuron in chain.neurons(NETUID, block=chain.head().number) if neuron.hotkey == BURN]
    assert row["uids"] == owner


# --- a change of a scoring setting -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """What happened after the settings had changed."""

    validator: Validator
    refused_plan: AffineError
    rescore_run: str
    sends_before: int
    sends_after: int
    old_rows: Mapping[str, pl.DataFrame]


SCORED = [table for table in TABLES.values() if table.scored]


def _scored_rows(validator: Validator, scorer: str) -> Mapping[str, pl.DataFrame]:
    return {table.name: validator.tables.until(table, GONE, scorer) for table in SCORED}


def _sends(validator: Validator) -> int:
    return validator.instance.get_runs_count(RunsFilter(job_name=SEND_JOB))


def _cause(error: BaseException) -> AffineError:
    found: BaseException | None = error
    while found is not None and not isinstance(found, AffineError):
        found = found.__cause__
    assert found is not None, error
    return found


@pytest.fixture(scope="module")
def changed(played: Validator) -> Change:
    """Epoch 4 is refused under another margin, history is rescored in one run, and epoch 4 runs."""
    text = played.world.settings_path.read_text()
    assert "margin = 0.03" in text
    played.other_settings.write_text(text.replace("margin = 0.03", "margin = 0.04"))
    old_rows = _scored_rows(played, played.scorer)
    play_epoch(played.world, CHANGED)
    ticker = played.ticker(played.other_settings)
    with pytest.raises(Exception, match="scorer_without_history") as refused:
        ticker.tick("epochs", EPOCH_JOB)
    before = _sends(played)
    tags = {
        "dagster/asset_partition_range_start": epoch_name(PAID), "dagster/asset_partition_range_end": epoch_name(GONE),
    }
    rescored = ticker.run(RESCORE_JOB, RunRequest(tags=tags))
    after = _sends(played)
    ticker.tick("unfinished_epochs", EPOCH_JOB)
    return Change(played, _cause(refused.value), rescored.run_id, before, after, old_rows)


def test_a_new_scorer_without_history_is_refused_with_what_to_do(changed: Change) -> None:
    assert changed.refused_plan.code == "scorer_without_history"
    assert changed.validator.scorer in changed.refused_plan.detail
    assert "rescore" in changed.refused_plan.reason.next_step


@pytest.mark.parametrize("name", ["evidence", "frontier", "credits", "weights", "leaderboard"])
def test_one_run_rescored_all_epochs(changed: Change, name: str) -> None:
    records = changed.validator.instance.fetch_materializations(AssetKey(name), limit=100).records
    made = {record.partition_key for record in records if record.run_id == changed.rescore_run}
    assert made == {epoch_name(epoch) for epoch in (PAID, QUIET, INVALID, GONE)}


def test_each_rescored_epoch_shows_its_own_standings(changed: Change) -> None:
    """A person who opens an epoch in the UI must not see another's."""
    records = changed.validator.instance.fetch_materializations(AssetKey("leaderboard"), limit=100).records
    made = {record.partition_key: record.asset_materialization for record in records if record.run_id == changed.rescore_run}
    shown = {key: event.metadata["published"].value for key, event in made.items() if event is not None}
    scorer = changed.validator.other_scorer
    assert shown == {epoch_name(epoch): f"published/{scorer}/{epoch_name(epoch)}.json" for epoch in (PAID, QUIET, INVALID, GONE)}


def test_the_rescored_leaderboard_names_both_scorers(changed: Change) -> None:
    records = changed.validator.instance.fetch_materializations(AssetKey("leaderboard"), limit=100).records
    (event,) = (record.asset_materialization for record in records if (record.run_id, record.partition_key) == (
        changed.rescore_run, epoch_name(GONE)))
    assert event is not None
    beside = event.metadata["beside other scorers"]
    assert isinstance(beside, TableMetadataValue)
    scorers = [changed.validator.scorer, changed.validator.other_scorer]
    assert [column.name for column in beside.schema.columns][:3] == ["model", *(f"{scorer} share" for scorer in scorers)]


@pytest.mark.parametrize("name", [table.name for table in SCORED])
def test_both_versions_rows_stand_side_by_side(changed: Change, name: str) -> None:
    validator, table = changed.validator, TABLES[name]
    for scorer in (validator.scorer, validator.other_scorer):
        assert {PAID, QUIET, INVALID, GONE} <= set(validator.tables.epochs(table, scorer))
    assert validator.tables.until(table, GONE, validator.scorer).equals(changed.old_rows[name])


def test_the_new_margin_is_in_the_new_evidence(changed: Change) -> None:
    validator = changed.validator
    old, new = (validator.tables.need(EVIDENCE, PAID, scorer) for scorer in (validator.scorer, validator.other_scorer))
    assert old["histogram"].equals(new["histogram"])
    assert (old["log_e_win"] != new["log_e_win"]).all()
    assert validator.tables.need(CONTESTS, PAID, validator.other_scorer).height == 1


def test_rescoring_a_part_without_what_came_before_is_refused_and_writes_nothing(changed: Change) -> None:
    """Evidence that began in the middle would look like evidence."""
    validator = changed.validator
    part = validator.world.home / "part.toml"
    part.write_text(validator.world.settings_path.read_text().replace("margin = 0.03", "margin = 0.05"))
    tags = {"dagster/asset_partition_range_start": epoch_name(QUIET), "dagster/asset_partition_range_end": epoch_name(GONE)}
    with pytest.raises(Exception, match="scorer_without_history") as refused:
        validator.ticker(part).run(RESCORE_JOB, RunRequest(tags=tags))
    assert _cause(refused.value).code == "scorer_without_history"
    assert validator.tables.epochs(EVIDENCE, scorer_version(load_settings(part))) == []


def test_rescoring_sends_nothing(changed: Change) -> None:
    assert changed.sends_before == changed.sends_after


def test_the_next_epoch_runs_under_the_new_scorer(changed: Change) -> None:
    validator = changed.validator
    assert validator.tables.epochs(STANDINGS, validator.other_scorer) == [PAID, QUIET, INVALID, GONE, CHANGED]
    assert CHANGED not in validator.tables.epochs(STANDINGS, validator.scorer)
    (bob,) = [model for model in validator.snapshot(CHANGED, validator.other_scorer).models if model.repo == "bob/mine"]
    assert (bob.state, bob.reason) == ("copy", "genesis_copy")


def test_the_whole_history_is_one_materialisation_with_the_same_rows(changed: Change) -> None:
    """The full fold from the ledger gives what the chain of states gave."""
    validator = changed.validator
    by_epoch = {table.name: validator.tables.until(table, CHANGED, validator.other_scorer) for table in SCORED}
    sends = _sends(validator)
    validator.ticker(validator.other_settings).run(HISTORY_JOB, RunRequest())
    for table in SCORED:
        assert validator.tables.until(table, CHANGED, validator.other_scorer).equals(by_epoch[table.name]), table.name
    (record,) = validator.instance.fetch_materializations(AssetKey("rescored_history"), limit=10).records
    assert record.partition_key is None
    assert record.asset_materialization is not None
    assert record.asset_materialization.metadata["epochs"].value == CHANGED + 1
    assert _sends(validator) == sends


def test_history_under_each_rule_is_one_materialisation_and_changes_nothing(changed: Change) -> None:
    """A replay of our own rule over the books gives what was paid; the others stand beside it."""
    validator = changed.validator
    before = {table.name: validator.tables.until(table, CHANGED, validator.other_scorer) for table in SCORED}
    sends = _sends(validator)
    validator.ticker(validator.other_settings).run(REPLAY_JOB, RunRequest())
    (record,) = validator.instance.fetch_materializations(AssetKey("replayed_history"), limit=10).records
    assert record.partition_key is None
    assert record.asset_materialization is not None
    shown = record.asset_materialization.metadata
    assert shown["epochs"].value == CHANGED + 1
    shares = [row.data for row in shown["mean shares"].value.records]  # type: ignore[union-attr]
    assert shares
    assert all(row["paid"] == row["frontier_credits"] for row in shares)
    assert {table.name: validator.tables.until(table, CHANGED, validator.other_scorer).equals(before[table.name]) for table in SCORED} == (
        dict.fromkeys([table.name for table in SCORED], True)
    )
    assert _sends(validator) == sends
