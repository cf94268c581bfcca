"""Making a league: real training, the cache, killed makers, and skills that are what they are said to be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from affine_dagster.checkpoint.identity import identity
from affine_dagster.league.jobs import Job
from affine_dagster.league.make import League, _done, _Worker, league_key, make_league
from affine_dagster.league.recipes import DEMO, TINY, Lesson
from affine_dagster.reasons import AffineError

pytestmark = pytest.mark.models

MAKER = textwrap.dedent("""
    import sys
    from pathlib import Path
    from affine_dagster.league.make import make_league
    from affine_dagster.league.recipes import TINY
    make_league(Path(sys.argv[1]), TINY, lambda text: print(text, flush=True))
    print("ready", flush=True)
""")


def _maker(cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", MAKER, str(cache)], stdout=subprocess.PIPE, text=True)


def _content(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def _digests(league: League) -> dict[str, str]:
    return {name: identity(path).weights_digest for name, path in league.models.items() if name not in league.broken}


def _workers_of(cache: Path) -> list[int]:
    """Processes that were started on a folder under this cache."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:  # it has ended meanwhile
                continue
            if b"affine_dagster.league.worker" in command and str(cache).encode() in command:
                found.append(int(entry.name))
    return found


def test_a_second_ask_returns_the_same_bytes_and_writes_nothing(tiny: League) -> None:
    before = _content(tiny.folder)
    again = make_league(tiny.folder.parent, TINY)
    assert again == tiny
    assert _content(tiny.folder) == before


def test_a_killed_maker_leaves_nothing_half_made_and_the_next_ones_make_the_same_models(tiny: League, tmp_path: Path) -> None:
    killed = _maker(tmp_path)
    assert killed.stdout is not None
    for line in killed.stdout:
        if line.startswith("base: step"):
            break
    workers = _workers_of(tmp_path)
    assert len(workers) == 1 + TINY.processes, "one forks the others"
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    for worker in workers:
        waited = os.pidfd_open(worker) if Path(f"/proc/{worker}").exists() else None
        if waited is not None:
            _wait_for(waited)
    assert _workers_of(tmp_path) == []
    assert not (tmp_path / league_key(TINY)).exists()

    askers = [_maker(tmp_path) for _ in range(2)]
    said = [asker.communicate(timeout=300)[0].splitlines() for asker in askers]
    assert [lines[-1] for lines in said] == ["ready", "ready"]
    assert sorted(len(lines) > 1 for lines in said) == [False, True], "two askers at once: one makes, one waits"
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [league_key(TINY)], "what the killed one left is gone"
    remade = make_league(tmp_path, TINY)
    assert _digests(remade) == _digests(tiny), "training is deterministic on one machine"
    assert remade.skills == tiny.skills


def _wait_for(process: int) -> None:
    import select

    ready, _, _ = select.select([process], [], [], 30)
    os.close(process)
    assert ready, "a worker outlives its maker"


def test_a_worker_that_is_gone_is_noticed_and_can_be_let_go() -> None:
    (orders, ordering), (answering, answers) = os.pipe(), os.pipe()
    os.close(orders)
    os.close(answers)
    worker = _Worker(os.fdopen(ordering, "wb", buffering=0), os.fdopen(answering))
    assert not _done(worker, Job("train", "base"), print)
    worker.orders.close()
    worker.answers.close()


def test_a_process_that_ends_early_is_a_typed_failure_and_leaves_nothing(tmp_path: Path) -> None:
    impossible = Lesson("spell_backward", 1, (("letters", ("99",)),))
    recipe = replace(TINY, members=(replace(TINY.members[0], lessons=(impossible,)), *TINY.members[1:]))
    with pytest.raises(AffineError, match="spell_backward has too few tasks") as caught:
        make_league(tmp_path, recipe)
    assert caught.value.code == "league_failed"
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_the_tiny_leagues_models_differ_measurably(tiny: League) -> None:
    apart = [name for name in TINY.environments if tiny.skill("strong", name).low > tiny.skill("base", name).high]
    assert "chain_sum" in apart
    assert _digests(tiny)["strong_copy"] == _digests(tiny)["strong"] != _digests(tiny)["base"]


def test_the_strong_model_is_better_than_the_base_everywhere(demo_league: League) -> None:
    for name in DEMO.environments:
        strong, base = demo_league.skill("strong", name), demo_league.skill("base", name)
        assert strong.low > base.high
        assert strong.mean - base.mean >= 0.13


def test_the_specialist_is_far_better_in_one_environment_and_no_worse_elsewhere(demo_league: League) -> None:
    gains = {name: demo_league.skill("specialist", name).mean - demo_league.skill("base", name).mean for name in DEMO.environments}
    assert gains.pop("spell_backward") >= 0.40
    assert all(abs(gain) <= 0.05 for gain in gains.values())
    assert demo_league.skill("strong", "spell_backward").mean >= demo_league.skill("specialist", "spell_backward").mean - 0.05


def test_the_independent_has_the_bases_skill_and_other_weights(demo_league: League) -> None:
    for name in DEMO.environments:
        assert abs(demo_league.skill("independent", name).mean - demo_league.skill("base", name).mean) <= 0.05, "what 400 tasks can tell"
    independent, base = (identity(demo_league.models[name]) for name in ("independent", "base"))
    assert not {tensor.blake3 for tensor in independent.tensors} & {tensor.blake3 for tensor in base.tensors}


def test_a_noisy_copy_keeps_the_skill_under_another_digest(demo_league: League) -> None:
    for name in DEMO.environments:
        assert abs(demo_league.skill("strong_noisy", name).mean - demo_league.skill("strong", name).mean) <= 0.03
    assert _digests(demo_league)["strong_noisy"] != _digests(demo_league)["strong"]


def test_copies_have_their_origins_digest_and_skill(demo_league: League) -> None:
    digests = _digests(demo_league)
    for copy in DEMO.copies:
        if copy.kind != "noisy":
            assert digests[copy.name] == digests[copy.of]
            for name in DEMO.environments:
                assert demo_league.skill(copy.name, name) == replace(demo_league.skill(copy.of, name), model=copy.name)
    assert demo_league.origins == {copy.name: copy.of for copy in DEMO.copies}


def test_the_models_are_small_llamas_with_one_template(demo_league: League) -> None:
    found = [identity(path) for name, path in demo_league.models.items() if name not in demo_league.broken]
    assert {model.architecture for model in found} == {"LlamaForCausalLM"}
    assert len({model.template_hash for model in found}) == len({model.tokenizer_signature for model in found}) == 1
    assert all(100_000 <= model.parameters <= 160_000 for model in found)


def test_skills_say_how_much_of_the_measurement_training_had_seen(demo_league: League) -> None:
    assert demo_league.skill("strong", "chain_sum").seen == pytest.approx(1.0, abs=0.01), "there are 200 sums, and all were taught"
    assert demo_league.skill("base", "number_sorting").seen < 0.5, "only pairs of numbers were taught"
    assert demo_league.skill("strong", "spell_backward").unseen_mean is not None
