"""Driving Chromium without a window over its DevTools protocol: one page, real clicks, waits for what a person waits for.

Plain protocol over ``websockets``, which Dagster's web server brings along: a driver and its browser of a matching version would
be two more things to install. What must not go in: anything that knows Dagster (``operator_ui.py``).
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

__all__ = ["Box", "BrowserError", "Page", "chromium_path", "open_page"]

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--force-color-profile=srgb",
    "--force-device-scale-factor=1", "--lang=en-GB", "--remote-debugging-port=0", "--remote-allow-origins=*",
)
"""As an own sandbox needs privileges that a container lacks, ``--no-sandbox``: the one page opened is our own, on this machine."""

PATIENCE = 30.0
"""Seconds that anything may take to appear."""

QUIET = 0.8
"""Seconds without a change of the page after which it counts as drawn."""

_WATCH = """
(() => {
  window.__changed = performance.now();
  new MutationObserver(() => { window.__changed = performance.now(); })
    .observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
})();
"""


class BrowserError(Exception):
    """Chromium is missing, or what was waited for did not appear; the text says which and what the page showed instead."""


@dataclass(frozen=True)
class Box:
    """A rectangle of the page, in CSS pixels, and how many pixels of a picture of it each of them is."""

    left: float
    top: float
    width: float
    height: float
    scale: float = 1.0


def chromium_path() -> str | None:
    """Debian's Chromium, or what goes by that name elsewhere; None where there is none."""
    return next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)


@contextmanager
def open_page(width: int, height: int) -> Iterator[Page]:
    """A fresh browser with one empty page of this size. When it is left, no process of the browser is.

    Raises BrowserError where Chromium is not installed or does not start.
    """
    binary = chromium_path()
    if binary is None:
        raise BrowserError("Chromium is not installed: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="tour-", ignore_cleanup_errors=True) as profile:
        command = [binary, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
        environment = {**os.environ, "TZ": "UTC", "LANGUAGE": "en_GB"}
        process = subprocess.Popen(  # noqa: S603 - Debian's browser
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
        )
        try:
            with connect(_page_address(Path(profile), process), max_size=None, open_timeout=PATIENCE) as wire:
                page = Page(wire)
                page.set_up(width, height)
                yield page
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the browser and its helpers, which share its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _page_address(profile: Path, process: subprocess.Popen[bytes]) -> str:
    """The WebSocket address of the one page; Chromium writes its port into the profile when it listens."""
    from urllib.request import urlopen

    told, end = profile / "DevToolsActivePort", time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            raise BrowserError(f"Chromium ended with {process.returncode} before it listened")
        if told.exists() and len(lines := told.read_text().splitlines()) == 2:
            with urlopen(f"http://127.0.0.1:{lines[0]}/json/list", timeout=PATIENCE) as answer:
                pages = [entry for entry in json.load(answer) if entry["type"] == "page"]
            if pages:
                return str(pages[0]["webSocketDebuggerUrl"])
        time.sleep(0.05)
    raise BrowserError(f"Chromium did not listen within {PATIENCE:.0f} s")


@dataclass
class Page:
    """The one page. Every wait ends in BrowserError after ``PATIENCE`` seconds."""

    wire: ClientConnection
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def set_up(self, width: int, height: int) -> None:
        """Size, light theme, and the watch for changes on every document."""
        self.send("Page.enable")
        self.size(width, height)
        self.send("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "light"}, {"name": "prefers-reduced-motion", "value": "reduce"},
        ]})
        self.send("Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH})

    def size(self, width: int, height: int) -> None:
        """Make the window this large, in CSS pixels."""
        self.send("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def send(self, method: str, parameters: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Call a method of the protocol and return its result; events that come between are passed over."""
        number = next(self._numbers)
        self.wire.send(json.dumps({"id": number, "method": method, "params": dict(parameters or {})}))
        end = time.monotonic() + PATIENCE
        while (left := end - time.monotonic()) > 0:
            message = json.loads(self.wire.recv(timeout=left))
            if message.get("id") == number:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error']['message']}")
                return dict(message["result"])
        raise BrowserError(f"{method}: no answer")

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = self.send("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in result:
            raise BrowserError(f"{expression}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def open(self, address: str) -> None:
        """Load an address."""
        result = self.send("Page.navigate", {"url": address})
        if result.get("errorText"):
            raise BrowserError(f"{address}: {result['errorText']}")

    def wait(self, expression: str, what: str) -> None:
        """Wait until a JavaScript expression is true (an element is)."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if self.value(f"Boolean({expression})"):
                    return
            except BrowserError:  # the document is just being replaced
                pass
            time.sleep(0.1)
        raise BrowserError(f"waited {PATIENCE:.0f} s for {what}; the page shows: {self.text()[:1500]}")

    def text(self) -> str:
        """What the page says, as a person would copy it."""
        return str(self.value("document.body ? document.body.innerText : ''"))

    def wait_for_text(self, *texts: str) -> None:
        """Wait until the page says all of these."""
        for text in texts:
            self.wait(f"document.body && document.body.innerText.includes({json.dumps(text)})", repr(text))

    def wait_until_drawn(self) -> None:
        """Wait until fonts and pictures are there and nothing has changed for ``QUIET`` seconds."""
        still = f"performance.now() - window.__changed > {QUIET * 1000:.0f}"
        drawn = "document.fonts.status === 'loaded' && [...document.images].every(image => image.complete)"
        self.wait(f"document.readyState === 'complete' && {drawn} && {still}", "the page to be drawn")

    def box(self, finder: str) -> Box:
        """The rectangle of the element that a JavaScript expression gives, scrolled into view."""
        self.wait(finder, finder)
        found = self.value(
            f"(() => {{ const e = {finder}; e.scrollIntoView({{block: 'nearest', behavior: 'instant'}});"
            " const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()"
        )
        return Box(*map(float, found))

    def window(self) -> Box:
        """All of the window."""
        return Box(0, 0, float(self.value("innerWidth")), float(self.value("innerHeight")))

    def click(self, finder: str) -> None:
        """Click, with a real mouse, in the middle of the element that a JavaScript expression gives."""
        box = self.box(finder)
        at = {"x": box.left + box.width / 2, "y": box.top + box.height / 2, "button": "left", "clickCount": 1}
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", {"type": kind, **at})

    def rest(self) -> None:
        """Put the mouse into a corner and drop the focus, so that nothing is shown as hovered or chosen."""
        self.value("document.activeElement && document.activeElement.blur()")
        self.send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 1, "y": 1})

    def picture(self, box: Box) -> bytes:
        """A PNG of a part of the window."""
        clip = {"clip": {"x": box.left, "y": box.top, "width": box.width, "height": box.height, "scale": box.scale}}
        return base64.b64decode(self.send("Page.captureScreenshot", {"format": "png", **clip})["data"])
