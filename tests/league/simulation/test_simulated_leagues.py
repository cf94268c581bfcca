"""The laws of simulated leagues: both engines agree, verdicts and bounds are the product's, credits only grow."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.league.simulation.leagues import next_epoch, verdicts
from affine_dagster.league.simulation.results import outcome_of
from affine_dagster.league.simulation.run import player, simulated
from affine_dagster.league.simulation.state import CLASSES, MINERS, League, Rules, begin
from affine_dagster.league.simulation.tables import PairCoins, bounds_of, simulation_settings
from affine_dagster.scoring.bets import try_alpha
from affine_dagster.scoring.contest import ContestRule, ContestState, judge
from affine_dagster.scoring.histogram import Histogram
from affine_dagster.scoring.intervals import reward_interval, surely_positive

SETTINGS = simulation_settings()
BOUNDS = bounds_of(SETTINGS)
RULES = Rules.of(SETTINGS, PairCoins.standard(), BOUNDS, np)
ASSAY = SETTINGS.evaluation.assay_tasks


@pytest.fixture(scope="module")
def states() -> list[League]:
    """Sixteen leagues after each of sixty epochs."""
    key = (np.uint32(3), np.arange(16, dtype=np.uint32))
    made = [begin(RULES, 16)]
    with np.errstate(over="ignore"):
        for epoch in range(60):
            made.append(next_epoch(RULES, made[-1], np.int32(epoch), key))
    return made


def test_both_engines_agree_on_the_same_keys() -> None:
    numbers = np.arange(64, dtype=np.uint32)
    ours, theirs = (player(engine, 40, SETTINGS)(11, numbers) for engine in ("numpy", "jax"))
    for name in League._fields:
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert mine.dtype == other.dtype, name
        same = np.array_equal(mine, other) if mine.dtype != np.float64 else np.allclose(mine, other, rtol=1e-12, atol=0)
        assert same, name


@pytest.mark.parametrize(("batch", "workers"), [(3, 1), (8, 2)])
def test_a_league_does_not_depend_on_those_beside_it(batch: int, workers: int) -> None:
    alone = next(simulated(8, 10, 5, "numpy", batch=8, workers=1))
    parts = list(simulated(8, 10, 5, "numpy", batch=batch, workers=workers))
    for name in League._fields:
        assert np.array_equal(getattr(alone, name), np.concatenate([getattr(one, name) for one in parts], axis=-1)), name


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), min_size=3, max_size=3), st.integers(1, 12), st.integers(1, 20),
    st.booleans(),
)
def test_a_verdict_is_the_products(each: list[tuple[int, int]], age: int, number: int, again: bool) -> None:
    """One pair on counts of its own, every environment with its wins and losses of 200 tasks an epoch."""
    tasks = 200 * age
    counts = [(won * age, lost * age) for won, lost in each]
    state = _alone(counts, tasks, age, number)
    rule = ContestRule.of(SETTINGS.scoring, SETTINGS.evaluation, try_alpha(SETTINGS.scoring, number), SETTINGS.scoring.discordance)
    evidence = {
        name: Histogram(tuple((at, n) for at, n in ((-1000, lost), (0, tasks - won - lost), (1000, won)) if n))
        for name, (won, lost) in zip(SETTINGS.evaluation.environments, counts, strict=True)
    }
    verdict = judge(evidence, rule, tasks, age)
    won, out = verdicts(RULES, state)
    assert bool(won[0, 0]) == (verdict.state is ContestState.WON)
    assert bool(out[0, 0]) == (verdict.state in (ContestState.REGRESSED, ContestState.FUTILE, ContestState.EXPIRED))
    if again:  # what was won stays won
        kept = state._replace(won=state.used[None] | state.won)
        assert bool(verdicts(RULES, kept)[0][0, 0])


def _alone(counts: list[tuple[int, int]], tasks: int, age: int, number: int) -> League:
    """The first miner's model against genesis alone."""
    blank = begin(RULES, 1)
    wins, losses, ran = blank.wins.copy(), blank.losses.copy(), blank.tasks.copy()
    wins[0, 0, :, 0], losses[0, 0, :, 0] = zip(*counts, strict=True)
    ran[0, 0] = tasks
    flying, ages, numbers = blank.flying.copy(), blank.age.copy(), blank.number.copy()
    flying[0], ages[0], numbers[0] = True, age, number
    return blank._replace(wins=wins, losses=losses, tasks=ran, flying=flying, age=ages, number=numbers)


