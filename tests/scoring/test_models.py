"""Whose weights are whose."""

from __future__ import annotations

from typing import Any

import polars as pl

from affine_dagster.scoring.models import origin_models
from affine_dagster.tables import FINGERPRINTS, KINSHIP


def printed(
    submission: str, weights: str, block: int, *, epoch: int = 1, index: int = 0, tensors: str = "", genesis: bool = False
) -> dict[str, Any]:
    row = dict.fromkeys(FINGERPRINTS.columns)
    return row | {
        "epoch": epoch, "submission_id": submission, "hotkey": None if genesis else f"hot-{submission}", "repo": "r", "revision": "v",
        "block": block, "extrinsic_index": index, "genesis": genesis, "weights_digest": weights, "tensor_set_digest": tensors or weights,
    }


def verdict(submission: str, word: str, peer: str | None = None, *, epoch: int = 1) -> dict[str, Any]:
    row = dict.fromkeys(KINSHIP.columns)
    return row | {"epoch": epoch, "submission_id": submission, "verdict": word, "reason": word, "peer_submission_id": peer}


def owners(prints: list[dict[str, Any]], verdicts: list[dict[str, Any]]) -> dict[str, str]:
    made = origin_models(FINGERPRINTS.frame(prints), KINSHIP.frame(verdicts))
    return dict(made.select("weights_digest", "submission_id").iter_rows())


def test_an_origin_owns_its_weights() -> None:
    assert owners([printed("a", "w", 5)], [verdict("a", "origin")]) == {"w": "a"}


def test_a_copy_of_a_copy_belongs_to_the_origin() -> None:
    """Case P5: also under another weights digest (other tensor names)."""
    prints = [printed("a", "w", 5), printed("b", "w", 6), printed("c", "w2", 7, tensors="w")]
    verdicts = [verdict("a", "origin"), verdict("b", "exact_copy", "a"), verdict("c", "exact_copy", "b")]
    assert owners(prints, verdicts) == {"w": "a", "w2": "a"}


def test_a_late_admission_of_an_earlier_commitment_takes_over() -> None:
    early = [printed("late", "w", 9)], [verdict("late", "origin")]
    after = (
        [*early[0], printed("first", "w", 3, epoch=4)],
        [*early[1], verdict("first", "origin", epoch=4), verdict("late", "exact_copy", "first", epoch=4)],
    )
    assert owners(*early) == {"w": "late"}
    assert owners(*after) == {"w": "first"}


def test_genesis_is_earlier_than_everything() -> None:
    prints = [printed("g", "w", -1, genesis=True), printed("a", "w", 0)]
    made = origin_models(FINGERPRINTS.frame(prints), KINSHIP.frame([verdict("a", "exact_copy", "g")]))
    assert made.select("submission_id", "hotkey", "genesis").rows() == [("g", None, True)]


def test_two_genesis_models_of_the_same_tensors_are_one() -> None:
    prints = [printed("g1", "w1", -1, index=1, tensors="t", genesis=True), printed("g0", "w0", -1, tensors="t", genesis=True)]
    made = origin_models(FINGERPRINTS.frame(prints), KINSHIP.empty())
    assert made.select("weights_digest", "origin_digest").rows() == [("w0", "w0"), ("w1", "w0")]


def test_what_is_under_review_or_unjudged_belongs_to_nobody() -> None:
    prints = [printed("a", "w", 5), printed("b", "x", 5), printed("c", "y", 6), printed("d", "z", 7)]
    circle = [verdict("c", "exact_copy", "d"), verdict("d", "exact_copy", "c")]
    assert owners(prints, [verdict("a", "needs_review"), *circle]) == {}


def test_the_order_of_rows_changes_nothing() -> None:
    prints = FINGERPRINTS.frame([printed(name, weights, block) for name, weights, block in (("a", "w", 5), ("b", "w", 6), ("c", "x", 6))])
    verdicts = KINSHIP.frame([verdict("a", "origin"), verdict("b", "exact_copy", "a"), verdict("c", "origin")])
    mixed = origin_models(prints.sample(fraction=1, shuffle=True, seed=1), verdicts.sample(fraction=1, shuffle=True, seed=2))
    assert mixed.equals(origin_models(prints, verdicts))
    assert mixed.select(pl.col("weights_digest").is_sorted()).item()
