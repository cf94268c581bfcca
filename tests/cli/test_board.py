"""The table in a terminal: nothing of it is cut, however many environments and however narrow the terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from affine_dagster.cli.board import print_board, wide_console
from affine_dagster.leaderboard.snapshot import EnvironmentScore, LeaderboardModel, LeaderboardSnapshot, WeightShare

ENVIRONMENTS = tuple(f"an_environment_{number}" for number in range(7))
REASON = "a_reason_of_several_words_that_an_operator_must_be_able_to_read"


def _snapshot() -> LeaderboardSnapshot:
    scores = tuple(EnvironmentScore(name, 1000 + at, 0.5, 0.4, 0.6, 1) for at, name in enumerate(ENVIRONMENTS))
    model = LeaderboardModel(
        submission_id="s1", hotkey="h", repo="someone/a-model", revision="r", block=1, extrinsic_index=0, weights_digest="w", genesis=False,
        state="futile", reason=REASON, fault=None, detail=None, next_step="", peer=None, credit=0.25, weight=6553, first_epoch=0,
        since_epoch=1, mean=0.5, scores=scores,
    )
    burned = WeightShare("5burn", 58982, True, "burn")
    return LeaderboardSnapshot(1, 1, 199, "scorer", "rule", ENVIRONMENTS, (model,), (burned,))


def _printed(width: int | None) -> str:
    out = StringIO()
    print_board(_snapshot(), wide_console(out) if width is None else Console(file=out, width=width))
    return out.getvalue()


def test_output_that_is_no_terminal_has_all_in_one_table() -> None:
    printed = _printed(None)
    row = next(line for line in printed.splitlines() if "someone/a-model" in line)
    assert REASON.replace("_", " ") in row
    assert "10.0%" in row
    assert printed.count("someone/a-model") == 1


@pytest.mark.parametrize("width", [90, 130])
def test_a_narrow_terminal_gets_several_tables_and_nothing_is_cut(width: int) -> None:
    printed = _printed(width)
    assert printed.count("someone/a-model") > 1
    assert max(len(line) for line in printed.splitlines() if not line.startswith("score: ")) <= width
    assert "…" not in printed
    assert all(f"n {1000 + at}" in printed for at in range(len(ENVIRONMENTS)))
    assert REASON.replace("_", " ") in printed


def test_a_wide_terminal_has_all_in_one_table() -> None:
    assert _printed(400).count("someone/a-model") == 1
