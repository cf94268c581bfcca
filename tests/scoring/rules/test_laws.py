"""What holds for every earlier rule, whatever its defects: shares, order of rows, state, names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.scoring.histogram import MISSING
from affine_dagster.scoring.rule import EpochInputs
from affine_dagster.scoring.rules.champion_challenger import ChampionChallenger
from affine_dagster.scoring.rules.checkpoints import Checkpoints
from affine_dagster.scoring.rules.elo_ladder import EloLadder
from affine_dagster.scoring.rules.four_stage import FourStage
from affine_dagster.scoring.rules.matrix import Entrant, TaskMatrix
from affine_dagster.scoring.rules.protocol import NOT_DECIDABLE, Round
from affine_dagster.scoring.rules.ranks import DenseRank, Supermajority
from affine_dagster.scoring.rules.subset_winners import SubsetWinners
from affine_dagster.tables import PLAN, REWARDS

RULES: list[Any] = [
    DenseRank(), Supermajority(), SubsetWinners(least=3), SubsetWinners(least=3, as_deployed=False), FourStage(), EloLadder(),
    Checkpoints(), ChampionChallenger(), ChampionChallenger(shared_by=5),
]
NAMES = ["ada", "bob", "cy", "dan", "eve"]


def nothing_but(epoch: int, registered: list[str]) -> EpochInputs:
    return EpochInputs(epoch, epoch, PLAN.empty(), REWARDS.empty(), REWARDS.empty(), {}, registered, "burn")



@st.composite
def seasons(draw: st.DrawFn) -> list[Round]:
    """Some rounds of the same environments; entrants come, go, change their weights, and miss tasks or environments."""
    width = draw(st.integers(1, 3))
    uids = draw(st.permutations(range(len(NAMES))))
    blocks = draw(st.lists(st.integers(0, 3), min_size=len(NAMES), max_size=len(NAMES)))
    made = []
    for epoch in range(draw(st.integers(1, 4))):
        names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=len(NAMES)))
        entrants = [
            Entrant(name, f"{name} {draw(st.integers(0, 1))}", blocks[NAMES.index(name)], uids[NAMES.index(name)]) for name in names
        ]
        entrants.sort(key=lambda one: one.position)
        dice = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        kinds = [MISSING, 0, 500, 1000] if draw(st.booleans()) else [0, 1000]
        steps = dice.choice(kinds, size=(len(names), width, 12)).astype(np.int32)
        matrix = TaskMatrix(tuple(f"e{at}" for at in range(width)), tuple(entrants), steps)
        registered = [name for name in NAMES if draw(st.booleans()) or name in names]
        made.append(Round.of_matrix(nothing_but(epoch, registered), matrix, "sink", draw(st.sampled_from([2, 5, 10]))))
    return made


def fold(rule: Any, season: list[Round]) -> list[Any]:
    state, found = rule.begin(), []
    for one in season:
        found.append(rule.advance(state, one))
        state = found[-1].state
    return found


def each_rule(test: Callable[..., None]) -> Any:
    return pytest.mark.parametrize("rule", RULES, ids=lambda one: f"{one.name}{RULES.index(one)}")(test)


@each_rule
@given(season=seasons())
def test_shares_are_shares_and_sum_to_1_or_to_0(rule: Any, season: list[Round]) -> None:
    for ruling in fold(rule, season):
        paid = [one.share for one in ruling.placings]
        assert all(0 <= share <= 1 for share in paid)
        assert sum(paid) == pytest.approx(1.0) or sum(paid) == 0


@each_rule
@given(season=seasons())
def test_everybody_who_took_part_is_placed_once_with_a_reason(rule: Any, season: list[Round]) -> None:
    for ruling, one in zip(fold(rule, season), season, strict=True):
        placed = [entrant.hotkey for entrant in ruling.placings if entrant.hotkey != "sink"]
        assert placed == [entrant.hotkey for entrant in one.matrix.entrants]
        assert all(entrant.reason and 0 <= entrant.coverage <= 1 for entrant in ruling.placings)
        assert all((entrant.coverage < 1) == (entrant.reason == NOT_DECIDABLE) for entrant in ruling.placings)


@each_rule
@given(season=seasons())
def test_a_round_changes_nothing_but_what_it_returns(rule: Any, season: list[Round]) -> None:
    assert fold(rule, season) == fold(rule, season)


@each_rule
@given(season=seasons(), data=st.data())
def test_names_and_the_order_of_tasks_decide_nothing(rule: Any, season: list[Round], data: st.DataObject) -> None:
    """Other hotkeys, digests and columns, the same shares."""
    order = data.draw(st.permutations(range(12)))
    renamed = [
        Round.of_matrix(nothing_but(one.inputs.epoch, [f"x{name}" for name in one.registered]), replace(
            one.matrix, steps=one.matrix.steps[:, :, order],
            entrants=tuple(replace(who, hotkey=f"x{who.hotkey}", weights_digest=f"y{who.weights_digest}") for who in one.matrix.entrants),
        ), one.sink, one.sampling_count) for one in season
    ]
    for plain, other in zip(fold(rule, season), fold(rule, renamed), strict=True):
        assert [one.share for one in plain.placings] == [one.share for one in other.placings]
        assert [f"x{name}" for name in plain.terminated] == list(other.terminated)


@each_rule
@given(season=seasons())
def test_whoever_is_terminated_is_never_paid_again_for_those_weights(rule: Any, season: list[Round]) -> None:
    out: set[tuple[str, str]] = set()
    for ruling, one in zip(fold(rule, season), season, strict=True):
        weights = {who.hotkey: who.weights_digest for who in one.matrix.entrants}
        assert not [who for who in ruling.placings if who.share and (who.hotkey, who.weights_digest) in out]
        out |= {(name, weights[name]) for name in ruling.terminated}


def test_shares_are_the_same_bytes_in_another_process_with_another_hash_seed() -> None:
    program = (
        "import json, numpy as np\n"
        "from test_laws import RULES, Entrant, Round, TaskMatrix, fold, nothing_but\n"
        "dice = np.random.default_rng(7)\n"
        "who = tuple(Entrant(f'h{at}', f'w{at}', at, at) for at in range(12))\n"
        "season = [Round.of_matrix(nothing_but(epoch, [one.hotkey for one in who]), TaskMatrix(('a', 'b', 'c'), who,"
        " (1000 * (dice.random((12, 3, 400)) < .5)).astype('int32')), 'h0', 100) for epoch in range(5)]\n"
        "print(json.dumps([[one.share.hex() for one in ruling.placings] for rule in RULES for ruling in fold(rule, season)]))\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path.cwd())])
    found = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": threads, "PYTHONPATH": paths},
        ).stdout
        for seed, threads in (("1", "1"), ("2", "2"))
    }
    assert len(found) == 1
    assert len(json.loads(found.pop())) == 5 * len(RULES)
