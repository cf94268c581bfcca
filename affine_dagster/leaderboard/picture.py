"""The Pareto picture: models as points with their intervals, a pair of environments a panel, what the frontier covers shaded.

Copies are left out: their point is their origin's. What must not go in: Dagster, or any choice of who is on the frontier.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from affine_dagster.leaderboard.snapshot import EnvironmentScore, LeaderboardModel, LeaderboardSnapshot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MAX_NAMED", "MAX_PANELS", "pareto_png"]

MAX_PANELS = 6
MAX_NAMED = 12
"""Models that get a colour and a name: genesis, accepted, then the rest in commit order; further ones are grey dots."""

_MARKERS = {"accepted": "o", "genesis": "s", "regressed": "v", "futile": "v", "expired": "v"}
_GREY = "#999999"


def pareto_png(snapshot: LeaderboardSnapshot) -> bytes:
    """A PNG of at most six panels (pairs of environments, in the order of the settings); models without scores are left out."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    pairs = list(itertools.combinations(range(len(snapshot.environments)), 2))[:MAX_PANELS] or [(0, 0)]
    columns = min(3, len(pairs))
    rows = -(-len(pairs) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.8 * rows + 0.6), dpi=80, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    models = _shown(snapshot)
    palette = colormaps["tab20"]
    for place, (left, right) in enumerate(pairs, start=1):
        axes = figure.add_subplot(rows, columns, place)
        _covered(axes, [model for model in models if model.state in ("accepted", "genesis")], left, right)
        for rank, model in enumerate(models):
            colour: object = palette(rank) if rank < MAX_NAMED else _GREY
            _point(axes, model, (model.scores[left], model.scores[right]), colour, named=rank < MAX_NAMED)
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel=snapshot.environments[left], ylabel=snapshot.environments[right])
        axes.grid(alpha=0.3)
    if models:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), fontsize=8, frameon=False)
    figure.suptitle(f"Epoch {snapshot.epoch}: mean reward with its confidence sequence; shaded: below an accepted or genesis model")
    buffer = io.BytesIO()
    canvas.print_png(buffer)
    return buffer.getvalue()


def _shown(snapshot: LeaderboardSnapshot) -> list[LeaderboardModel]:
    order = {"genesis": 0, "accepted": 1}
    scored = [model for model in snapshot.models if model.state not in ("copy", "review") and all(entry.n > 0 for entry in model.scores)]
    return sorted(scored, key=lambda model: order.get(model.state, 2))


def _covered(axes: Axes, members: Sequence[LeaderboardModel], left: int, right: int) -> None:
    """Shade what lies below a member's mean in both environments."""
    for model in members:
        across, up = model.scores[left].mean, model.scores[right].mean
        if across is not None and up is not None:
            axes.fill_between([0, across], [up, up], color="#1b7837", alpha=0.07, lw=0)


def _point(
    axes: Axes, model: LeaderboardModel, at: tuple[EnvironmentScore, EnvironmentScore], colour: object, *, named: bool
) -> None:
    across, up = at
    if across.mean is None or up.mean is None:
        return
    label = f"{model.repo or model.submission_id} ({model.state})" if named else None
    axes.errorbar(
        across.mean, up.mean, xerr=_error(across), yerr=_error(up), color=colour, label=label,
        marker=_MARKERS.get(model.state, "D"), markersize=5, capsize=2, lw=1, ls="none",
    )  # fmt: skip


def _error(score: EnvironmentScore) -> list[list[float]]:
    mean = score.mean or 0.0
    low = mean if score.lower is None else score.lower
    high = mean if score.upper is None else score.upper
    return [[max(0.0, mean - low)], [max(0.0, high - mean)]]
