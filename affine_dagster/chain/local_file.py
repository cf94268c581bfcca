"""The development chain's file: blocks, their hashes, the extrinsics in them, and transactions on one SQLite file.

What must not go in: what an extrinsic means (``local_calls.py``, ``local_world.py``) and what a read returns
(``local_state.py``).

Every state is kept as versions with the block that they hold from, and a write only ever touches the open block, the one
after the head. So whatever lies at or below the head never changes, and a read pinned to a block is the same for ever. A
block's hash is a function of the chain's seed, its number and all extrinsics up to it: two chains made the same way have the
same hashes, and nobody knows a hash before the block is full. No row is kept for an empty block: a year can pass in one write.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from affine_dagster.chain.port import ChainRejected

__all__ = ["ChainFile", "Clock", "Genesis", "OpenBlock"]

Clock = Callable[[], int]
"""Returns milliseconds; only differences count."""

BUSY_SECONDS = 30.0
"""How long a call waits for another process's write before it says ``timeout``."""

_SCHEMA = """
CREATE TABLE genesis (seed TEXT NOT NULL, genesis_ms INTEGER NOT NULL, block_ms INTEGER NOT NULL);
CREATE TABLE progress (head INTEGER NOT NULL, clock_block INTEGER, clock_ms INTEGER, clock_pace_ms INTEGER);
CREATE TABLE extrinsic (
  block INTEGER NOT NULL, position INTEGER NOT NULL, call TEXT NOT NULL, signer TEXT, payload BLOB NOT NULL,
  PRIMARY KEY (block, position));
CREATE INDEX extrinsic_signer ON extrinsic (signer);
CREATE TABLE trail (block INTEGER PRIMARY KEY, digest BLOB NOT NULL);
CREATE TABLE subnet (
  netuid INTEGER NOT NULL, block INTEGER NOT NULL, epoch_start INTEGER NOT NULL, epoch_index INTEGER NOT NULL,
  owner_hotkey TEXT NOT NULL, parameters TEXT NOT NULL, PRIMARY KEY (netuid, block));
CREATE TABLE neuron (
  netuid INTEGER NOT NULL, uid INTEGER NOT NULL, block INTEGER NOT NULL, hotkey TEXT, coldkey TEXT,
  stake_rao INTEGER NOT NULL, permit INTEGER NOT NULL, registered_at INTEGER NOT NULL, PRIMARY KEY (netuid, uid, block));
CREATE TABLE commitment (
  netuid INTEGER NOT NULL, block INTEGER NOT NULL, position INTEGER NOT NULL, hotkey TEXT NOT NULL, data BLOB NOT NULL,
  reveal_block INTEGER, space INTEGER NOT NULL, PRIMARY KEY (block, position));
CREATE INDEX commitment_block ON commitment (netuid, block);
CREATE INDEX commitment_reveal ON commitment (netuid, reveal_block);
CREATE TABLE weights (
  netuid INTEGER NOT NULL, uid INTEGER NOT NULL, block INTEGER NOT NULL, position INTEGER NOT NULL,
  registered_at INTEGER NOT NULL, version_key INTEGER NOT NULL, in_force_from INTEGER NOT NULL, vector TEXT NOT NULL,
  PRIMARY KEY (block, position));
CREATE INDEX weights_uid ON weights (netuid, uid, block);
CREATE TABLE swap (
  netuid INTEGER NOT NULL, block INTEGER NOT NULL, position INTEGER NOT NULL, coldkey TEXT NOT NULL,
  old_hotkey TEXT NOT NULL, new_hotkey TEXT NOT NULL, PRIMARY KEY (block, position));
"""


@dataclass(frozen=True)
class Genesis:
    """What a chain is made with and keeps for ever. Block n has the timestamp ``genesis_ms + n * block_ms``."""

    seed: str = "development"
    genesis_ms: int = 1_780_000_000_000
    block_ms: int = 12_000


