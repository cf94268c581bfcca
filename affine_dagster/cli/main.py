"""The command ``affine``. Each subcommand is a few lines that call the library; nothing is computed here."""

from __future__ import annotations

import os
from pathlib import Path

import click

from affine_dagster.reasons import AffineError

__all__ = ["main"]

HOME = click.Path(file_okay=False, path_type=Path)


class _Commands(click.Group):
    """A group that shows an AffineError as one line, with whose fault it is and what to do next."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except AffineError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands)
def main() -> None:
    """The validator of the Affine subnet."""


@main.command()
@click.option("--home", type=HOME, default=Path("var/demo"), show_default=True, help="where the demo's world is made anew")
@click.option("--cache", type=HOME, default=None, help="where trained league models are kept")
def demo(home: Path, cache: Path | None) -> None:
    """Run the main job on the league's models: three epochs, through real Dagster runs."""
    from affine_dagster.cli.demo import run_demo
    from affine_dagster.cli.sandbox import require_sandbox
    from affine_dagster.league.recipes import DEMO

    require_sandbox()
    run_demo(home, cache or default_cache(), DEMO)


@main.command("demo-real")
@click.option("--home", type=HOME, default=Path("var/demo-real"), show_default=True, help="where the demo's world is made anew")
@click.option("--cache", type=HOME, default=None, help="where the model, its children and its copies are kept")
def demo_real(home: Path, cache: Path | None) -> None:
    """Run the main job on SmolLM2-135M-Instruct, children of it that are tuned here, and copies of it."""
    from affine_dagster.cli.demo_real import run_demo_real

    run_demo_real(home, cache or default_cache())


@main.command()
@click.option("--home", type=HOME, default=Path("var/dev"), show_default=True, help="where the development world lies")
@click.option("--cache", type=HOME, default=None, help="where trained league models are kept")
@click.option("--port", default=3000, show_default=True)
@click.option("--block-seconds", default=1.0, show_default=True, help="seconds a block of the development chain")
def dev(home: Path, cache: Path | None, port: int, block_seconds: float) -> None:
    """Open the Dagster UI and daemon on a development chain whose blocks pass."""
    from affine_dagster.cli.sandbox import require_sandbox
    from affine_dagster.cli.serve import run_dev

    require_sandbox()
    run_dev(home, cache or default_cache(), port=port, block_seconds=block_seconds)


@main.command()
@click.option("--home", type=HOME, required=True, help="a world that demo or dev made")
@click.option("--port", default=3000, show_default=True)
def ui(home: Path, port: int) -> None:
    """Open the Dagster UI on a world that exists."""
    from affine_dagster.cli.serve import run_ui

    run_ui(home, port=port)


@main.command("run-epochs")
@click.option("--home", type=HOME, required=True, help="a world that demo or dev made")
def run_epochs(home: Path) -> None:
    """Run the epochs that have closed on a world's chain and are not finished, in this process."""
    from affine_dagster.cli.validator import run_epochs as run
    from affine_dagster.league.world import open_world

    run(open_world(home), said=click.echo)


@main.command()
@click.option("--home", type=HOME, required=True, help="a world that demo or dev made")
def show(home: Path) -> None:
    """Print the leaderboard's latest snapshot."""
    from affine_dagster.cli.board import print_board
    from affine_dagster.leaderboard.snapshot import read_latest
    from affine_dagster.league.world import open_world
    from affine_dagster.store import Store

    store = Store(open_world(home).settings().store.url)
    snapshot = read_latest(store)
    if snapshot is None:
        raise AffineError("missing_input", f"no snapshot is published under {store.url}")
    print_board(snapshot)


@main.command()
@click.option("--home", type=HOME, required=True, help="a world that demo or dev made")
@click.option("--rules", default="all", show_default=True, help="names of earlier rules with commas between, or all")
@click.option("--epochs", default="all", show_default=True, help="A..B, A.., ..B or all")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="where to write the shares over time as a PNG")
def replay(home: Path, rules: str, epochs: str, picture: Path | None) -> None:
    """Print who was paid, and who would have been under each rule of the subnet's history and ours."""
    from affine_dagster.cli.replay import print_replay
    from affine_dagster.league.world import open_world

    print_replay(open_world(home).settings(), rules.split(","), epochs, picture)


@main.command()
@click.option("--strategies", default="all", show_default=True, help="names with commas between, or all")
@click.option("--markets", type=click.IntRange(min=1), default=10, show_default=True, help="markets a strategy, each of its own seed")
@click.option("--epochs", type=click.IntRange(min=1), default=12, show_default=True, help="epochs a market")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="the first market's seed")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="where to write the gains as a PNG")
def redteam(strategies: str, markets: int, epochs: int, seed: int, picture: Path | None) -> None:
    """Print what simulated miners who copy, split, flood or hide would earn under each rule; needs no world."""
    from affine_dagster.cli.redteam import print_redteam

    print_redteam(strategies.split(","), markets, epochs, seed, picture)


@main.command()
@click.option("--leagues", type=click.IntRange(min=1), default=1000, show_default=True, help="leagues of fifty miners")
@click.option("--epochs", type=click.IntRange(min=1), default=100, show_default=True, help="epochs a league")
@click.option("--seed", type=click.IntRange(min=0, max=2**32 - 1), default=0, show_default=True, help="of all draws")
@click.option("--engine", type=click.Choice(["auto", "numpy", "jax"]), default="auto", show_default=True, help="auto: JAX if installed")
def simulate(leagues: int, epochs: int, seed: int, engine: str) -> None:
    """Print what strategies earn in thousands of leagues on latent skill, beside an oracle; needs no world."""
    from affine_dagster.cli.simulate import print_simulation

    print_simulation(leagues, epochs, seed, engine)


@main.command("settings")
@click.argument("path", type=click.Path(exists=False, path_type=Path))
def check_settings(path: Path) -> None:
    """Check a settings file and print what is in force."""
    from affine_dagster.environments.registry import environments
    from affine_dagster.settings import load_settings

    settings = load_settings(path)
    environments(settings.evaluation.environments)
    click.echo(settings.model_dump_json(indent=1))


@main.command()
@click.argument("name", type=click.Choice(["settings", "reasons"]))
def page(name: str) -> None:
    """Print a reference page in Markdown."""
    from affine_dagster.cli.pages import PAGES

    click.echo(PAGES[name](), nl=False)


@main.command()
def sandbox() -> None:
    """Check that generated code is held on this machine, and say by what."""
    from affine_dagster.cli.sandbox import check_sandbox

    check_sandbox(click.echo)


def default_cache() -> Path:
    """Where trained league models are kept: ``AFFINE_CACHE``, else the user's cache folder."""
    root = os.environ.get("AFFINE_CACHE") or os.environ.get("XDG_CACHE_HOME")
    base = Path(root) if root else Path.home() / ".cache"
    return base / "affine_dagster"
