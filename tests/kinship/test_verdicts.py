"""Who came first is decided by the commit order alone, and every copy is a copy of the origin."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.kinship.verdicts import judge
from affine_dagster.tables import FINGERPRINTS, KINSHIP


@dataclass(frozen=True)
class Model:
    name: str
    block: int
    index: int | None = 0
    tensors: str = "t"
    epoch: int = 1
    weights: str | None = None
    genesis: bool = False
    config: str = "c"
    tokenizer: str = "s"


def fingerprints(*models: Model) -> pl.DataFrame:
    return FINGERPRINTS.frame(
        {
            "epoch": model.epoch, "submission_id": model.name, "hotkey": None if model.genesis else f"h-{model.name}", "repo": "o/n",
            "revision": "0" * 40, "block": model.block, "extrinsic_index": model.index, "genesis": model.genesis,
            "weights_digest": model.weights or f"w-{model.tensors}{model.config}{model.tokenizer}", "tensor_set_digest": model.tensors,
            "parameters": 1, "template_hash": "h", "tokenizer_signature": model.tokenizer, "tensors": [], "tensors_digest": model.tensors,
            "config_digest": model.config,
        }
        for model in models
    )


def verdicts(frame: pl.DataFrame) -> dict[str, tuple[str, str, str | None]]:
    rows = frame.select("submission_id", "verdict", "reason", "peer_submission_id").iter_rows()
    return {name: (verdict, reason, peer) for name, verdict, reason, peer in rows}


def of(*models: Model) -> dict[str, tuple[str, str, str | None]]:
    return verdicts(judge(fingerprints(*models), KINSHIP.empty(), 1))


ORIGIN = ("origin", "origin", None)


def test_the_earliest_commitment_is_the_origin_whatever_came_first_into_the_table() -> None:
    """P4."""
    assert of(Model("twin", 9), Model("first", 5), Model("other", 7, tensors="u")) == {
        "first": ORIGIN, "other": ORIGIN, "twin": ("exact_copy", "exact_copy", "first"),
    }


def test_within_a_block_the_extrinsic_index_decides() -> None:
    """A8."""
    assert of(Model("a", 5, 9), Model("b", 5, 3)) == {"b": ORIGIN, "a": ("exact_copy", "exact_copy", "b")}


def test_a_copy_of_a_copy_is_attributed_to_the_origin() -> None:
    """P5: A, B, C with the same weights."""
    assert of(Model("a", 1), Model("b", 2), Model("c", 3))["c"] == ("exact_copy", "exact_copy", "a")


def test_a_copy_of_a_genesis_model_is_named_so_and_genesis_has_no_verdict() -> None:
    assert of(Model("genesis-0", -1, genesis=True), Model("a", 1), Model("b", 2)) == {
        "a": ("exact_copy", "genesis_copy", "genesis-0"), "b": ("exact_copy", "genesis_copy", "genesis-0"),
    }


def test_equal_tensors_under_other_names_are_a_copy() -> None:
    """P8, P13: the same digests of tensors, whatever the names; nothing else is compared."""
    frame = judge(fingerprints(Model("a", 1, weights="x"), Model("b", 2, weights="y")), KINSHIP.empty(), 1)
    assert verdicts(frame)["b"] == ("exact_copy", "same_weights", "a")
    assert "other names" in frame["detail"][1]


def test_the_same_weights_under_another_config_or_tokenizer_are_a_copy_whoever_commits_them() -> None:
    """A stranger's rope_theta + 1e-6 is no identity of his own, and neither is the miner's own mended config."""
    stranger = Model("b", 2, config="c2")
    frame = judge(fingerprints(Model("a", 1), stranger, Model("c", 3, config="c3", tokenizer="s3")), KINSHIP.empty(), 1)
    assert verdicts(frame) == {"a": ORIGIN, "b": ("exact_copy", "same_weights", "a"), "c": ("exact_copy", "same_weights", "a")}
    assert frame["detail"].to_list()[1:] == ["the same tensors under another config", "the same tensors under another config, tokenizer"]


def test_genesis_weights_under_another_config_are_genesis_weights() -> None:
    known = fingerprints(Model("genesis-0", -1, genesis=True), Model("a", 1, config="c2"))
    assert verdicts(judge(known, KINSHIP.empty(), 1)) == {"a": ("exact_copy", "genesis_copy", "genesis-0")}


def test_a_late_admission_of_an_earlier_commitment_overtakes() -> None:
    first = judge(fingerprints(Model("late", 9)), KINSHIP.empty(), 1)
    known = fingerprints(Model("late", 9), Model("early", 5, epoch=2), Model("other", 1, tensors="u"))
    assert verdicts(judge(known, first, 2)) == {"early": ORIGIN, "other": ORIGIN, "late": ("exact_copy", "exact_copy", "early")}


def test_only_new_and_changed_verdicts_are_written() -> None:
    first = judge(fingerprints(Model("a", 1), Model("b", 2)), KINSHIP.empty(), 1)
    second = judge(fingerprints(Model("a", 1), Model("b", 2), Model("c", 3, epoch=2)), first, 2)
    assert verdicts(second) == {"c": ("exact_copy", "exact_copy", "a")}


def test_a_tie_with_an_unknown_extrinsic_index_needs_review() -> None:
    """A8."""
    found = of(Model("a", 5, 3), Model("b", 5, None), Model("later", 6), Model("sure", 5, 4))
    assert found["a"] == ("needs_review", "tie_needs_review", "b")
    assert found["b"] == ("needs_review", "tie_needs_review", "a")
    assert found["sure"][0] == found["later"][0] == "exact_copy"


def test_an_unknown_extrinsic_index_alone_in_its_block_is_no_tie() -> None:
    assert of(Model("a", 5, None), Model("b", 6, 0)) == {"a": ORIGIN, "b": ("exact_copy", "exact_copy", "a")}


def test_a_tie_among_copies_of_an_earlier_model_is_no_tie() -> None:
    assert of(Model("first", 1), Model("a", 5, None), Model("b", 5, None))["a"] == ("exact_copy", "exact_copy", "first")


def test_an_empty_epoch_is_an_empty_frame() -> None:
    assert judge(FINGERPRINTS.empty(), KINSHIP.empty(), 1).equals(KINSHIP.empty())


MODELS = st.lists(
    st.builds(
        Model, name=st.from_regex(r"\As[a-z0-9]{3}\Z"), block=st.integers(1, 4), index=st.none() | st.integers(0, 3),
        tensors=st.sampled_from("tuv"), epoch=st.integers(1, 3),
    ),
    max_size=10, unique_by=lambda model: model.name,
)


@settings(max_examples=30, deadline=None)
@given(MODELS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(models: list[Model], shuffler: object) -> None:
    shuffled = list(models)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    assert judge(fingerprints(*models), KINSHIP.empty(), 3).equals(judge(fingerprints(*shuffled), KINSHIP.empty(), 3))


@settings(max_examples=30, deadline=None)
@given(MODELS)
def test_every_cluster_has_one_origin_or_a_review_and_every_copy_points_there(models: list[Model]) -> None:
    found = of(*[Model(model.name, model.block, model.index, model.tensors) for model in models])
    for tensors in {model.tensors for model in models}:
        rows = [found[model.name] for model in models if model.tensors == tensors]
        origins = [verdict for verdict, _, _ in rows if verdict == "origin"]
        reviews = [verdict for verdict, _, _ in rows if verdict == "needs_review"]
        assert (len(origins) == 1 and not reviews) or (not origins and len(reviews) >= 2)
        assert all(found[str(peer)][0] in {"origin", "needs_review"} for verdict, _, peer in rows if verdict == "exact_copy")


@settings(max_examples=30, deadline=None)
@given(MODELS)
def test_epoch_by_epoch_ends_where_one_look_at_everything_does(models: list[Model]) -> None:
    earlier = KINSHIP.empty()
    known = fingerprints(*models)
    for epoch in (1, 2, 3):
        rows = judge(known, earlier, epoch)
        assert judge(known, pl.concat([earlier, rows]), epoch).equals(rows)
        earlier = pl.concat([earlier, rows])
    newest = earlier.sort("epoch", maintain_order=True).unique("submission_id", keep="last")
    assert verdicts(newest) == verdicts(judge(known, KINSHIP.empty(), 3))