@dataclass(frozen=True)
class OpenBlock:
    """The block that is being filled, inside a write transaction."""

    connection: sqlite3.Connection
    number: int

    def record(self, call: str, payload: bytes, signer: str | None = None) -> int:
        """Put an extrinsic into the block. Returns its index.

        Signatures are no part of the payload: sr25519 randomises them, and hashes must be equal for equal histories.
        """
        sql = self.connection
        position = int(sql.execute("SELECT count(*) FROM extrinsic WHERE block = ?", (self.number,)).fetchone()[0])
        sql.execute("INSERT INTO extrinsic VALUES (?, ?, ?, ?, ?)", (self.number, position, call, signer, payload))
        state = hashlib.blake2b(_trail(sql, self.number), digest_size=32)
        for part in (str(self.number).encode(), call.encode(), (signer or "").encode(), payload):
            state.update(len(part).to_bytes(8, "little") + part)
        sql.execute("INSERT OR REPLACE INTO trail VALUES (?, ?)", (self.number, state.digest()))
        return position


class ChainFile:
    """One chain in one file, used from any number of threads and processes (each thread has its own connection).

    Only ``make`` founds a chain where no file is: a mistyped path must not look like an empty chain. Raises ChainRejected
    ``unavailable`` where there is none, ``invalid`` where it was made with another ``genesis`` than the one given.
    """

    def __init__(self, path: Path, *, clock: Clock | None = None, make: bool = False, genesis: Genesis | None = None) -> None:
        self.path = path
        self._clock = clock
        self._threads = threading.local()
        self._inherited: list[object] = []
        if make and not path.exists():
            _create(path, genesis or Genesis())
        self.genesis = Genesis(*self.connection().execute("SELECT seed, genesis_ms, block_ms FROM genesis").fetchone())
        if genesis is not None and genesis != self.genesis:
            raise ChainRejected("invalid", f"{path} was made with {self.genesis}, not with {genesis}")

    def connection(self) -> sqlite3.Connection:
        """The connection of the calling thread."""
        held: tuple[int, sqlite3.Connection] | None = getattr(self._threads, "held", None)
        if held is not None and held[0] == os.getpid():
            return held[1]
        if held is not None:
            self._inherited.append(held)  # SQLite forbids a child to use or close a connection that it got by fork
        uri = self.path.resolve().as_uri() + "?mode=rw"
        try:
            fresh = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS)
            fresh.execute("PRAGMA synchronous = NORMAL")  # in WAL: no loss by kill -9; a power cut may lose the newest blocks
        except sqlite3.OperationalError as error:
            raise ChainRejected("unavailable", f"{self.path}: {error}") from error
        self._threads.held = (os.getpid(), fresh)
        return fresh

    def close(self) -> None:
        """Close this thread's connection; the next call opens another."""
        held: tuple[int, sqlite3.Connection] | None = getattr(self._threads, "held", None)
        if held is not None and held[0] == os.getpid():
            held[1].close()
            self._threads.held = None

    @contextmanager
    def writing(self) -> Iterator[OpenBlock]:
        """One write transaction on the open block: all of it stands, or nothing.

        Raises ChainRejected ``timeout`` when another write holds the file too long, ``unavailable`` when the disk fails.
        """
        sql = self.connection()
        try:
            sql.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise ChainRejected("timeout", f"{self.path}: {error}") from error
        try:
            yield OpenBlock(sql, self._catch_up(sql) + 1)
            sql.execute("COMMIT")
        except BaseException as error:
            if sql.in_transaction:  # SQLite has rolled back by itself after some disk errors
                sql.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise ChainRejected("unavailable", f"{self.path}: {error}") from error
            raise

    def head(self) -> int:
        """The newest closed block. With a clock, closes the blocks that are due."""
        sql = self.connection()
        stored = int(sql.execute("SELECT head FROM progress").fetchone()[0])
        if self._clock is None or self._due(sql) == stored:
            return stored
        with self.writing() as block:
            return block.number - 1

    def closed(self, number: int) -> None:
        """Raises ChainRejected ``unavailable`` unless the block is closed."""
        if not 0 <= number <= self.head():
            raise ChainRejected("unavailable", f"no block {number}")

    def advance(self, blocks: int) -> int:
        """Close the open block and ``blocks - 1`` empty ones. Returns the new head."""
        if blocks < 1:
            raise ChainRejected("invalid", f"advance by {blocks} blocks")
        with self.writing() as block:
            block.connection.execute("UPDATE progress SET head = head + ?, clock_block = clock_block + ?", (blocks, blocks))
            return block.number - 1 + blocks

    def wind_clock(self, pace_ms: int) -> None:
        """From now on a block closes every ``pace_ms`` of the clock. Raises ChainRejected ``invalid`` without a clock."""
        if self._clock is None or pace_ms < 1:
            raise ChainRejected("invalid", f"no clock, or a pace of {pace_ms} ms")
        now = self._clock()
        with self.writing() as block:
            block.connection.execute(
                "UPDATE progress SET clock_block = head, clock_ms = ?, clock_pace_ms = ?", (now, pace_ms)
            )

    def _due(self, sql: sqlite3.Connection) -> int | None:
        """The head that the clock asks for, never below the stored one; None while the clock is not wound yet."""
        if self._clock is None:
            raise ChainRejected("invalid", "no clock")
        head, start, wound, pace = sql.execute("SELECT head, clock_block, clock_ms, clock_pace_ms FROM progress").fetchone()
        return None if wound is None else max(int(head), start + (self._clock() - wound) // pace)

    def _catch_up(self, sql: sqlite3.Connection) -> int:
        if self._clock is not None:
            due = self._due(sql)
            if due is None:
                sql.execute(
                    "UPDATE progress SET clock_block = head, clock_ms = ?, clock_pace_ms = ?", (self._clock(), self.genesis.block_ms)
                )
            else:
                sql.execute("UPDATE progress SET head = ?", (due,))
        return int(sql.execute("SELECT head FROM progress").fetchone()[0])

    def block_hash(self, number: int) -> str:
        """The hash of a closed block, 0x and 64 hex digits."""
        return "0x" + self.digest("block", number, _trail(self.connection(), number)).hex()

    def digest(self, purpose: str, number: int, data: bytes = b"") -> bytes:
        """32 bytes that depend on the chain's seed, the purpose, a number and data."""
        seed = hashlib.blake2b(self.genesis.seed.encode(), digest_size=32).digest()
        text = f"{purpose}|{number}|".encode() + data
        return hashlib.blake2b(text, key=seed, digest_size=32).digest()

    def trail_at(self, number: int) -> bytes:
        """The digest of all extrinsics up to a block."""
        return _trail(self.connection(), number)

    def timestamp_ms(self, number: int) -> int:
        """The time of a block by the chain's own reckoning."""
        return self.genesis.genesis_ms + number * self.genesis.block_ms


def _trail(sql: sqlite3.Connection, number: int) -> bytes:
    row = sql.execute("SELECT digest FROM trail WHERE block <= ? ORDER BY block DESC LIMIT 1", (number,)).fetchone()
    return b"" if row is None else bytes(row[0])


def _create(path: Path, genesis: Genesis) -> None:
    """Make the file under another name and link it: several processes may start at once, and it is whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".chain-") as folder:
        draft = Path(folder) / "chain.db"
        with closing(sqlite3.connect(draft, isolation_level=None)) as sql:
            sql.execute("PRAGMA journal_mode = WAL")
            sql.executescript(_SCHEMA)
            sql.execute("INSERT INTO genesis VALUES (?, ?, ?)", (genesis.seed, genesis.genesis_ms, genesis.block_ms))
            sql.execute("INSERT INTO progress VALUES (0, NULL, NULL, NULL)")
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return  # another process was first: its chain stands
