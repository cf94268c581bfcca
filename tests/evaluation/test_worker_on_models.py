"""The whole path on real weights: worker processes, the transformers engine, ``kill -9``, the same ledger.

The models are tiny random Llamas: what they answer is noise, but it is the same noise on every run.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from checkpoints import write_checkpoint
from evaluation_parts import EPOCH, World, make_world, planned

from affine_dagster.checkpoint.identity import identity
from affine_dagster.environments.registry import environments
from affine_dagster.evaluation.events import JobEvent
from affine_dagster.evaluation.jobs import LocalProcesses
from affine_dagster.evaluation.run import evaluate

pytestmark = pytest.mark.models

NAMES = ("chain_sum", "bit_count")
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 32, "tie_word_embeddings": True, "max_position_embeddings": 256,
}


def world_of(root: Path, **evaluation: Any) -> World:
    made = make_world(root, batch_tasks=5, **evaluation)
    made.environments = {family.name: family for family in environments(NAMES)}
    made.freeze_tasks()
    return made


def model_of(world: World, name: str, seed: int) -> dict[str, Any]:
    folder = write_checkpoint(world.root / "made" / name, seed=seed, config=CONFIG)
    revision = world.hub.publish(f"miner/{name}", folder)
    return {
        "weights_digest": identity(folder).weights_digest, "submission_id": f"s{name}", "hotkey": f"hot-{name}",
        "repo": f"miner/{name}", "revision": revision, "block": 1, "extrinsic_index": seed, "genesis": False,
    }


def filled(root: Path) -> World:
    world = world_of(root)
    base, new = model_of(world, "base", 1), model_of(world, "new", 2)
    world.plan(planned(base, tasks=20), planned(new, "challenger", tasks=20, opponents=[base["weights_digest"]]))
    return world


def children() -> list[int]:
    return [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


class Killed(Exception):  # noqa: N818 - what happened to the run
    pass


def test_killed_at_a_random_point_and_begun_again_the_ledger_is_the_same(tmp_path: Path) -> None:
    undisturbed, killed = filled(tmp_path / "undisturbed"), filled(tmp_path / "killed")
    whole = undisturbed.settings
    evaluate(undisturbed.tables, undisturbed.ledger, whole, EPOCH, NAMES, LocalProcesses(whole), lambda event: None)
    left = random.Random(5).randint(4, 16)
    seen: list[JobEvent] = []

    def strike(event: JobEvent) -> None:
        seen.append(event)
        if len(seen) == left:
            for pid in children():
                os.kill(pid, signal.SIGKILL)
            raise Killed

    with pytest.raises(Killed):
        evaluate(killed.tables, killed.ledger, killed.settings, EPOCH, NAMES, LocalProcesses(killed.settings), strike)
    assert 0 < killed.ledger.rewards(EPOCH).height < 80
    summary = evaluate(killed.tables, killed.ledger, killed.settings, EPOCH, NAMES, LocalProcesses(killed.settings), lambda e: None)
    assert [outcome.reason for outcome in summary.outcomes] == [None, None]
    assert killed.rows().equals(undisturbed.rows())
    assert killed.ledger.rewards(EPOCH).equals(undisturbed.ledger.rewards(EPOCH))
    assert killed.ledger.rewards(EPOCH).height == 80
    assert killed.ledger.rollouts(EPOCH)["loaded_weights_digest"].n_unique() == 2


def test_the_wrong_folder_is_found_out_by_what_the_engine_read(tmp_path: Path) -> None:
    """Case V10, through a worker process: nothing is written, the outcome names the fault."""
    world = world_of(tmp_path, attempts=1)
    right, wrong = model_of(world, "right", 1), model_of(world, "wrong", 2)
    world.plan(planned(right | {"repo": wrong["repo"], "revision": wrong["revision"]}, tasks=5))
    summary = evaluate(world.tables, world.ledger, world.settings, EPOCH, NAMES, LocalProcesses(world.settings), lambda event: None)
    assert [outcome.reason for outcome in summary.outcomes] == ["wrong_weights"]
    assert world.ledger.batches(EPOCH) == []


def test_a_broken_model_is_data(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    model = model_of(world, "broken", 1)
    folder = write_checkpoint(tmp_path / "other", seed=1, config=CONFIG | {"num_hidden_layers": 3})
    (folder / "config.json").write_text((world.root / "made" / "broken" / "config.json").read_text())
    revision = world.hub.publish("miner/broken", folder)
    world.plan(planned(model | {"revision": revision}, tasks=20))
    summary = evaluate(world.tables, world.ledger, world.settings, EPOCH, NAMES, LocalProcesses(world.settings), lambda event: None)
    assert [outcome.reason for outcome in summary.outcomes] == [None]
    rewards = world.ledger.rewards(EPOCH)
    assert set(rewards.select("reward", "fault", "reason").rows()) == {(0.0, "model", "not_loadable")}
    assert rewards.height == 10
