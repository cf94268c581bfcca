"""The tables' own laws: every old version has a way to the present one."""

from __future__ import annotations

import polars as pl
import pytest

from affine_dagster.tables import FINGERPRINTS, ROLLOUTS, TABLES


@pytest.mark.parametrize("name", TABLES)
def test_every_version_before_the_present_one_has_a_migration(name: str) -> None:
    assert set(TABLES[name].migrations) == set(range(1, TABLES[name].version))


def test_a_fingerprint_of_version_1_keeps_the_digest_that_it_was_planned_under() -> None:
    blank = dict.fromkeys(FINGERPRINTS.columns) | {"submission_id": "a", "weights_digest": "w", "tensor_set_digest": "t"}
    old = FINGERPRINTS.frame([blank]).drop("tensors_digest", "config_digest")
    row = FINGERPRINTS.migrate(old, 1).row(0, named=True)
    assert (row["weights_digest"], row["tensors_digest"], row["config_digest"]) == ("w", "w", None)


def test_a_rollout_of_version_1_keeps_its_receipt() -> None:
    blank = dict.fromkeys(ROLLOUTS.columns) | {"weights_digest": "w", "loaded_weights_digest": "l", "reward": 1.0}
    old = pl.DataFrame([blank], schema=ROLLOUTS.schema, orient="row").drop("tensors_digest", "config_digest")
    row = ROLLOUTS.migrate(old, 1).row(0, named=True)
    assert (row["loaded_weights_digest"], row["tensors_digest"], row["config_digest"], row["reward"]) == ("l", "l", None, 1.0)
