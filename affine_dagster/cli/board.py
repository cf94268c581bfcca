"""The leaderboard as a table in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from affine_dagster.leaderboard.snapshot import EnvironmentScore, LeaderboardModel, LeaderboardSnapshot

__all__ = ["print_board", "wide_console"]

_ANY_WIDTH = 10_000
"""Characters in a line of output that is no terminal: more than any table needs."""

_COLOURS = {"accepted": "green", "genesis": "blue", "copy": "red", "rejected": "red", "regressed": "yellow", "futile": "yellow"}


def print_board(snapshot: LeaderboardSnapshot, console: Console | None = None) -> None:
    """Print a snapshot: models, per-environment score with interval and n, state, reason, credit, weight.

    A console that is too narrow for one table gets several, so that nothing is cut.
    """
    console = console or wide_console()
    names = {model.submission_id: model.repo or model.submission_id for model in snapshot.models}
    title = f"Epoch {snapshot.epoch} (block {snapshot.boundary_block}, rule {snapshot.rule}, scorer {snapshot.scorer})"
    for table in _fitting(console, title, [str(name) for name in names.values()], _columns(snapshot, names)):
        console.print(table)
    for share in snapshot.weights:
        if share.burn and share.weight:
            console.print(f"burned: {share.weight / 65535:.1%} to {share.hotkey} ({share.reason})")
    console.print(LEGEND, markup=False)


def wide_console(file: TextIO | None = None) -> Console:
    """A console as wide as its terminal; output that is no terminal is as wide as a table needs."""
    console = Console(file=file)
    return console if console.is_terminal else Console(file=file, width=_ANY_WIDTH)


LEGEND = "score: mean reward, its confidence sequence and n tasks (a copy shows its origin's); weight: share of the vector"


@dataclass(frozen=True)
class _Column:
    name: str
    cells: tuple[str, ...]
    right: bool = False


def _columns(snapshot: LeaderboardSnapshot, names: Mapping[str, str]) -> list[_Column]:
    scores = [
        _Column(name.replace("_", " "), tuple(_score(model.scores[at]) for model in snapshot.models), right=True)
        for at, name in enumerate(snapshot.environments)
    ]
    verdicts = [_verdict(model, names) for model in snapshot.models]
    heads = ("state", "reason", "credit", "weight")
    return [
        *scores, *(_Column(head, tuple(verdict[at] for verdict in verdicts), right=at > 1) for at, head in enumerate(heads)),
    ]


def _fitting(console: Console, title: str, models: Sequence[str], columns: Sequence[_Column]) -> Iterator[Table]:
    """The columns in as few tables as the console's width allows, each with the models' names before it."""
    unbounded = console.options.update(width=_ANY_WIDTH)
    held = list(columns[:1])
    for column in columns[1:]:
        if console.measure(_table(title, models, [*held, column]), options=unbounded).maximum > console.width:
            yield _table(title, models, held)
            title, held = "", []
        held.append(column)
    yield _table(title, models, held)


def _table(title: str, models: Sequence[str], columns: Sequence[_Column]) -> Table:
    table = Table(title=title or None, box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for column in columns:
        table.add_column(column.name, justify="right" if column.right else "left", no_wrap=column.right)
    for cells in zip(models, *(column.cells for column in columns), strict=True):
        table.add_row(*cells)
    return table


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
