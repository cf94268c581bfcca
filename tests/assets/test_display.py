"""Laws of what runs show: small, readable, and never more rows than the bound (case D13)."""

import polars as pl
from dagster import AssetExecutionContext, AssetKey, DagsterInstance, asset, materialize
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.store import epoch_name
from assets.display import MAX_EPOCHS, MAX_ROWS, named, picture, show, table
from assets.partitions import SCORING_BACKFILL, epochs


@given(st.integers(0, 5 * MAX_ROWS))
def test_a_table_shows_at_most_its_bound_of_rows(rows: int) -> None:
    shown = table(pl.DataFrame({"epoch": range(rows)}, schema={"epoch": pl.Int64}), ["epoch"])
    assert len(shown.records) == min(rows, MAX_ROWS)


def test_a_long_text_is_cut_and_a_short_one_is_not() -> None:
    shown = table(pl.DataFrame({"digest": ["a" * 64], "repo": ["acme/model"]}), ["digest", "repo"])
    assert shown.records[0].data == {"digest": "a" * 12 + "…", "repo": "acme/model"}


def test_what_is_missing_is_empty_and_never_none_or_zero() -> None:
    shown = table(pl.DataFrame({"mean": [None, 0.0]}, schema={"mean": pl.Float64}), ["mean"])
    assert [record.data["mean"] for record in shown.records] == ["", "0.0000"]


def test_only_the_named_columns_are_shown_in_their_order() -> None:
    shown = table(pl.DataFrame({"a": [1], "b": [2], "c": [3]}), ["c", "a"])
    assert [column.name for column in shown.schema.columns] == ["c", "a"]


def test_a_picture_is_shown_in_place() -> None:
    assert picture(b"\x89PNG").value == "![picture](data:image/png;base64,iVBORw==)"


def test_ids_and_addresses_are_cut_and_names_and_reasons_are_not() -> None:
    hotkey = "5FBhYxDBoQjJVQZXkmXhHYqmWpYzBq3nGXSUVGgkVYyRdvKL"  # pragma: allowlist secret
    words = ["s9e4b1f1f6f3a49040dc443ca", hotkey, "an-organisation/a-model-with-a-long-name"]
    shown = table(pl.DataFrame({"word": [*words, "scorer_without_history"]}), ["word"])
    cut = [str(record.data["word"]) for record in shown.records]
    assert cut == [words[0][:12] + "…", words[1][:12] + "…", words[2], "scorer_without_history"]


def test_a_name_takes_the_place_of_an_id_and_what_has_none_stays() -> None:
    frame = pl.DataFrame({"challenger": ["A1", "B1"], "incumbent": ["B1", None], "state": ["A1", "won"]})
    shown = named(frame, {"A1": "ada/model"}, "challenger", "incumbent")
    assert shown.to_dict(as_series=False) == {"challenger": ["ada/model", "B1"], "incumbent": ["B1", None], "state": ["A1", "won"]}


def _shown_by_a_run_over(count: int) -> dict[str, dict[str, object]]:
    """What each epoch shows after one run over so many epochs, as a re-scoring walks them."""

    @asset(partitions_def=epochs, backfill_policy=SCORING_BACKFILL)
    def scored(context: AssetExecutionContext) -> None:
        show(context, lambda epoch: {"boundary": 30 * epoch}, scorer="s1")

    keys = [epoch_name(epoch) for epoch in range(count)]
    with DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("epochs", keys)
        ends = {ASSET_PARTITION_RANGE_START_TAG: keys[0], ASSET_PARTITION_RANGE_END_TAG: keys[-1]}
        materialize([scored], instance=instance, tags=ends)
        found = instance.fetch_materializations(AssetKey("scored"), limit=count + 1).records
    made = {str(record.partition_key): record.asset_materialization for record in found}
    return {key: {name: value.value for name, value in made[key].metadata.items()} for key in keys if made[key]}


def test_each_epoch_of_one_run_shows_its_own_facts() -> None:
    assert _shown_by_a_run_over(2) == {
        "e0000000": {"scorer": "s1", "boundary": 0}, "e0000001": {"scorer": "s1", "boundary": 30},
    }


def test_epochs_before_the_newest_of_a_run_show_their_scorer_alone() -> None:
    shown = _shown_by_a_run_over(MAX_EPOCHS + 1)
    assert shown.pop("e0000000") == {"scorer": "s1"}
    assert len(shown) == MAX_EPOCHS
    assert all("boundary" in facts for facts in shown.values())
