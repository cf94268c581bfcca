"""Leagues from beginning to end, on either engine. What must not go in: what an epoch does (``leagues.py``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np

from affine_dagster.league.simulation.draws import Array
from affine_dagster.league.simulation.leagues import next_epoch
from affine_dagster.league.simulation.state import League, Rules, begin
from affine_dagster.league.simulation.tables import PairCoins, bounds_of, simulation_settings
from affine_dagster.settings import Settings

__all__ = ["BATCH", "Engine", "player", "simulated"]

Engine = Literal["numpy", "jax"]

BATCH = 128
"""Leagues that are played at once: what they need fits into a processor's cache."""

Player = Callable[[int, "np.ndarray[Any, Any]"], League]


def simulated(
    leagues: int, epochs: int, seed: int, engine: Engine, settings: Settings | None = None, batch: int = BATCH, workers: int = 2
) -> Iterator[League]:
    """The final states of leagues 0 to ``leagues`` - 1, a batch at a time, as NumPy arrays; the last axis is the league.

    ``workers``: threads that play a batch each; no figure depends on them, nor on the size of a batch.
    """
    play = player(engine, epochs, settings or simulation_settings())
    numbers = [np.arange(start, start + batch, dtype=np.uint32) for start in range(0, leagues, batch)]
    made = play(seed, numbers[0])  # alone: a compiler is at work, for this size, which the last batch has too
    yield _cut(made, leagues)
    with ThreadPoolExecutor(workers) as pool:
        for first, state in zip(numbers[1:], pool.map(partial(play, seed), numbers[1:]), strict=True):
            yield _cut(state, leagues - int(first[0]))


def _cut(state: League, leagues: int) -> League:
    return League(*(one[..., :leagues] for one in state))


@lru_cache(maxsize=8)
def player(engine: Engine, epochs: int, settings: Settings) -> Player:
    """A function from a seed and the numbers of some leagues to their states after the last epoch; JAX compiles it on its first use."""
    coins, bounds = PairCoins.standard(), bounds_of(settings)
    if engine == "numpy":
        return partial(_played, Rules.of(settings, coins, bounds, np), epochs)
    return _compiled(settings, coins, bounds, epochs)


def _played(rules: Rules, epochs: int, seed: int, numbers: Array) -> League:
    state = begin(rules, numbers.size)
    with np.errstate(over="ignore"):  # words wrap around, and an e-value may be past all numbers
        for epoch in range(epochs):
            state = next_epoch(rules, state, np.int32(epoch), (np.uint32(seed), numbers))
    return state


def _compiled(settings: Settings, coins: PairCoins, bounds: Any, epochs: int) -> Player:
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        rules = Rules.of(settings, coins, bounds, jnp, jax.lax.optimization_barrier)

        @jax.jit
        def all_epochs(seed: Array, numbers: Array) -> League:
            def step(state: League, epoch: Array) -> tuple[League, None]:
                return next_epoch(rules, state, epoch, (seed, numbers)), None

            return jax.lax.scan(step, begin(rules, numbers.size), jnp.arange(epochs, dtype=jnp.int32))[0]

    def play(seed: int, numbers: Array) -> League:
        with jax.enable_x64(True):
            return League(*(np.asarray(one) for one in all_epochs(jnp.uint32(seed), jnp.asarray(numbers))))

    return play
