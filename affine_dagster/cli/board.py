"""The leaderboard as a table in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from affine_dagster.leaderboard.snapshot import EnvironmentScore, LeaderboardModel, LeaderboardSnapshot

__all__ = ["print_board"]

_COLOURS = {"accepted": "green", "genesis": "blue", "copy": "red", "rejected": "red", "regressed": "yellow", "futile": "yellow"}


def print_board(snapshot: LeaderboardSnapshot, console: Console | None = None) -> None:
    """Print a snapshot: models, per-environment score with interval and n, state, reason, credit, weight; then what each may do."""
    console = console or Console()
    table = Table(title=f"Epoch {snapshot.epoch} (block {snapshot.boundary_block}, rule {snapshot.rule}, scorer {snapshot.scorer})")
    table.add_column("model", no_wrap=True)
    for environment in snapshot.environments:
        table.add_column(environment.replace("_", " "), justify="right", no_wrap=True)
    for name in ("state", "reason"):
        table.add_column(name, overflow="fold")
    for name in ("credit", "weight"):
        table.add_column(name, justify="right", no_wrap=True)
    for model in snapshot.models:
        table.add_row(*_cells(model))
    console.print(table)
    burned = [share for share in snapshot.weights if share.burn and share.weight]
    for share in burned:
        console.print(f"burned: {share.weight / 65535:.1%} to {share.hotkey} ({share.reason})")
    console.print("score: mean reward [lower, upper] of its confidence sequence, n tasks; weight: share of the vector")


def _cells(model: LeaderboardModel) -> list[str]:
    colour = _COLOURS.get(model.state)
    state = f"[{colour}]{model.state}[/{colour}]" if colour else model.state
    why = model.reason + (f" of {model.peer}" if model.peer and model.state == "copy" else "")
    credit = "" if model.credit is None else f"{model.credit:.4f}"
    weight = "" if model.weight is None else f"{model.weight / 65535:.1%}"
    return [model.repo or model.submission_id, *(_score(entry) for entry in model.scores), state, why, credit, weight]


def _score(score: EnvironmentScore) -> str:
    if score.mean is None or score.lower is None or score.upper is None:
        return "-"
    return f"{score.mean:.2f} \\[{score.lower:.2f}, {score.upper:.2f}]\nn {score.n}"
