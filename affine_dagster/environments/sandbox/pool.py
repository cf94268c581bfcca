"""A pool of sandboxes, one a core: every program is held by the next that is free, so that a batch keeps all cores busy.

A program's outcome depends on the program alone, so what may depend on the machine is tried again here, in a fresh sandbox: a server
that broke, and a program that ran into the wall's time without using its processor time (a starved machine looks like that, and so does
a deadlock: the second time it is the program's). What must not go in: how one sandbox is held (``server.py``).
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from affine_dagster.environments.sandbox.cgroups import remove_stale
from affine_dagster.environments.sandbox.port import Limits, Outcome, Program, Returned
from affine_dagster.environments.sandbox.server import BrokenError, Layers, Server
from affine_dagster.reasons import AffineError

__all__ = ["SandboxPool", "default_sandbox"]

_PATIENCE = 4
"""How much longer a program may wait the second time."""

_CANARY = Program("def f(a):\n    return a + 1", "f", ((1,),))
"""If this does not come back from a fresh sandbox, it is the sandbox that is broken."""


@dataclass
class _Order:
    """A program on its way: where its outcome (or the sandbox's failure) goes, and who is told."""

    program: Program
    limits: Limits
    done: threading.Event
    result: Outcome | None = None
    error: BaseException | None = None


class SandboxPool:
    """Sandboxes that start when they are first needed. Safe under threads; not to be taken across a fork."""

    def __init__(self, size: int | None = None, make: Callable[[], Server] = Server) -> None:
        """``size``: sandboxes at once, by default one a core that this process may use. ``make``: starts a server."""
        self._size = size or len(os.sched_getaffinity(0))
        self._make = make
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False

    def run(self, programs: Sequence[Program], limits: Limits) -> list[Outcome]:
        """An outcome a program, in order (see the port). Raises ``sandbox_unavailable``, ``sandbox_failed``."""
        orders = [_Order(program, limits, threading.Event()) for program in programs]
        with self._lock:
            if self._closed:
                raise AffineError("sandbox_failed", "the pool is closed")
            self._staff(len(orders))
            for order in orders:
                self._orders.put(order)
        for order in orders:
            order.done.wait()
        error = next((order.error for order in orders if order.error is not None), None)
        if error is not None:
            raise error
        return [order.result for order in orders if order.result is not None]

    def layers(self) -> Layers:
        """What stands between a program and this machine, found by starting a sandbox. Raises ``sandbox_unavailable``."""
        server = self._make()
        server.end()
        return server.layers

    def close(self) -> None:
        """End every sandbox; what is still on its way fails with ``sandbox_failed``."""
        with self._lock:
            self._closed = True
            for _ in self._threads:
                self._orders.put(None)
        for thread in self._threads:
            thread.join()

    def _staff(self, orders: int) -> None:
        if not self._threads and orders:
            remove_stale()
        while len(self._threads) < min(self._size, max(orders, len(self._threads))):
            thread = threading.Thread(target=self._hold, name="sandbox", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _hold(self) -> None:
        """One sandbox's thread, from the first order to the close."""
        held = _Held(self._make)
        try:
            while (order := self._orders.get()) is not None:
                try:
                    order.result = held.run(order.program, order.limits)
                except BaseException as error:  # it belongs to the caller, who is told by raising it there
                    order.error = error
                order.done.set()
        finally:
            held.end()


class _Held:
    """A sandbox that is replaced when it breaks."""

    def __init__(self, make: Callable[[], Server]) -> None:
        self._make = make
        self._server: Server | None = None

    def run(self, program: Program, limits: Limits) -> Outcome:
        for _ in range(2):
            try:
                report = self._started().run(program, limits)
                if report.outcome.ending == "wall_limit" and report.cpu_seconds < limits.cpu_seconds / 2:
                    report = self._started().run(program, replace(limits, wall_seconds=_PATIENCE * limits.wall_seconds))
            except BrokenError:  # once more in a fresh one; whose fault it is, the canary says
                self.end()
            else:
                return report.outcome
        return self._blamed(limits)

    def _blamed(self, limits: Limits) -> Outcome:
        """The sandbox broke twice on one program: the program's doing, if a fresh sandbox holds another one well."""
        try:
            canary = self._started().run(_CANARY, Limits()).outcome
        except BrokenError as error:
            self.end()
            raise AffineError("sandbox_failed", str(error)) from error
        if canary.results != (Returned(2),):
            raise AffineError("sandbox_failed", f"one and one is {canary}")
        return Outcome("died", detail="its sandbox broke twice under it, and under no other")

    def _started(self) -> Server:
        if self._server is None:
            self._server = self._make()
        return self._server

    def end(self) -> None:
        if self._server is not None:
            self._server.end()
            self._server = None


@lru_cache(maxsize=1)
def default_sandbox() -> SandboxPool:
    """The pool of this process: made at the first call, ended with the process."""
    pool = SandboxPool()
    atexit.register(pool.close)
    return pool
