"""Whose weights are whose."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.scoring.models import OriginIndex, by_position, origin_models, origins_of
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


def followed(prints: list[dict[str, Any]], verdicts: list[dict[str, Any]], epoch: int) -> dict[str, str]:
    """The owners as known in an epoch, by following every submission's chain anew."""
    known = {row["submission_id"]: row for row in sorted(prints, key=lambda row: row["epoch"]) if row["epoch"] <= epoch}
    said = {row["submission_id"]: row for row in sorted(verdicts, key=lambda row: row["epoch"]) if row["epoch"] <= epoch}
    found: dict[str, dict[str, Any]] = {}
    for row in known.values():
        end: dict[str, Any] | None = row
        for _ in range(len(known) + 1):
            word = said.get(end["submission_id"], {}).get("verdict") if end else None
            if end is None or end["genesis"] or word == "origin":
                break
            end = known.get(said[end["submission_id"]]["peer_submission_id"]) if word == "exact_copy" else None
        else:
            end = None
        if end is not None and end["genesis"]:
            alike = [one for one in known.values() if one["genesis"] and one["tensor_set_digest"] == end["tensor_set_digest"]]
            end = min(alike, key=by_position)
        held = found.get(row["weights_digest"])
        if end is not None and (held is None or by_position(end) < by_position(held)):
            found[row["weights_digest"]] = end
    return {digest: end["submission_id"] for digest, end in sorted(found.items())}


names = st.sampled_from("abcdef")
prints = st.lists(
    st.builds(
        lambda epoch, name, weights, block: printed(
            name, "w" if name in "ab" else weights, -1 if name in "ab" else block, epoch=epoch, tensors="w", genesis=name in "ab"
        ), st.integers(1, 4), names, st.sampled_from("wxy"), st.integers(0, 5),
    ), max_size=8, unique_by=lambda row: (row["epoch"], row["submission_id"]),
)
verdicts = st.lists(
    st.builds(
        lambda epoch, name, word, peer: verdict(name, word, peer, epoch=epoch),
        st.integers(1, 4), names, st.sampled_from(["origin", "exact_copy", "exact_copy", "needs_review"]), names,
    ), max_size=10, unique_by=lambda row: (row["epoch"], row["submission_id"]),
)


@settings(max_examples=1000)
@given(prints, verdicts)
def test_taking_in_an_epoch_at_a_time_is_following_every_chain_anew(rows: list[dict[str, Any]], said: list[dict[str, Any]]) -> None:
    """Also for an earlier epoch, after later ones have been taken in."""
    index, frames = OriginIndex(), (_unchecked(FINGERPRINTS, rows), _unchecked(KINSHIP, said))
    for epoch in range(1, 5):
        index.add(epoch, *(frame.filter(pl.col("epoch") == epoch) for frame in frames))
    for epoch in range(1, 5):
        seen = index.at(epoch)
        assert {digest: seen[digest].submission_id for digest in sorted(seen)} == followed(rows, said, epoch)


def _unchecked(table: Any, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """A submission may be printed in several epochs here: the index takes the newest."""
    return pl.DataFrame(rows, schema=table.schema, orient="row")


def test_epochs_are_taken_in_in_order() -> None:
    index = OriginIndex()
    index.add(3, FINGERPRINTS.empty(), KINSHIP.empty())
    with pytest.raises(ValueError, match="after 3"):
        index.add(3, FINGERPRINTS.empty(), KINSHIP.empty())


def test_the_origins_of_a_frame_are_its_rows() -> None:
    made = origin_models(FINGERPRINTS.frame([printed("a", "w", 5)]), KINSHIP.frame([verdict("a", "origin")]))
    assert [(one.weights_digest, one.submission_id, one.block) for one in origins_of(made).values()] == [("w", "a", 5)]
