"""``python -m docs.tour``: make the pictures of docs/tour.md from a demo's instance. ``make tour`` does the same.

A tool of the documentation, beside the page that it serves: the library never needs a browser, and the wheel does not hold it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from docs.tour.chromium import BrowserError, chromium_path
from docs.tour.operator_ui import UiError
from docs.tour.pictures import make_pictures

HERE = Path(__file__).parent


@click.command()
@click.option("--home", type=click.Path(file_okay=False, path_type=Path), help="a finished demo; it is copied  [default: one is made]")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=HERE, help="where the pictures go  [default: docs/tour]")
def main(home: Path | None, out: Path) -> None:
    """Make the pictures of docs/tour.md: a demo, a re-scoring of it in the UI, and a browser that looks at both."""
    if chromium_path() is None:
        raise click.ClickException("Chromium is not installed: apt-get install chromium")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="affine-tour-") as folder:
        world = Path(folder) / "demo"
        if home is None:
            subprocess.run([str(Path(sys.executable).parent / "affine"), "demo", "--home", str(world)], check=True)  # noqa: S603
        else:
            shutil.copytree(home, world)
        try:
            for name in make_pictures(world, out):
                click.echo(f"[{time.monotonic() - started:5.1f} s] {name}: {(out / name).stat().st_size / 1000:.0f} kB")
        except (BrowserError, UiError) as error:
            raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
