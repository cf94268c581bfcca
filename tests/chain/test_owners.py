"""Laws of ownership: facts of the chain tie hotkeys, and nothing else does."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.chain.owners import owner_clusters
from affine_dagster.tables import SUBMISSIONS, SWAPS


def _submissions(pairs: list[tuple[str, str | None]]) -> pl.DataFrame:
    return SUBMISSIONS.frame(
        {
            "epoch": 0, "submission_id": f"s{n}", "hotkey": hotkey, "coldkey": coldkey, "uid": None, "block": n, "extrinsic_index": 0,
            "repo": None, "revision": None, "state": "submitted", "reason": "submitted", "detail": None, "raw": None,
        }
        for n, (hotkey, coldkey) in enumerate(pairs)
    )  # fmt: skip


def test_a_coldkey_and_a_swap_tie_hotkeys() -> None:
    swaps = SWAPS.frame([{"epoch": 0, "block": 5, "coldkey": "c2", "old_hotkey": "h3", "new_hotkey": "h4"}])
    clusters = owner_clusters(_submissions([("h1", "c1"), ("h2", "c1"), ("h3", "c2"), ("h5", None)]), swaps)
    assert clusters == {"h1": "h1", "h2": "h1", "h3": "h3", "h4": "h3", "h5": "h5"}


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("xyz")), max_size=8))
def test_clusters_do_not_depend_on_the_order_of_rows(pairs: list[tuple[str, str]]) -> None:
    shuffled = pairs[::-1]
    assert owner_clusters(_submissions(list(pairs)), SWAPS.empty()) == owner_clusters(_submissions(list(shuffled)), SWAPS.empty())


def test_a_swap_ties_a_hotkey_whose_coldkey_is_no_longer_known() -> None:
    """After a swap the chain has no owner for the old hotkey; what it committed is still its owner's."""
    swaps = SWAPS.frame([{"epoch": 0, "block": 5, "coldkey": "c", "old_hotkey": "old", "new_hotkey": "new"}])
    clusters = owner_clusters(_submissions([("old", None), ("new", "c"), ("other", "c")]), swaps)
    assert len(set(clusters.values())) == 1
