"""How simulated miners play: one function a strategy, from what a miner can see to what it submits in an epoch.

Two kinds. Those with research have the same gains at the same times as an honest miner and differ in what they make of them; those
without have only what others published. What must not go in: what a submission is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from affine_dagster.league.redteam.answers import Latent

__all__ = ["RESEARCHERS", "STRATEGIES", "Offer", "Scene", "Skill", "Strategy", "best_skill"]

Skill = tuple[float, ...]


@dataclass(frozen=True)
class Offer:
    """A submission: a hotkey commits a model. Weights are the same exactly where ``model.name`` is."""

    hotkey: str
    coldkey: str
    model: Latent


@dataclass(frozen=True)
class Scene:
    """What a miner sees when it submits. ``epoch`` counts from 0.

    ``best``: the models that are to be beaten now, the newest last. ``offered``: what others have committed in this epoch before it.
    ``gain``: what its research found last, an environment (all 0 before it found anything), ``since`` how many epochs ago, and ``start``
    the best skill of that time, which it was found on. ``seat``: the miner's own name.
    """

    seat: str
    epoch: int
    best: Sequence[Latent]
    offered: Sequence[Offer]
    gain: Skill
    since: int
    start: Skill

    @property
    def frontier(self) -> Skill:
        """The best skill that anybody published, an environment: what a new model starts from."""
        return best_skill(self.best)

    @property
    def found(self) -> bool:
        """Whether research has just found something."""
        return any(self.gain) and self.since == 0

    def better(self, part: Callable[[int], float]) -> Skill:
        """The frontier with ``part(environment)`` of the gain."""
        return _bounded(at + part(place) * gain for place, (at, gain) in enumerate(zip(self.frontier, self.gain, strict=True)))

    def offer(self, name: str, skill: Skill, hand: int = 0) -> Offer:
        """A model of its own under its ``hand``-th hotkey; every hand has a coldkey of its own, so nothing on chain ties them."""
        return self.copy(self.model(name, skill), hand)

    def model(self, name: str, skill: Skill) -> Latent:
        """Weights that nobody else has."""
        return Latent(f"{self.seat}-{self.epoch}-{name}", skill)

    def copy(self, model: Latent, hand: int = 0) -> Offer:
        """Somebody's very weights under its ``hand``-th hotkey."""
        return Offer(f"{self.seat}-{hand}", f"cold-{self.seat}-{hand}", model)


Strategy = Callable[[Scene], Sequence[Offer]]


def best_skill(models: Sequence[Latent]) -> Skill:
    """The best skill of at least one model, an environment."""
    return tuple(max(column) for column in zip(*(model.skill for model in models), strict=True))


def _bounded(skill: Iterable[float]) -> Skill:
    return tuple(min(max(one, 0.02), 0.97) for one in skill)


def _shifted(skill: Skill, *shifts: float) -> Skill:
    """Each environment by its own shift, the last shift for all that are left."""
    return _bounded(one + shifts[min(place, len(shifts) - 1)] for place, one in enumerate(skill))


# --- with research ------------------------------------------------------------------------------------------------------------


def honest(scene: Scene) -> Sequence[Offer]:
    """Submits each improvement, once, as it is."""
    return [scene.offer("better", scene.better(lambda _: 1.0))] if scene.found else []


def sybil(scene: Scene) -> Sequence[Offer]:
    """Submits each improvement under four hotkeys."""
    made = honest(scene)
    return [scene.copy(made[0].model, hand) for hand in range(4)] if made else []


def splitter(scene: Scene) -> Sequence[Offer]:
    """Splits each improvement by environment over hotkeys."""
    parts = [place for place, gain in enumerate(scene.gain) if gain and scene.found]
    return [scene.offer(f"part-{place}", scene.better(partial(_alone, place)), place) for place in parts]


def _alone(place: int, at: int) -> float:
    return float(at == place)


def drip_feeder(scene: Scene) -> Sequence[Offer]:
    """Holds each improvement back and submits a third of it in each of three epochs."""
    if not any(scene.gain) or scene.since >= 3:
        return []
    part = (scene.since + 1) / 3
    step = _bounded(at + part * one for at, one in zip(scene.start, scene.gain, strict=True))
    return [scene.offer("drip", step)]


def packer(scene: Scene) -> Sequence[Offer]:
    """Submits a specialist an environment (decoys): what was found there, or a trifle, and just within not worse everywhere else."""
    if not scene.found:
        return []
    shifts = [[max(gain, 0.02) if at == place else -0.04 for at in range(len(scene.gain))] for place, gain in enumerate(scene.gain)]
    return [scene.offer(f"only-{place}", _shifted(scene.frontier, *shift), place) for place, shift in enumerate(shifts)]


def fault_inducer(scene: Scene) -> Sequence[Offer]:
    """Submits what it finds, and makes every wrong answer look as if the platform had lost it."""
    return [scene.copy(replace(scene.model("faulty", scene.better(lambda _: 1.0)), hides=True))] if scene.found else []


# --- without research ---------------------------------------------------------------------------------------------------------


def absent(scene: Scene) -> Sequence[Offer]:
    """Submits nothing: what the others have alone."""
    del scene
    return []


def copier(scene: Scene) -> Sequence[Offer]:
    """Submits the newest model that is to be beaten, byte by byte."""
    return [scene.copy(scene.best[-1])]


def launderer(scene: Scene) -> Sequence[Offer]:
    """Submits the newest model that is to be beaten with a little noise on its weights."""
    parent = scene.best[-1]
    return [scene.copy(replace(scene.model("washed", _shifted(parent.skill, -0.002)), near=parent.name))]


def front_runner(scene: Scene) -> Sequence[Offer]:
    """Submits whatever another miner has just committed, byte by byte, in the same epoch."""
    return [scene.copy(offer.model, hand) for hand, offer in enumerate(scene.offered[:2])]


def seed_retrier(scene: Scene) -> Sequence[Offer]:
    """Trains a model as good as the best of all with a new seed, twice an epoch, and hopes for luck."""
    return [scene.offer(f"again-{hand}", scene.frontier, hand) for hand in range(2)]


def overfitter(scene: Scene) -> Sequence[Offer]:
    """Learns all tasks of earlier epochs by heart, and is a little worse on new ones for it."""
    return [scene.copy(replace(scene.model("rote", _shifted(scene.frontier, -0.03)), remembers_before=scene.epoch))]


def griefer(scene: Scene) -> Sequence[Offer]:
    """Submits three models an epoch that are nearly as good as the others' in changing places, to dilute and to outnumber them."""
    shifts = ((0.015, -0.02), (-0.02, 0.015), (-0.01, -0.01, 0.015))
    return [scene.offer(f"thorn-{hand}", _shifted(scene.frontier, *shift), hand) for hand, shift in enumerate(shifts)]


RESEARCHERS: Mapping[str, Strategy] = {
    "honest": honest, "sybil": sybil, "splitter": splitter, "drip_feeder": drip_feeder, "packer": packer, "fault_inducer": fault_inducer,
}
"""Strategies that have an honest miner's research; they are held against ``honest`` in the same seat."""

STRATEGIES: Mapping[str, Strategy] = {
    **RESEARCHERS, "copier": copier, "launderer": launderer, "front_runner": front_runner, "seed_retrier": seed_retrier,
    "overfitter": overfitter, "griefer": griefer,
}
"""All strategies; those without research are held against ``absent``."""
