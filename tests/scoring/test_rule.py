"""The rule as a whole: a function of frames, the same bytes however the rows lie, the fold equal to the chain of states."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.scoring.rule import FrontierCredits, Outcome, PriorState, fold

_FRAMES = ("evidence", "contests", "scores", "frontier", "credits", "weights")


def stored(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def fingerprint(outcomes: list[Outcome]) -> str:
    """One digest over the Parquet bytes of all frames of all epochs."""
    whole = b"".join(stored(getattr(outcome, name)) for outcome in outcomes for name in _FRAMES)
    return hashlib.sha256(whole).hexdigest()


def test_the_strong_enters_the_specialist_enters_beside_it_and_the_equal_does_not(season: Any) -> None:
    last = season.outcomes[-1]
    assert last.frontier["submission_id"].to_list() == ["s-base", "s-strong", "s-specialist"]
    assert last.frontier["incumbent"].to_list() == [False, True, True]
    assert last.credits["reason"].to_list() == ["credited", "credited"]
    assert last.credits["frozen"].all()
    assert last.weights["weight"].sum() == 65535


def test_the_fold_from_rewards_equals_the_chain_of_states(season: Any, make: Any) -> None:
    """Each epoch's state written to Parquet and read back before the next, against one fold over the inputs."""
    chained: list[Outcome] = []
    for at, inputs in enumerate(season.inputs):
        prior = make.NOTHING
        if at:
            until = [pl.read_parquet(io.BytesIO(stored(outcome.evidence))) for outcome in chained]
            contests = [pl.read_parquet(io.BytesIO(stored(outcome.contests))) for outcome in chained]
            prior = PriorState(pl.concat(until), pl.concat(contests), pl.read_parquet(io.BytesIO(stored(chained[-1].frontier))))
        chained.append(FrontierCredits().advance(prior, inputs, season.rules))
    folded = list(fold(FrontierCredits(), season.inputs, season.rules, make.NOTHING))
    assert fingerprint(folded) == fingerprint(chained) == fingerprint(season.outcomes)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**16))
def test_shuffled_rows_give_the_same_bytes(season: Any, make: Any, seed: int) -> None:
    def mixed(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.sample(fraction=1, shuffle=True, seed=seed)

    names = ("plan", "rewards", "assays")
    shuffled = [
        dataclasses.replace(
            inputs, models=dict(reversed(inputs.models.items())), **{name: mixed(getattr(inputs, name)) for name in names}
        ) for inputs in season.inputs
    ]
    assert fingerprint(list(fold(FrontierCredits(), shuffled, season.rules, make.NOTHING))) == fingerprint(season.outcomes)


def test_another_process_with_another_hash_seed_gives_the_same_bytes(season: Any) -> None:
    """The outcome is a function of the frames: not of hash seeds, threads or what ran before."""
    here = Path(__file__)
    script = (
        "import runpy, sys; sys.modules['season_of_tests'] = m = type(sys)('season_of_tests'); "
        f"m.__file__ = {str(here.with_name('conftest.py'))!r}; exec(compile(open(m.__file__).read(), m.__file__, 'exec'), m.__dict__); "
        f"print(runpy.run_path({str(here)!r})['fingerprint'](m.Season().play(5).outcomes))"
    )
    root = here.parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "POLARS_MAX_THREADS": "3", "PYTHONPATH": str(root)}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == fingerprint(season.outcomes)


def test_a_later_submission_lowers_no_earlier_credit(season: Any, make: Any) -> None:
    """The season without the specialist: what the strong model earns is the same to the unit."""
    without = make.Season(tuple(model for model in make.CAST if model.name != "specialist")).play(5)
    mine = pl.col("hotkey") == "hot-strong"
    for with_it, alone in zip(season.outcomes, without.outcomes, strict=True):
        assert with_it.credits.filter(mine)["credit_units"].equals(alone.credits.filter(mine)["credit_units"])


def test_credits_never_fall_over_the_season(season: Any) -> None:
    for hotkey in ("hot-strong", "hot-specialist"):
        rows = [row for outcome in season.outcomes for row in outcome.credits.iter_rows(named=True) if row["hotkey"] == hotkey]
        units = [int(row["credit_units"]) for row in rows]
        assert units == sorted(units)
        assert units[-1] > 0


def test_a_model_of_equal_skill_changes_nobody(season: Any, make: Any) -> None:
    """Without it the frontier, the credits and the weights are the same bytes (its hotkey is registered in both)."""
    without = make.Season(tuple(model for model in make.CAST if model.name != "equal")).play(5)
    for name in ("frontier", "credits", "weights"):
        for alone, together in zip(without.outcomes, season.outcomes, strict=True):
            assert stored(getattr(alone, name)) == stored(getattr(together, name))


def test_an_epoch_with_nothing_in_it_still_has_its_rows(make: Any) -> None:
    """No models at all: everything burns, with a reason."""
    outcome = make.Season(()).play(1).outcomes[0]
    assert outcome.frontier.height == outcome.contests.height == outcome.credits.height == 0
    assert outcome.weights.select("hotkey", "weight", "reason").rows() == [("burn", 65535, "burned")]


def test_one_model_alone_is_an_incumbent_that_earns_nothing(make: Any) -> None:
    outcomes = make.Season((make.BASE,)).play(2).outcomes
    assert outcomes[-1].frontier["incumbent"].to_list() == [True]
    assert outcomes[-1].weights["reason"].to_list() == ["burned"]


def test_when_the_owner_has_left_the_model_stays_unpaid(season: Any, make: Any) -> None:
    """DESIGN section 4: F never shrinks; the incumbent gone from the metagraph is still the one to beat."""
    inputs = [dataclasses.replace(entry, registered=frozenset({"burn", "hot-specialist"})) for entry in season.inputs]
    last = list(fold(FrontierCredits(), inputs, season.rules, make.NOTHING))[-1]
    assert last.frontier.equals(season.outcomes[-1].frontier)
    assert last.credits.select("hotkey", "reason").rows() == [("hot-strong", "not_registered"), ("hot-specialist", "credited")]
    assert last.weights.filter(pl.col("weight") > 0)["hotkey"].to_list() == ["hot-specialist"]
