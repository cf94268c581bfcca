"""What an evaluation job tells while it runs, one line an event: for logs and people, never a result.

What must not go in: anything that scoring or the ledger needs.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

__all__ = ["JobEvent"]


@dataclass(frozen=True)
class JobEvent:
    """``event``: started, waiting, loaded, batch, decided, unloadable, failed, lost, done. ``done`` of ``of``: tasks of the purpose."""

    event: str
    job: str
    model: str
    environment: str | None
    purpose: str | None
    done: int
    of: int
    reason: str | None = None
    detail: str = ""

    def to_line(self) -> bytes:
        """One line of JSON."""
        return (json.dumps(asdict(self), allow_nan=False) + "\n").encode()

    @classmethod
    def from_line(cls, line: bytes) -> JobEvent | None:
        """The event of a line, or None for a line that is none (a library's own message)."""
        try:
            return cls(**json.loads(line))
        except (ValueError, TypeError):
            return None

    def __str__(self) -> str:
        """For a log."""
        where = " ".join(part for part in (self.model, self.environment, self.purpose) if part)
        count = f" {self.done} of {self.of}" if self.of else ""
        why = f" ({self.reason}{': ' + self.detail if self.detail else ''})" if self.reason else ""
        return f"{self.event}: {where}{count}{why}"
