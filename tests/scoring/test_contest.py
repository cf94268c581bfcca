"""The laws of the verdict on a pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.reasons import AffineError
from affine_dagster.scoring.contest import ContestRule, ContestState, judge, stops
from affine_dagster.scoring.evidence import Stakes, log_evidence
from affine_dagster.scoring.histogram import Histogram
from affine_dagster.settings import EvaluationSettings, ScoringSettings

STAKES = Stakes(0.02, 0.05, 0.06, 0.3)
BINS = st.dictionaries(st.integers(-1000, 1000), st.integers(1, 400), max_size=6)
HISTOGRAMS = st.builds(lambda bins, missing: Histogram(tuple(sorted(bins.items())), missing), BINS, st.integers(0, 30))


def rule(alpha: float = 5e-5, discordance: float = 0.3, **changed: int) -> ContestRule:
    return ContestRule.of(ScoringSettings(), EvaluationSettings(**changed), alpha, discordance)  # type: ignore[arg-type]


def zero_one(wins: int, ties: int, losses: int, missing: int = 0) -> Histogram:
    return Histogram(tuple((key, count) for key, count in ((-1000, losses), (0, ties), (1000, wins)) if count), missing)


def values(histogram: Histogram) -> tuple[float, float, float, float]:
    made = log_evidence(histogram, STAKES)
    return (made.win, made.not_worse, made.futile, made.regressed)


def plain_mixture(histogram: Histogram, centre: float, sign: float, delta: float, multipliers: tuple[float, ...]) -> float:
    """The e-value by the formula of DESIGN section 4, straight from the counts."""
    total = 0.0
    for multiplier in multipliers:
        aim = delta * multiplier
        stake, product = min(aim / (0.3 + aim * aim), 0.9), 1.0
        for key, count in histogram.bins:
            product *= (1 + stake * sign * (key / 1000 - centre)) ** count
        total += product
    return total / len(multipliers)


def test_the_four_e_values_are_the_design_s_formulas() -> None:
    """DESIGN section 4, evaluated without logarithms."""
    seen = zero_one(30, 60, 10)
    winning, losing = (0.5, 0.75, 1.1, 1.7, 2.5), (0.5, 0.9, 1.65, 3.0)
    expected = (
        plain_mixture(seen, 0.02, 1, 0.04, winning), plain_mixture(seen, -0.05, 1, 0.05, winning),
        plain_mixture(seen, 0.06, -1, 0.04, losing), plain_mixture(seen, -0.05, -1, 0.05, losing),
    )
    made = [math.exp(value) for value in values(seen)]
    assert made == pytest.approx(expected, rel=100 * 2**-32)  # each task's logarithm is rounded down to a multiple of 2**-32
    assert all(one <= formula for one, formula in zip(made, expected, strict=True))


@given(HISTOGRAMS)
def test_a_missing_task_never_raises_an_e_value(seen: Histogram) -> None:
    """It can prolong, never help, never end: win, not worse, futile and regressed all fall."""
    more = seen + Histogram((), 1)
    assert all(after < before for before, after in zip(values(seen), values(more), strict=True))


@given(HISTOGRAMS, st.data())
def test_losing_a_result_never_raises_an_e_value(seen: Histogram, data: st.DataObject) -> None:
    """A result that is dropped counts against whoever would gain, so a model cannot choose which pairs are lost."""
    if not seen.bins:
        return
    key = data.draw(st.sampled_from([key for key, _ in seen.bins]))
    kept = tuple((at, count - (at == key)) for at, count in seen.bins if count - (at == key))
    less = Histogram(kept, seen.missing + 1)
    assert all(after <= before + 1e-12 for before, after in zip(values(seen), values(less), strict=True))


def test_dropping_the_losing_pairs_does_not_crown_an_equal_model() -> None:
    """DESIGN section 4: with 40 % of the losing pairs dropped and not counted, an equal model was crowned in 49 % of contests."""
    honest, lost = zero_one(750, 3500, 450), 300
    assert log_evidence(honest, STAKES).win > -math.log(5e-5)
    assert log_evidence(honest + Histogram((), lost), STAKES).win < 0


@given(st.lists(HISTOGRAMS, min_size=1, max_size=4))
def test_the_verdict_is_the_same_bytes_in_any_order_of_environments(entries: list[Histogram]) -> None:
    named = {f"e{at}": entry for at, entry in enumerate(entries)}
    backwards = dict(reversed(named.items()))
    assert judge(named, rule(), 0, 0) == judge(backwards, rule(), 0, 0)


@given(st.lists(HISTOGRAMS, min_size=1, max_size=3), st.data())
def test_a_duplicated_environment_changes_no_dominance(entries: list[Histogram], data: st.DataObject) -> None:
    """Strict dominance, not worse, regressed and futile are minima and maxima over environments."""
    named = {f"e{at}": entry for at, entry in enumerate(entries)}
    twin = judge({**named, "twin": data.draw(st.sampled_from(entries))}, rule(), 0, 0)
    alone = judge(named, rule(), 0, 0)
    assert (twin.log_strict, twin.log_not_worse, twin.log_futile, twin.log_regressed) == (
        alone.log_strict, alone.log_not_worse, alone.log_futile, alone.log_regressed,
    )


def test_a_gain_everywhere_wins_and_is_strict() -> None:
    verdict = judge({name: zero_one(700, 2200, 100) for name in "abcd"}, rule(), 3000, 0)
    assert (verdict.state, verdict.reason, verdict.strict) == (ContestState.WON, "won", True)


def test_a_large_gain_in_one_environment_wins_but_is_not_strict() -> None:
    """A specialist enters beside the incumbent and makes nobody redundant (case S13)."""
    seen = {"a": zero_one(700, 2200, 100), **{name: zero_one(300, 2400, 300) for name in "bcd"}}
    verdict = judge(seen, rule(), 3000, 0)
    assert (verdict.state, verdict.strict, verdict.environment) == (ContestState.WON, False, "a")


def test_a_gain_in_one_environment_does_not_win_with_a_loss_in_another() -> None:
    seen = {"a": zero_one(1500, 1400, 100), "b": zero_one(100, 2400, 500), "c": zero_one(300, 2400, 300)}
    verdict = judge(seen, rule(), 3000, 0)
    assert (verdict.state, verdict.environment) == (ContestState.REGRESSED, "b")


def test_an_equal_model_is_futile_not_regressed() -> None:
    verdict = judge({name: zero_one(900, 8200, 900) for name in "ab"}, rule(), 3000, 0)
    assert (verdict.state, verdict.reason) == (ContestState.FUTILE, "futile")


def test_a_mean_order_within_noise_decides_nothing() -> None:
    """Case S13: dominance needs significance in every environment, not an order of means."""
    verdict = judge({name: zero_one(35, 40, 25) for name in "abcd"}, rule(), 100, 0)
    assert (verdict.state, verdict.strict) == (ContestState.UNDECIDED, False)


def test_all_ties_are_no_evidence_for_a_gain() -> None:
    """Case S4: zero variance gives no NaN and no win; at length a gain becomes futile."""
    verdict = judge({"a": zero_one(0, 5, 0)}, rule(), 5, 0)
    assert verdict.state is ContestState.UNDECIDED
    assert math.isfinite(verdict.log_win)
    assert verdict.log_win < 0


def test_five_of_five_is_not_enough() -> None:
    """Case S4: five wins of five, all by the same amount, are no proof (a paired t-test says p = 0)."""
    assert judge({"a": zero_one(5, 0, 0)}, rule(), 5, 0).state is ContestState.UNDECIDED


def test_without_data_nothing_is_decided() -> None:
    verdict = judge({"a": Histogram(), "b": Histogram()}, rule(), 0, 0)
    assert (verdict.state, verdict.log_win, verdict.log_not_worse) == (ContestState.UNDECIDED, 0.0, 0.0)


def test_an_environment_without_data_forbids_a_win() -> None:
    assert judge({"a": zero_one(900, 100, 0), "b": Histogram()}, rule(), 0, 0).state is ContestState.UNDECIDED


def test_low_coverage_in_one_environment_keeps_a_pair_undecided() -> None:
    """Case E10: no verdict under the floor, not even an expiry."""
    seen = {"a": zero_one(2000, 1000, 0), "b": zero_one(1500, 1000, 0, missing=500)}
    verdict = judge(seen, rule(), 10**6, 100)
    assert (verdict.state, verdict.reason, verdict.environment) == (ContestState.UNDECIDED, "low_coverage", "b")


def test_a_pair_expires_at_its_tasks_or_epochs() -> None:
    seen = {"a": zero_one(35, 40, 25)}
    assert judge(seen, rule(), 2 * 4996 - 1, 7).state is ContestState.UNDECIDED
    assert judge(seen, rule(), 2 * 4996, 0).reason == "expired_undecided"
    assert judge(seen, rule(), 100, 8).state is ContestState.EXPIRED
    assert judge(seen, rule(max_tasks=100), 100, 0).state is ContestState.EXPIRED


def test_a_challenger_stops_when_all_are_won_or_one_is_lost() -> None:
    won = judge({"a": zero_one(700, 2200, 100)}, rule(), 0, 0)
    open_ = judge({"a": zero_one(3, 5, 2)}, rule(), 0, 0)
    futile = judge({"a": zero_one(900, 8200, 900)}, rule(), 0, 0)
    assert stops([won, won])
    assert stops([open_, futile])
    assert not stops([won, open_])
    assert not stops([])


def test_a_contest_without_environments_is_refused() -> None:
    with pytest.raises(AffineError, match="bad_settings"):
        judge({}, rule(), 0, 0)


@pytest.mark.parametrize(("alpha", "discordance"), [(0.0, 0.3), (1.0, 0.3), (math.nan, 0.3), (0.01, 0.0), (0.01, math.nan)])
def test_a_rule_with_impossible_numbers_is_refused(alpha: float, discordance: float) -> None:
    with pytest.raises(AffineError, match="bad_settings"):
        rule(alpha, discordance)


def walks(seed: int, walks: int, looks: int, each: int, up: float, down: float) -> list[list[Histogram]]:
    """Seeded 0/1 contests: one list of growing histograms a contest, ``each`` tasks between two looks."""
    drawn = np.random.default_rng(seed).multinomial(each, [up, 1 - up - down, down], size=(walks, looks)).cumsum(axis=1)
    return [[zero_one(*(int(count) for count in look)) for look in walk] for walk in drawn]


def test_false_wins_at_the_boundary_stay_under_alpha() -> None:
    """Type I: D = m exactly, alpha = .05, 400 contests with 25 looks each; Ville's bound holds at every look together."""
    bound = -math.log(0.05)
    paths = walks(20260701, 400, 25, 80, 0.16, 0.14)
    false = sum(any(log_evidence(look, STAKES).win >= bound for look in path) for path in paths)
    assert false <= 0.05 * 400


def test_false_regressions_at_the_boundary_stay_under_alpha() -> None:
    """Type I of rejection: D = −tau exactly, alpha_not_worse = .05."""
    bound = -math.log(0.05)
    paths = walks(20260702, 400, 25, 80, 0.125, 0.175)
    false = sum(any(log_evidence(look, STAKES).regressed >= bound for look in path) for path in paths)
    assert false <= 0.05 * 400


def test_power_at_the_planned_gain_is_the_measured_one() -> None:
    """DESIGN section 4: power .909 at D1 = .06, q = .3, alpha = 5e-5 within 2·4,996 tasks, false futile stops included.

    It hangs on how often one looks (each look may stop futile): 1,500 runs gave .893 at every task, .927 every 50, .956 every 250.
    """
    wins = 0
    for path in walks(20260703, 300, 40, 250, 0.18, 0.12):
        for look in path:
            seen = log_evidence(look, STAKES)
            if seen.win >= -math.log(5e-5):
                wins += 1
                break
            if seen.futile >= math.log(9):
                break
    assert 0.91 <= wins / 300 <= 0.99
