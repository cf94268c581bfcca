"""The law: the same ledger gives byte-identical tables on a second run and in another process with another hash seed and thread count."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from comparing import store_differences, table_files
from tiny_worlds import TinyWorld

pytestmark = pytest.mark.models

SCRIPT = Path(__file__).parent / "support" / "rescoring.py"
ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("hash_seed", "threads"), [("1", "1"), ("2", "4")])
def test_the_same_ledger_gives_the_same_bytes_in_another_process(
    tiny_world: TinyWorld, tmp_path: Path, hash_seed: str, threads: str
) -> None:
    settings = tiny_world.world.settings_path
    conditions = {"PYTHONHASHSEED": hash_seed, "POLARS_MAX_THREADS": threads, "OMP_NUM_THREADS": threads, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, SCRIPT, settings, tmp_path / "store"], env={**os.environ, **conditions}, check=True)
    assert any("/weights/" in name for name in table_files(tmp_path / "store"))
    assert store_differences(Path(tiny_world.world.settings().store.url), tmp_path / "store") == []
