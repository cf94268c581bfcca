"""How often a contest is won, and after how many tasks, by true gain: many pairs at once, looked at again and again.

The same code for NumPy and JAX, as in ``leagues.py``. What must not go in: leagues, and what is a good power.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from affine_dagster.league.simulation.contests import seen_in
from affine_dagster.league.simulation.draws import Array, Coins, binomial_probabilities, choose, threefry
from affine_dagster.league.simulation.run import Engine
from affine_dagster.league.simulation.tables import log_factors
from affine_dagster.scoring.contest import ContestRule

__all__ = ["BATCH", "EXPIRED", "LOST", "WON", "Ends", "Trial", "ends_of"]

RUNNING, WON, LOST, EXPIRED = range(4)

BATCH = 4096
"""Pairs that run at once."""

_LONGEST_LOOK = 127


@dataclass(frozen=True)
class Trial:
    """A contest as it is run.

    ``look``: tasks between two looks, at most 127; ``discordance``: the true one; ``gains``: of each environment, in reward, at most the
    discordance.
    """

    rule: ContestRule
    look: int
    discordance: float
    gains: tuple[float, ...]


@dataclass(frozen=True)
class Ends:
    """How pairs ended: ``states`` (one of WON, LOST, EXPIRED) and ``tasks`` an environment, a pair an entry."""

    states: npt.NDArray[np.int32]
    tasks: npt.NDArray[np.int32]

    @property
    def won(self) -> int:
        """How many were won."""
        return int((self.states == WON).sum())


class _Pairs(NamedTuple):
    """``wins``, ``losses`` of shape (environments, pairs); ``states``, ``tasks`` (pairs,)."""

    wins: Array
    losses: Array
    states: Array
    tasks: Array


@dataclass(frozen=True)
class _Desk:
    """What a run of one trial looks up, for one engine."""

    engine: Any
    factors: tuple[Array, ...]
    apart: Array
    ahead: Array
    row: Array
    look: int
    win: Array
    not_worse: float
    futile: float
    limit: int


def ends_of(trial: Trial, pairs: int, seed: int, engine: Engine = "jax") -> Ends:
    """Run so many independent pairs to their end. Pair i draws the same whatever their number and the engine."""
    play = _player(trial, engine)
    made = [play(seed, np.arange(start, start + BATCH, dtype=np.uint32)) for start in range(0, pairs, BATCH)]
    return Ends(np.concatenate([one.states for one in made])[:pairs], np.concatenate([one.tasks for one in made])[:pairs])


@lru_cache(maxsize=64)
def _player(trial: Trial, engine: Engine) -> Callable[[int, Array], _Pairs]:
    if engine == "numpy":
        return partial(_run, _desk(trial, np), _loop)
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        run = jax.jit(partial(_run, _desk(trial, jnp), jax.lax.while_loop))

    def play(seed: int, numbers: Array) -> _Pairs:
        with jax.enable_x64(True):
            return _Pairs(*(np.asarray(one) for one in run(jnp.uint32(seed), jnp.asarray(numbers))))

    return play


def _desk(trial: Trial, engine: Any) -> _Desk:
    if not 1 <= trial.look <= _LONGEST_LOOK:
        raise ValueError(f"a look has 1 to {_LONGEST_LOOK} tasks: {trial.look}")
    rule, counts = trial.rule, range(trial.look + 1)
    chances = [(1 + gain / trial.discordance) / 2 for gain in trial.gains]
    ahead = binomial_probabilities([count for _ in chances for count in counts], [one for one in chances for _ in counts])
    return _Desk(
        engine=engine, factors=tuple(engine.asarray(kind) for kind in log_factors(rule.stakes)),
        apart=engine.asarray(Coins.of(binomial_probabilities([trial.look], [trial.discordance])).cells),
        ahead=engine.asarray(Coins.of(ahead).cells), row=engine.asarray(np.arange(len(chances), dtype=np.int32)[:, None] * len(counts)),
        look=trial.look, win=engine.float64(1 / rule.alpha), not_worse=1 / rule.alpha_not_worse, futile=rule.futile_at,
        limit=math.ceil(rule.task_limit / trial.look),
    )


def _run(desk: _Desk, loop: Callable[..., Any], seed: int, numbers: Array) -> _Pairs:
    xp = desk.engine
    shape = (desk.row.shape[0], numbers.shape[0])
    zeros = xp.zeros(shape, dtype=xp.int32)
    begun = _Pairs(zeros, zeros, zeros[0], zeros[0])
    with np.errstate(over="ignore"):
        _, ended = loop(partial(_goes_on, desk), partial(_look, desk, (xp.uint32(seed), numbers)), (xp.int32(0), begun))
    made: _Pairs = ended
    return made


def _loop(goes_on: Callable[[Any], Any], look: Callable[[Any], Any], state: Any) -> Any:
    while goes_on(state):
        state = look(state)
    return state


def _goes_on(desk: _Desk, state: tuple[Array, _Pairs]) -> Array:
    return (state[0] < desk.limit) & (state[1].states == RUNNING).any()


def _look(desk: _Desk, key: tuple[Array, Array], state: tuple[Array, _Pairs]) -> tuple[Array, _Pairs]:
    """One look more at every pair; those that have ended stay as they were."""
    xp, (number, pairs) = desk.engine, state
    place = xp.arange(pairs.wins.shape[0], dtype=xp.uint32)[:, None]
    first, second = threefry(xp, key, (number.astype(xp.uint32), place))
    apart = choose(xp, desk.apart, xp.zeros_like(pairs.wins), first)
    ahead = choose(xp, desk.ahead, (desk.row + apart).astype(xp.int32), second)
    wins, losses, tasks = pairs.wins + ahead, pairs.losses + apart - ahead, (number + 1) * desk.look
    seen = seen_in(xp, desk.factors, wins, tasks - wins - losses, losses, axis=0)
    lost = seen.loses(desk.not_worse, desk.futile)
    over = xp.where(number + 1 >= desk.limit, EXPIRED, RUNNING)
    now = xp.where(seen.wins(desk.win, desk.not_worse), WON, xp.where(lost, LOST, over))
    running = pairs.states == RUNNING
    states, spent = xp.where(running, now, pairs.states), xp.where(running, tasks, pairs.tasks)
    return number + xp.int32(1), _Pairs(wins, losses, states.astype(xp.int32), spent.astype(xp.int32))
