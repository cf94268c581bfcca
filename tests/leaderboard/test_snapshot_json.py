"""Laws of the published snapshot: strict JSON, the same after reading it back, one number for one thing, never an older latest."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.leaderboard.picture import pareto_png
from affine_dagster.leaderboard.snapshot import LeaderboardModel, LeaderboardSnapshot, build, parse, publish, read_latest
from affine_dagster.store import Store
from affine_dagster.tables import SCORES, STANDINGS, WEIGHTS

ENVIRONMENTS = ("left", "right")


def _score(environment: str, mean: float | None, *, n: int = 100, epoch: int = 5, **values: Any) -> dict[str, Any]:
    counts = {"n": n, "n_ok": n, "n_model_fault": 0, "n_missing": 0}
    return {
        "epoch": epoch, "weights_digest": "A1", "environment": environment, "purpose": "contest", "mean": mean,
        "lower": None if mean is None else max(0.0, mean - 0.1), "upper": None if mean is None else min(1.0, mean + 0.1),
        **counts, **values,
    }


def _standing(**values: Any) -> dict[str, Any]:
    known = {
        "epoch": 5, "submission_id": "a1", "hotkey": "h-a", "repo": "a/model", "revision": "0" * 40, "block": 10, "extrinsic_index": 0,
        "weights_digest": "A1", "genesis": False, "state": "accepted", "reason": "accepted", "next_step": "nothing", "credit": 0.25,
        "weight": 65_535, "first_epoch": 3, "since_epoch": 4, **values,
    }
    return {name: known.get(name) for name in STANDINGS.columns}


def _built(*scores: dict[str, Any], epoch: int = 5, **standing: Any) -> LeaderboardSnapshot:
    shares = {"epoch": epoch, "rule": "frontier_credits", "hotkey": "h-a", "burn": False, "weight": 65_535, "share": 1.0}
    return build(
        epoch=epoch, boundary_block=150, scorer="s1", rule="frontier_credits", environments=ENVIRONMENTS,
        standings=STANDINGS.frame([_standing(**standing)]), scores=SCORES.frame(scores),
        weights=WEIGHTS.frame([shares | {"sendable": True, "reason": "sendable"}]),
    )


def _model(snapshot: LeaderboardSnapshot) -> LeaderboardModel:
    (model,) = snapshot.models
    return model


_TEXT = st.none() | st.text(max_size=20)
_MEAN = st.none() | st.floats(0, 1)


@given(detail=_TEXT, repo=_TEXT, credit=st.none() | st.floats(0, 1), left=_MEAN, right=_MEAN)
def test_what_is_read_back_is_what_was_built(
    detail: str | None, repo: str | None, credit: float | None, left: float | None, right: float | None
) -> None:
    made = _built(_score("left", left), _score("right", right), detail=detail, repo=repo, credit=credit)
    assert parse(json.dumps(asdict(made), allow_nan=False).encode()) == made


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_none_is_not_published(tmp_path: Path, bad: float) -> None:
    """Case S5: what is missing is null; NaN is refused where it is written."""
    store = Store(str(tmp_path))
    with pytest.raises(ValueError, match="JSON"):
        publish(store, _built(credit=bad))
    assert store.names("published/") == []


def test_the_latest_is_never_replaced_by_an_older_epoch(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for epoch in (5, 7, 6):
        publish(store, _built(epoch=epoch))
    latest = read_latest(store)
    assert latest is not None
    assert latest.epoch == 7
    assert len(store.names("published/s1/")) == 3


def test_a_re_run_of_the_newest_epoch_replaces_it(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    publish(store, _built(reason="evaluating"))
    publish(store, _built(reason="accepted"))
    latest = read_latest(store)
    assert latest is not None
    assert _model(latest).reason == "accepted"


def test_nothing_published_is_none(tmp_path: Path) -> None:
    assert read_latest(Store(str(tmp_path))) is None


def test_the_mean_is_the_mean_of_environments_not_of_rollouts() -> None:
    """Case S10: 900 rollouts at .9 and 100 at .1 are .5, and each environment shows its n."""
    model = _model(_built(_score("left", 0.9, n=900), _score("right", 0.1, n=100)))
    assert model.mean == pytest.approx(0.5)
    assert [score.n for score in model.scores] == [900, 100]


def test_an_environment_that_was_not_run_is_null_and_never_zero() -> None:
    """Case S11: and no mean is made of the others, which would compare with nobody's."""
    model = _model(_built(_score("left", 0.9)))
    assert (model.scores[1].n, model.scores[1].mean, model.scores[1].epoch) == (0, None, None)
    assert model.mean is None


def test_each_number_says_of_which_epoch_it_is() -> None:
    """Case O4: an old score is seen to be old."""
    model = _model(_built(_score("left", 0.5, epoch=2), _score("left", 0.7, epoch=4), _score("right", 0.6, epoch=3)))
    assert [(score.mean, score.epoch) for score in model.scores] == [(0.7, 4), (0.6, 3)]
    assert (model.first_epoch, model.since_epoch) == (3, 4)


def test_a_contests_score_goes_before_an_assays_of_the_same_epoch() -> None:
    model = _model(_built(_score("left", 0.7, purpose="assay", n=900), _score("left", 0.5)))
    assert model.scores[0].mean == 0.5


def test_the_scorers_version_is_visible() -> None:
    """Case S11."""
    assert (_built().scorer, _built().rule) == ("s1", "frontier_credits")


def test_two_scorers_lie_side_by_side(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for scorer in ("s1", "s2"):
        publish(store, replace(_built(), scorer=scorer))
    assert store.names("published/") == ["published/latest.json", "published/s1/e0000005.json", "published/s2/e0000005.json"]


@pytest.mark.parametrize("scores", [(), (_score("left", 0.5), _score("right", 0.2))])
def test_the_picture_is_a_png_with_and_without_points(scores: tuple[dict[str, Any], ...]) -> None:
    assert pareto_png(_built(*scores)).startswith(b"\x89PNG")
