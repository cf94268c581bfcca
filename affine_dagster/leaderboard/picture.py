"""The Pareto picture: models as points with their intervals, a pair of environments a panel, the frontier marked.

What must not go in: Dagster, or any choice of who is on the frontier.
"""

from __future__ import annotations

import io
import itertools
from typing import TYPE_CHECKING

from affine_dagster.leaderboard.snapshot import EnvironmentScore, LeaderboardModel, LeaderboardSnapshot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["pareto_png"]

_LOOK = {"accepted": ("#1b7837", "o"), "genesis": ("#2166ac", "s"), "futile": ("#999999", "v"), "regressed": ("#b2182b", "v")}
_OTHER = ("#999999", "o")
MAX_PANELS = 6


def pareto_png(snapshot: LeaderboardSnapshot) -> bytes:
    """A PNG of at most six panels (pairs of environments, in the order of the settings); models without scores are left out."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    pairs = list(itertools.combinations(range(len(snapshot.environments)), 2))[:MAX_PANELS] or [(0, 0)]
    columns = min(3, len(pairs))
    rows = -(-len(pairs) // columns)
    figure = Figure(figsize=(4.4 * columns, 4.0 * rows), dpi=90, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    shown = [model for model in snapshot.models if all(entry.n > 0 for entry in model.scores)]
    for place, (left, right) in enumerate(pairs, start=1):
        axes = figure.add_subplot(rows, columns, place)
        for model in shown:
            _point(axes, model, model.scores[left], model.scores[right])
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel=snapshot.environments[left], ylabel=snapshot.environments[right])
        axes.grid(alpha=0.3)
    figure.suptitle(f"Epoch {snapshot.epoch}: mean reward with confidence sequence (green: accepted, blue: genesis, grey: others)")
    buffer = io.BytesIO()
    canvas.print_png(buffer)
    return buffer.getvalue()


def _point(axes: Axes, model: LeaderboardModel, across: EnvironmentScore, up: EnvironmentScore) -> None:
    if across.mean is None or up.mean is None:
        return
    colour, marker = _LOOK.get(model.state, _OTHER)
    axes.errorbar(across.mean, up.mean, xerr=_error(across), yerr=_error(up), color=colour, marker=marker, markersize=6, capsize=2, lw=1)
    name = (model.repo or model.submission_id).split("/")[-1]
    axes.annotate(name, (across.mean, up.mean), xytext=(5, 5), textcoords="offset points", fontsize=7, color=colour)


def _error(score: EnvironmentScore) -> list[list[float]]:
    mean = score.mean or 0.0
    low = mean if score.lower is None else score.lower
    high = mean if score.upper is None else score.upper
    return [[max(0.0, mean - low)], [max(0.0, high - mean)]]
