"""Laws of integrity: findings withhold verdicts, and strangers cannot make them do so."""

import polars as pl

from affine_dagster.integrity.coverage import breaker_open, coverage_findings, fault_findings, fresh_gap_findings
from affine_dagster.integrity.owners import owner_findings
from affine_dagster.settings import EvaluationSettings
from affine_dagster.tables import REWARDS, SUBMISSIONS, SWAPS

SETTINGS = EvaluationSettings()


def _rewards(rows: list[tuple[str, int, float | None, str | None, str | None]]) -> pl.DataFrame:
    return REWARDS.frame(
        {
            "epoch": 1, "environment": "e", "environment_version": "1", "purpose": "contest", "task_epoch": 1, "index": index,
            "seed": index, "weights_digest": digest, "reward": reward, "fault": fault, "reason": reason, "completion_tokens": 1,
        }
        for digest, index, reward, fault, reason in rows
    )  # fmt: skip


def _failing(digests: str, fault: str, reason: str) -> pl.DataFrame:
    reward = 0.0 if fault == "model" else None
    return _rewards([(digest, index, reward, fault, reason) for digest in digests for index in range(4)])


def _submissions(pairs: list[tuple[str, str | None]]) -> pl.DataFrame:
    return SUBMISSIONS.frame(
        {
            "epoch": 0, "submission_id": f"s{n}", "hotkey": hotkey, "coldkey": coldkey, "uid": None, "block": n, "extrinsic_index": 0,
            "repo": None, "revision": None, "state": "submitted", "reason": "submitted", "detail": None, "raw": None,
        }
        for n, (hotkey, coldkey) in enumerate(pairs)
    )  # fmt: skip


def test_many_models_failing_alike_for_the_platform_open_the_breaker() -> None:
    findings = fault_findings(1, _failing("abc", "platform", "worker_lost"), set(), SETTINGS)
    assert breaker_open(findings)


def test_two_failing_models_do_not_open_it() -> None:
    assert not breaker_open(fault_findings(1, _failing("ab", "platform", "worker_lost"), set(), SETTINGS))


def test_a_minority_of_failing_models_does_not_open_it() -> None:
    good = _rewards([(digest, index, 1.0, None, None) for digest in "defghij" for index in range(4)])
    findings = fault_findings(1, pl.concat([_failing("abc", "platform", "worker_lost"), good]), set(), SETTINGS)
    assert not breaker_open(findings)


def test_strangers_with_broken_models_cannot_open_it() -> None:
    """A griefer who submits many models that do not load stops nobody's verdicts."""
    assert not breaker_open(fault_findings(1, _failing("abcdefgh", "model", "not_loadable"), {"z"}, SETTINGS))


def test_strangers_who_alone_cannot_be_loaded_here_cannot_open_it() -> None:
    """What strangers miss is not held against them anyway; it must not stop the others."""
    good = _rewards([("z", index, 1.0, None, None) for index in range(4)])
    rewards = pl.concat([_failing("abcdefgh", "evaluator", "unloadable_here"), good])
    assert not breaker_open(fault_findings(1, rewards, {"z"}, SETTINGS))
    assert breaker_open(fault_findings(1, rewards, {"a", "z"}, SETTINGS))


def test_an_incumbent_failing_with_them_shows_that_it_is_the_platform() -> None:
    assert breaker_open(fault_findings(1, _failing("abc", "model", "not_loadable"), {"a"}, SETTINGS))


def test_coverage_below_the_floor_is_a_finding_with_its_share() -> None:
    rows = [("a", index, None if index < 3 else 1.0, "platform" if index < 3 else None, None) for index in range(10)]
    finding = coverage_findings(1, _rewards(rows), SETTINGS).row(0, named=True)
    assert (finding["ok"], finding["value"], finding["reason"]) == (False, 0.7, "low_coverage")


def test_the_fresh_gap_is_the_difference_of_means() -> None:
    fresh = _rewards([("a", 0, 0.0, None, None), ("a", 1, 1.0, None, None)])
    old = _rewards([("a", 0, 1.0, None, None)])
    assert fresh_gap_findings(1, fresh, old)["value"].to_list() == [-0.5]


def test_no_rows_are_no_findings() -> None:
    empty = REWARDS.empty()
    assert coverage_findings(1, empty, SETTINGS).is_empty()
    assert fault_findings(1, empty, set(), SETTINGS).is_empty()
    assert fresh_gap_findings(1, empty, empty).is_empty()


def test_an_owner_of_one_hotkey_is_no_finding() -> None:
    findings = owner_findings(0, _submissions([("h1", "c1"), ("h2", "c1"), ("h3", "c3")]), SWAPS.empty())
    assert findings.select("subject", "value").rows() == [("h1", 2.0)]
