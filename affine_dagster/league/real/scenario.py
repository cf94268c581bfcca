"""The world of the real model: what its miners commit when, and the settings under which 150 tasks an environment decide.

What must not go in: an expectation that anything checks against. The job's evidence says what becomes of each.
"""

from __future__ import annotations

from affine_dagster.league.real.precision import Precision
from affine_dagster.league.real.recipe import BASE, ENVIRONMENTS
from affine_dagster.league.world import Entry, Scenario

__all__ = ["real_scenario", "real_small_scenario"]


def _settings(precision: Precision, tasks: int, batch: int, alpha: float) -> str:
    return f"""
[serving]
dtype = "{precision}"
threads = 1
batch_size = {batch}
max_new_tokens = 32
max_model_length = 192

[evaluation]
environments = [{", ".join(f'"{name}"' for name in ENVIRONMENTS)}]
batch_tasks = {batch}
tasks_per_epoch = {tasks}
assay_tasks = {tasks}
max_tasks = {2 * tasks}
processes = 2

[scoring]
margin = 0.03
tolerance = 0.15
gain = 0.20
alpha_daily = {alpha}
owner_slots = 5
"""


def real_scenario(precision: Precision) -> Scenario:
    """The world of the demo: its models answer in ``precision``.

    SmolLM2-135M-Instruct as genesis, an exact re-upload of it, a child taught one family, one taught by heart, a copy with noise, a
    child taught all families, and later an exact re-upload of that child.

    What 150 tasks an environment can promise at a first try's alpha of .05/5 · 6/pi² = .006: a gain of 20 points (D1) in one environment
    needs about 150 tasks by a fixed sample at a discordance of .3 and margin .03, so that gains of 30 points and more are found nearly
    always, 20 points often, 10 points hardly ever. "Not worse" means here by less than 15 points at alpha .01: who loses 10 points
    somewhere may still enter. A copy or an equal model is called futile after some dozens of tasks, since a gain of 20 points is what
    is ruled out; a true gain of 10 points may be called futile too. None of this is the subnet's setting: it finds +6 points, on
    thousands of tasks. What stays undecided after 150 tasks goes on in the next epoch with fresh ones, and is then said to be so.
    """
    return Scenario(
        genesis=BASE,
        entries=(
            Entry(0, "Bob", BASE, name="my-own-model"),
            Entry(0, "Ada", "sums"),
            Entry(0, "Mallory", "memorised"),
            Entry(0, "Heidi", "noisy", name="tuned"),
            Entry(0, "Eve", "mixed"),
            Entry(1, "Grace", "mixed", name="totally-new"),
        ),
        settings=_settings(precision, tasks=150, batch=30, alpha=0.05),
    )


def real_small_scenario(precision: Precision) -> Scenario:
    """For the test that runs the command: ten tasks an environment, which decide next to nothing."""
    return Scenario(
        genesis=BASE,
        entries=(Entry(0, "Bob", BASE, name="my-own-model"), Entry(0, "Ada", "sums"), Entry(0, "Heidi", "noisy", name="tuned")),
        settings=_settings(precision, tasks=10, batch=5, alpha=0.05),
    )
