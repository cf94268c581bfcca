"""``affine simulate``: thousands of leagues on latent skill, and what each strategy earns in them, as a table in a terminal.

What must not go in: the leagues and the statistics (``league/simulation/``).
"""

from __future__ import annotations

from importlib.util import find_spec

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table

from affine_dagster.cli.board import wide_console
from affine_dagster.league.simulation.results import Mean, Outcome, outcome_of
from affine_dagster.league.simulation.run import BATCH, Engine, simulated
from affine_dagster.reasons import AffineError

__all__ = ["chosen_engine", "print_simulation"]


def chosen_engine(name: str) -> Engine:
    """``numpy`` or ``jax``; ``auto`` is JAX where it is installed. Raises ``bad_settings`` where JAX is asked for and is not."""
    installed = find_spec("jax") is not None
    if name == "jax" and not installed:
        raise AffineError("bad_settings", "engine jax: the extra 'simulate' is not installed")
    return "jax" if name == "jax" or (name == "auto" and installed) else "numpy"


def print_simulation(leagues: int, epochs: int, seed: int, engine: str, console: Console | None = None) -> None:
    """Play the leagues with progress and print what came of them."""
    console = console or wide_console()
    chosen = chosen_engine(engine)
    batches = simulated(leagues, epochs, seed, chosen)
    shown = track(batches, "leagues", total=-(-leagues // BATCH), console=console, transient=True, disable=not console.is_terminal)
    outcome = outcome_of(shown, epochs)
    console.print(_strategies(outcome))
    for line in _lines(outcome):
        console.print(line, highlight=False)
    console.print(f"{leagues:,} leagues of {epochs} epochs and 50 miners, seed {seed}, engine {chosen}; intervals: 95 %.", style="dim")


def _strategies(outcome: Outcome) -> Table:
    table = Table(title="What all miners of a strategy are paid, and what enters", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("strategy")
    for name in ("share", "were skill known", "May 2026 rule", "accepted", "of them false", "crowned in May 2026", "of them falsely"):
        table.add_column(name, justify="right")
    for one in outcome.strategies:
        shares = (f"{mean.value:.1%}" for mean in (one.share, one.oracle, one.old))
        counts = (f"{mean.value:.3f}" for mean in (one.accepted, one.false, one.crowned, one.false_crowned))
        table.add_row(one.strategy, *shares, *counts)
    return table


def _lines(outcome: Outcome) -> list[str]:
    return [
        f"false crowns a league: {_told(outcome.false, '.4f')}; under the rule of May 2026: {_told(outcome.false_crowned, '.2f')}",
        f"total variation from the same models measured without error: {_told(outcome.distance, '.4f')}",
        f"total variation from an oracle that knows skill: {_told(outcome.oracle_distance, '.3f')}; "
        f"under the rule of May 2026: {_told(outcome.old_distance, '.3f')}",
        f"rollouts an environment, a decision: {_told(outcome.tasks, '.0f')}",
    ]


def _told(mean: Mean, form: str) -> str:
    return f"{mean.value:{form}} ({mean.low:{form}} to {mean.high:{form}})"
