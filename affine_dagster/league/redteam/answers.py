"""What simulated models answer: latent skill an environment, noise that is shared between models, tasks whose difficulty drifts.

Every draw has its own key (seed, model, purpose, epoch), so that the presence of one miner changes nothing that another one draws: two
markets that differ in one miner can be compared submission by submission. What must not go in: who submits what.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

__all__ = ["SHARED", "Answers", "Floats", "Latent"]

Floats = npt.NDArray[np.float64]

SHARED = 0.588
"""Part of the latent variance that lies in the task: two models of skill .5 then differ on .3 of the tasks, the discordance that is
planned with (1/2 - arcsin(SHARED)/pi = .3)."""

NEAR = 0.995
"""Part of its parent's own noise that a laundered copy keeps."""

DRIFT = 0.05
"""Standard deviation of one epoch's step of an environment's difficulty, in latent units; about .02 of reward."""

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Latent:
    """A model. ``skill``: the chance of a right answer, an environment, in (0, 1), at the first epoch's difficulty.

    ``near``: the name of the model whose noise it keeps nearly all of. ``remembers_before``: tasks of earlier epochs than this one it
    has by heart. ``hides``: it makes its wrong answers look as if the platform had lost them.
    """

    name: str
    skill: tuple[float, ...]
    near: str | None = None
    remembers_before: int = 0
    hides: bool = False


@dataclass
class Answers:
    """Draws the rewards of models in one market. ``tasks``: the most that are ever drawn at once, an environment."""

    seed: int
    environments: int
    tasks: int
    _kept: dict[tuple[str, str, int], Floats] = field(default_factory=dict)
    _difficulty: dict[int, Floats] = field(default_factory=dict)

    def rewards(self, model: Latent, purpose: str, task_epoch: int) -> Floats:
        """Rewards 0 or 1 of shape (environments, tasks); NaN is a result that was lost. The same call gives the same bytes."""
        own = self._noise(model.name, purpose, task_epoch)
        if model.near is not None:
            own = np.sqrt(NEAR) * self._noise(model.near, purpose, task_epoch) + np.sqrt(1 - NEAR) * own
        latent = np.sqrt(SHARED) * self._noise("", purpose, task_epoch) + np.sqrt(1 - SHARED) * own
        limit = np.array([_NORMAL.inv_cdf(one) for one in model.skill]) - self._drift(task_epoch)
        right = latent < limit[:, None]
        if task_epoch < model.remembers_before:
            right[:] = True
        wrong = np.nan if model.hides else 0.0
        return np.where(right, 1.0, wrong)

    def _noise(self, name: str, purpose: str, epoch: int) -> Floats:
        key = (name, purpose, epoch)
        if key not in self._kept:
            self._kept[key] = _dice(self.seed, *map(str, key)).standard_normal((self.environments, self.tasks))
        return self._kept[key]

    def _drift(self, epoch: int) -> Floats:
        """How much harder an epoch's tasks are than the first one's: a random walk."""
        if epoch not in self._difficulty:
            steps = [_dice(self.seed, "difficulty", str(at)).normal(0, DRIFT, self.environments) for at in range(1, epoch + 1)]
            self._difficulty[epoch] = np.sum(steps, axis=0) if steps else np.zeros(self.environments)
        return self._difficulty[epoch]


def _dice(seed: int, *words: str) -> np.random.Generator:
    digest = hashlib.blake2b("|".join((str(seed), *words)).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "big")))