@pytest.mark.parametrize("right", [0, 1, 137, 1000, 1900, 2000])
def test_the_assays_bound_is_the_products(right: int) -> None:
    bins = tuple((at, n) for at, n in ((0, ASSAY - right), (1000, right)) if n)
    lower = reward_interval(Histogram(bins), SETTINGS.scoring.assay_alpha).lower
    assert BOUNDS.lower[right] == int(SETTINGS.scoring.grid * lower)


@pytest.mark.parametrize("lost", [0, 3, 60, 300, 700])
def test_a_sure_gain_is_the_products(lost: int) -> None:
    def sure(won: int) -> bool:
        bins = ((-1000, lost), (0, ASSAY - lost - won), (1000, won))
        return surely_positive(Histogram(tuple(one for one in bins if one[1])), SETTINGS.scoring.assay_alpha)

    least = int(BOUNDS.sure[lost])
    assert sure(least)
    assert not sure(least - 1)


def test_heights_only_rise_and_hold_all_that_was_ever_owed(states: list[League]) -> None:
    genesis = int(states[0].heights[..., 0].sum(dtype=np.int64))
    for before, after in itertools.pairwise(states):
        assert (after.heights >= before.heights).all()
        owed = after.owed.sum(axis=0)
        assert (owed <= after.heights.sum(axis=(0, 1), dtype=np.int64) - genesis).all()


def test_a_credit_falls_by_decay_alone(states: list[League]) -> None:
    for before, after in itertools.pairwise(states):
        assert (after.owed >= before.owed * BOUNDS.decay * (1 - 1e-12)).all()


def test_a_measured_credit_never_reaches_above_true_skill_by_more_than_chance(states: list[League]) -> None:
    """An assay's bound errs low: the measured volume is over the exact one in few leagues."""
    last = states[-1]
    measured, exact = (one.sum(axis=(0, 1), dtype=np.int64) for one in (last.heights, last.exact_heights))
    assert (measured > exact).mean() <= 0.2
    assert (measured.sum() / exact.sum()) > 0.8


def test_who_brings_nothing_enters_hardly_ever_and_honest_miners_do() -> None:
    outcome = outcome_of(simulated(128, 60, 2, "jax"), 60)
    by_name = {one.strategy: one for one in outcome.strategies}
    assert by_name["honest"].accepted.value > 3
    assert outcome.false.value <= 3 * SETTINGS.scoring.alpha_daily  # three days
    assert sum(by_name[name].share.value for name in ("griefer", "launderer")) < 0.01
    assert by_name["seed_retrier"].old.value > 0.3, "the subnet's rule of May 2026 pays luck"


def test_paid_shares_lie_near_those_of_exact_measurement() -> None:
    outcome = outcome_of(simulated(128, 100, 4, "jax"), 100)
    assert outcome.distance.high < 0.06
    assert outcome.distance.value < outcome.oracle_distance.value < outcome.old_distance.value


def test_a_wrong_table_is_noticed() -> None:
    """The comparison with the product is not blind: with another threshold the verdicts differ."""
    state = _alone([(30, 0)] * 3, 200, 1, 1)
    looser = dataclasses.replace(RULES, win=RULES.win * 1e30)
    assert verdicts(RULES, state)[0][0, 0]
    assert not verdicts(looser, state)[0][0, 0]


def test_there_is_a_miner_of_every_strategy() -> None:
    assert sorted(set(MINERS.tolist())) == list(range(len(CLASSES)))
    assert MINERS.size == 50
