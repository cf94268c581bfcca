"""The leaderboard as a table in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from affine_dagster.leaderboard.snapshot import EnvironmentScore, LeaderboardModel, LeaderboardSnapshot

__all__ = ["print_board"]

FULL_WIDTH = 150
"""Characters that four environments and the verdict need side by side."""

_COLOURS = {"accepted": "green", "genesis": "blue", "copy": "red", "rejected": "red", "regressed": "yellow", "futile": "yellow"}


def print_board(snapshot: LeaderboardSnapshot, console: Console | None = None) -> None:
    """Print a snapshot: models, per-environment score with interval and n, state, reason, credit, weight.

    A terminal that is too narrow for one table gets two, so that nothing is cut; output that is no terminal is as wide as it needs.
    """
    console = console or Console()
    if not console.is_terminal:
        console = Console(file=console.file, width=FULL_WIDTH)
    scores = [_Column(name.replace("_", " "), right=True) for name in snapshot.environments]
    verdict = [_Column("state"), _Column("reason"), _Column("credit", right=True), _Column("weight", right=True)]
    names = {model.submission_id: model.repo or model.submission_id for model in snapshot.models}
    title = f"Epoch {snapshot.epoch} (block {snapshot.boundary_block}, rule {snapshot.rule}, scorer {snapshot.scorer})"
    if console.width >= FULL_WIDTH:
        rows = [(model, [*_scores(model), *_verdict(model, names)]) for model in snapshot.models]
        console.print(_table(title, [*scores, *verdict], rows))
    else:
        console.print(_table(title, scores, [(model, _scores(model)) for model in snapshot.models]))
        console.print(_table("", verdict, [(model, _verdict(model, names)) for model in snapshot.models]))
    for share in snapshot.weights:
        if share.burn and share.weight:
            console.print(f"burned: {share.weight / 65535:.1%} to {share.hotkey} ({share.reason})")
    console.print(LEGEND, markup=False)


LEGEND = "score: mean reward, its confidence sequence and n tasks (a copy shows its origin's); weight: share of the vector"


@dataclass(frozen=True)
class _Column:
    name: str
    right: bool = False


def _table(title: str, columns: Sequence[_Column], rows: Sequence[tuple[LeaderboardModel, Sequence[str]]]) -> Table:
    table = Table(title=title or None, box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for column in columns:
        table.add_column(column.name, justify="right" if column.right else "left", no_wrap=column.right)
    for model, cells in rows:
        table.add_row(model.repo or model.submission_id, *cells)
    return table


def _scores(model: LeaderboardModel) -> list[str]:
    return [_score(entry) for entry in model.scores]


def _verdict(model: LeaderboardModel, names: Mapping[str, str]) -> list[str]:
    colour = _COLOURS.get(model.state)
    state = f"[{colour}]{model.state}[/{colour}]" if colour else model.state
    credit = "" if model.credit is None else f"{model.credit:.4f}"
    weight = "" if model.weight is None else f"{model.weight / 65535:.1%}"
    return [state, _why(model, names), credit, weight]


def _why(model: LeaderboardModel, names: Mapping[str, str]) -> str:
    """The reason, and of whom, by whom or against whom it was, under the name that the table shows."""
    words = {"copy": "of", "accepted": "by", "genesis": "by", "futile": "against", "regressed": "against", "expired": "against"}
    text = model.reason.replace("_", " ")
    if model.state == "regressed" and model.detail:
        text += f" in {model.detail}"
    if model.peer is None or model.state not in words:
        return text
    return f"{text} {words[model.state]} {names.get(model.peer, model.peer)}"


def _score(score: EnvironmentScore) -> str:
    if score.mean is None or score.lower is None or score.upper is None:
        return "-"
    return f"{score.mean:.2f} ({score.lower:.2f}–{score.upper:.2f})\nn {score.n}"
