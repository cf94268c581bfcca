"""The validator as a process that can be killed: started, struck with ``kill -9`` at a point of its progress, and started again.

Used by the tests and by ``benchmarks/kills.py``. What must not go in: what is equal afterwards (``comparing.py``).

A point is a share of the undisturbed run's duration; where workers are struck, of the time in which it had some. The run that is
struck may be slower or faster; so the point is reached by progress first (as many lines as the undisturbed run had printed by then)
and only the rest of the way by the clock.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

__all__ = ["VICTIMS", "Strike", "Timeline", "disturbed", "processes_of", "spread_strikes", "undisturbed"]

Victims = Literal["all", "parent", "workers"]

VICTIMS: Sequence[Victims] = ("all", "parent", "workers")
"""``all``: the validator and every process that it started, also those in groups of their own. ``parent``: the validator alone, so that
an evaluation goes on without it. ``workers``: the evaluation's processes alone; the validator goes on."""

DEADLINE = 240.0
LAST = 0.95
"""Later than this share of a run no strike falls: it would too often meet nobody."""

_EARLIER = 0.8
_POLL = 0.01
_WORKER = b"affine_dagster.evaluation.worker"


@dataclass(frozen=True)
class Timeline:
    """Seconds after its start at which an undisturbed run printed each of its lines, and at which it ended.

    ``working``: from when to when an evaluation worker lived.
    """

    lines: tuple[float, ...]
    duration: float
    working: tuple[tuple[float, float], ...]

    def moment(self, strike: Strike) -> float:
        """The second at which a strike falls."""
        if strike.victims != "workers":
            return strike.share * self.duration
        left = strike.share * sum(end - start for start, end in self.working)
        for start, end in self.working:
            if left <= end - start:
                return start + left
            left -= end - start
        return self.duration


@dataclass(frozen=True)
class Strike:
    """``kill -9`` at a share (0 to 1) of the run, and once more at ``again`` of the run after it."""

    share: float
    victims: Victims
    again: float | None = None

    def __str__(self) -> str:
        return f"{self.victims} at {self.share:.3f}" + ("" if self.again is None else f", all again at {self.again:.3f}")

    def earlier(self) -> Strike:
        """The same strike at a point that a faster run does not outrun."""
        return replace(self, share=self.share * _EARLIER)


def spread_strikes(count: int, seed: int) -> list[Strike]:
    """So many strikes, one in each equal part of the run, their victims in turn; every fifth run is struck twice."""
    dice = random.Random(seed)
    return [
        Strike(LAST * (number + dice.random()) / count, VICTIMS[number % len(VICTIMS)], dice.random() if number % 5 == 4 else None)
        for number in range(count)
    ]


def undisturbed(home: Path) -> Timeline:
    """Run the validator to its end and note when it printed what."""
    run = _Validator(home)
    seen: list[float] = []
    run.wait(lambda: seen.extend([run.age] * (len(run.lines) - len(seen))))
    end = run.age
    run.check(0)
    lines = run.lines
    seen.extend([end] * (len(lines) - len(seen)))
    starts = [moment for moment, line in zip(seen, lines, strict=True) if line.strip().startswith(b"started:")]
    ends = [moment for moment, line in zip(seen, lines, strict=True) if line.strip().startswith(b"done:")]
    return Timeline(tuple(seen), end, tuple(zip(starts, ends, strict=True)))


def disturbed(home: Path, timeline: Timeline, strike: Strike) -> int:
    """Run the validator, strike, and start it again until it is through. Returns how many blows fell on living processes."""
    try:
        return _disturbed(home, timeline, strike)
    finally:
        _kill(lambda: processes_of(home))


def _disturbed(home: Path, timeline: Timeline, strike: Strike) -> int:
    run = _Validator(home)
    run.reach(timeline, timeline.moment(strike))
    blows = run.strike(strike.victims)
    if strike.again is not None:
        run = run if run.lives else _Validator(home)
        run.sleep(strike.again * timeline.duration)
        blows += run.strike("all")
    if run.killed:
        run = _Validator(home)
    run.wait()
    run.check(0)
    return blows


def processes_of(home: Path, *, marked: bytes = b"") -> list[int]:
    """The living processes whose command line names something of ``home`` (and contains ``marked``), whoever their parent is."""
    needle = str(home).encode()
    return [pid for pid, command in _commands() if needle in command and marked in command and pid != os.getpid()]


def _commands() -> Iterator[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                yield int(entry.name), (entry / "cmdline").read_bytes()


def _blow(pids: Sequence[int]) -> int:
    blows = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            blows += 1
    return blows


def _kill(found: Callable[[], Sequence[int]]) -> int:
    """Kill until none is found: what one of them started between the look and the blow is found by the next look."""
    blows = 0
    while pids := found():
        blows += _blow(pids)
    return blows


class _Validator:
    """``affine run-epochs`` on a world, in a process group of its own; what it prints goes to a file beside the world."""

    def __init__(self, home: Path) -> None:
        self.home = home.resolve()
        self.killed = False
        self._log = home.with_name(f"{home.name}.log")
        self._before = self._log.stat().st_size if self._log.exists() else 0
        self._start = time.monotonic()
        command = [str(Path(sys.executable).parent / "affine"), "run-epochs", "--home", str(self.home)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    @property
    def age(self) -> float:
        return time.monotonic() - self._start

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    @property
    def lines(self) -> list[bytes]:
        """What it has printed so far, whole lines."""
        with self._log.open("rb") as log:
            log.seek(self._before)
            return log.read().split(b"\n")[:-1]

    def wait(self, look: Callable[[], object] = lambda: None, until: Callable[[], bool] = lambda: False) -> None:
        """Wait for its end or for a condition, looking all the while; past the deadline it is killed and the test fails."""
        while self.lives and not until():
            look()
            if self.age > DEADLINE:
                _kill(lambda: processes_of(self.home))
                raise AssertionError(f"the validator was not through after {DEADLINE:.0f} s:\n{self._end()}")
            time.sleep(_POLL)

    def reach(self, timeline: Timeline, moment: float) -> None:
        """Wait until the run is as far as the undisturbed one was at that moment."""
        passed = [line for line in timeline.lines if line <= moment]
        self.wait(until=lambda: len(self.lines) >= len(passed))
        self.sleep(moment - (passed[-1] if passed else 0.0))

    def sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.wait(until=lambda: time.monotonic() >= end)

    def strike(self, victims: Victims) -> int:
        if victims == "workers":
            self.wait(until=lambda: bool(processes_of(self.home, marked=_WORKER)))
            return _blow(processes_of(self.home, marked=_WORKER))
        blows = _blow([self._process.pid] if self.lives else [])
        if victims == "all":
            blows += _kill(lambda: [pid for pid in processes_of(self.home) if pid != self._process.pid])
        self._process.wait()
        self.killed = self._process.returncode == -signal.SIGKILL
        return blows

    def check(self, status: int) -> None:
        assert self._process.wait() == status, f"the validator ended with {self._process.returncode}:\n{self._end()}"

    def _end(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]

