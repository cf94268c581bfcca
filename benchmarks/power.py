"""Power, false wins and tasks of a contest, each over 100,000 simulated pairs, beside the fixed sample and the subnet's own rule.

At the defaults (m .02, D1 .06, q .3, alpha 5e-5): every figure with an interval that is narrow enough to tell. ``tasks_per_decision`` puts
fewer pairs through the product's own ``judge``; here the same arithmetic runs vectorised under JAX. What must not go in: another simulation
(``league/simulation/power.py``).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from affine_dagster.league.simulation.power import WON, Ends, Trial, ends_of
from affine_dagster.scoring.bets import fixed_sample_size
from affine_dagster.scoring.contest import ContestRule
from affine_dagster.settings import EvaluationSettings, ScoringSettings
from benchmarks._figures import Figure, share_of
from benchmarks._no_models import GAINS
from benchmarks._pairs import RULE_ENVIRONMENTS, incumbent_crowns

__all__ = ["run"]

PAIRS, OWNERS, SEED = 100_000, 50_000, 991
TRIES = 10
ALPHA = 0.01
DISCORDANCE = 0.3
DISCORDANCES = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
Z = statistics.NormalDist().inv_cdf(0.975)

SCORING, EVALUATION = ScoringSettings(), EvaluationSettings()
DESIGN = ContestRule.of(SCORING, EVALUATION, SCORING.alpha_daily / SCORING.owner_slots, DISCORDANCE)


def run() -> list[Figure]:
    """Tasks and power at the design, at other discordances, at every gain; false wins however often one looks or tries."""
    return [*_design(), *_other_discordances(), *_every_gain(), *_false_wins(), *_engines()]


def _design() -> list[Figure]:
    figures = [_mix("looks each 10, the mix of gains", DISCORDANCE)]
    made = _ends(DESIGN, 10, DESIGN.gain)
    return [*figures, share_of("power at D1, looks each 10", made.won, PAIRS, comparison=0.9, against="the least that is asked")]


def _other_discordances() -> list[Figure]:
    return [_mix(f"the mix where the true q is {one:g}, .3 being planned", one) for one in DISCORDANCES if one != DISCORDANCE]


def _every_gain() -> list[Figure]:
    """The worst gain between the margin and D1, among steps of .005."""
    gains = np.arange(DESIGN.margin, DESIGN.gain + 1e-9, 0.005).round(3).tolist()
    found = {gain: _ends(DESIGN, 10, gain).tasks for gain in gains}
    worst = max(found, key=lambda gain: found[gain].mean())
    return [_tasks(f"the worst gain in [m, D1], {worst:g}", [(1.0, found[worst])], DISCORDANCE, "bound: all of it")]


def _false_wins() -> list[Figure]:
    """At alpha = .01, where they can be counted: a look after every task; one model, and an owner's ten with alpha shared as it is."""
    loose = replace(DESIGN, alpha=ALPHA)
    crowned = incumbent_crowns(0.0, 0.5, DISCORDANCE, PAIRS, SEED) / PAIRS
    equal, boundary = (_ends(loose, 1, gain) for gain in (0.0, DESIGN.margin))
    figures = [
        share_of("an equal challenger, a look after every task: false wins", equal.won, PAIRS, comparison=ALPHA, against="alpha"),
        share_of("one at the boundary, D = m, a look after every task: false wins", boundary.won, PAIRS, comparison=ALPHA, against="alpha"),
    ]
    for name, gain in (("equal to the incumbent", 0.0), ("at the boundary", DESIGN.margin)):
        title = f"an owner's ten tries, each {name}, looks each 10: owners with a false win"
        figures.append(share_of(title, _owners(loose, gain), OWNERS, comparison=ALPHA, against="alpha"))
    title = f"an equal challenger in {RULE_ENVIRONMENTS} environments, looks each 10: false wins"
    trial = Trial(loose, 10, DISCORDANCE, (0.0,) * RULE_ENVIRONMENTS)
    figures.append(share_of(title, ends_of(trial, PAIRS, SEED).won, PAIRS, comparison=crowned, against="champion_challenger, 200 tasks"))
    return figures


def _owners(rule: ContestRule, gain: float) -> int:
    """How many owners win at least once in ten tries, the j-th at alpha · 6 / (pi² j²)."""
    won = np.zeros(OWNERS, dtype=bool)
    for number in range(1, TRIES + 1):
        at = replace(rule, alpha=rule.alpha * 6 / (np.pi**2 * number**2))
        won |= ends_of(Trial(at, 10, DISCORDANCE, (gain,)), OWNERS, SEED + number).states == WON
    return int(won.sum())


def _engines() -> list[Figure]:
    trial, pairs = Trial(DESIGN, 10, DISCORDANCE, (DESIGN.gain,)), 16_384
    made, seconds = {}, {}
    for engine in ("jax", "numpy"):
        ends_of(trial, 1, SEED, engine)  # type: ignore[arg-type]
        began = time.perf_counter()
        made[engine] = ends_of(trial, pairs, SEED, engine)  # type: ignore[arg-type]
        seconds[engine] = time.perf_counter() - began
    differ = int((made["jax"].tasks != made["numpy"].tasks).sum() + (made["jax"].states != made["numpy"].states).sum())
    note = f"{differ} of {pairs:,} pairs end otherwise"
    return [Figure(f"{pairs:,} pairs at D1 under JAX", seconds["jax"], "s", comparison=seconds["numpy"], against="under NumPy", note=note)]


def _ends(rule: ContestRule, look: int, gain: float, discordance: float = DISCORDANCE) -> Ends:
    return ends_of(Trial(rule, look, discordance, (gain,)), PAIRS, SEED + round(1000 * gain))


def _mix(name: str, discordance: float) -> Figure:
    mix = ", ".join(f"{share:.0%} of {gain:+.2f}" for gain, share in GAINS)
    return _tasks(name, [(share, _ends(DESIGN, 10, gain, discordance).tasks) for gain, share in GAINS], discordance, mix)


def _tasks(name: str, parts: Sequence[tuple[float, np.ndarray]], discordance: float, note: str) -> Figure:  # type: ignore[type-arg]
    """Tasks a decision in per cent of a fixed sample that is planned for the true discordance."""
    fixed = fixed_sample_size(DESIGN.margin, DESIGN.gain, discordance, DESIGN.alpha)
    mean = sum(share * float(tasks.mean()) for share, tasks in parts)
    error = sum((share * float(tasks.std()) / PAIRS**0.5) ** 2 for share, tasks in parts) ** 0.5
    low, middle, high = (100 * one / fixed for one in (mean - Z * error, mean, mean + Z * error))
    unit = f"% of a fixed sample of power .9 at that q, {fixed:,} tasks"
    return Figure(f"{name}: tasks a decision", middle, unit, low, high, note=f"{note}; {PAIRS:,} pairs a gain, 95 % interval")
