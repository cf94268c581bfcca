"""A snapshot is frozen: taken again it is compared, and it is whole or not there."""

from __future__ import annotations

import dataclasses

import polars as pl
import pytest

from affine_dagster.chain.local import LocalChain
from affine_dagster.chain.port import Commitment
from affine_dagster.chain.snapshot import read_snapshot, store_snapshot, take_snapshot
from affine_dagster.reasons import AffineError
from affine_dagster.settings import ChainSettings
from affine_dagster.store import Store, Tables
from affine_dagster.tables import COMMITMENTS, EPOCHS, NEURONS, SWAPS

NETUID = 120
SETTINGS = ChainSettings(netuid=NETUID, beacon_lag_blocks=3)


@pytest.fixture
def lived(world):
    """Epoch 0 is blocks 1 to 10, epoch 1 blocks 11 to 20; commitments in blocks 5, 10 and 11, one sealed until block 15."""
    world.found(tempo=10)
    first, second = world.seen_by(world.keys.first), world.seen_by(world.keys.second)
    world.hand.advance(3)
    first.commit(NETUID, b"in block 5")
    second.commit(NETUID, b"sealed in block 5", reveal_block=15)
    world.hand.advance(5)
    first.commit(NETUID, b"in block 10")
    world.hand.advance()
    first.commit(NETUID, b"in block 11")
    world.hand.swap_hotkey(NETUID, world.keys.first.ss58_address, world.keys.outsider.ss58_address)
    world.hand.advance(20)
    return world


@pytest.fixture
def tables(tmp_path):
    return Tables(Store(str(tmp_path / "store")))


def test_an_epoch_holds_what_was_committed_or_opened_in_it(lived):
    chain = lived.seen_by(None)
    first, second = take_snapshot(chain, SETTINGS, 0), take_snapshot(chain, SETTINGS, 1)
    seen = [[(row["block"], row["status"], row["data"]) for row in snapshot.commitments.to_dicts()] for snapshot in (first, second)]
    assert seen[0] == [(5, "plain", b"in block 5"), (5, "sealed", None), (10, "plain", b"in block 10")]
    assert seen[1] == [(5, "revealed", b"sealed in block 5"), (11, "plain", b"in block 11")]
    assert first.swaps.height == 0
    assert second.swaps.to_dicts()[0]["new_hotkey"] == lived.keys.outsider.ss58_address


def test_the_row_of_an_epoch_is_that_of_its_last_block_with_its_beacon(lived):
    chain = lived.seen_by(None)
    (row,) = take_snapshot(chain, SETTINGS, 0).epochs.to_dicts()
    assert (row["epoch"], row["start_block"], row["boundary_block"], row["beacon_block"]) == (0, 1, 10, 13)
    assert (row["boundary_hash"], row["beacon_hash"]) == (chain.block(10).hash, chain.block(13).hash)
    pulse = chain.pulse(after_ms=chain.block(13).timestamp_ms)
    assert (row["pulse_round"], row["pulse_randomness"]) == (pulse.round, pulse.randomness)
    assert row["owner_hotkey"] == lived.keys.owner.ss58_address


def test_the_metagraph_is_that_of_the_boundary(lived):
    """A7: a swap after the boundary does not reach back."""
    chain = lived.seen_by(None)
    before, after = (take_snapshot(chain, SETTINGS, epoch).neurons["hotkey"].to_list() for epoch in (0, 1))
    assert before[2] == lived.keys.first.ss58_address
    assert after[2] == lived.keys.outsider.ss58_address


def test_an_epoch_is_not_taken_before_its_beacon(world):
    world.found(tempo=10)
    world.hand.advance(11)
    chain = world.seen_by(None)
    with pytest.raises(AffineError, match="epoch_not_closed"):
        take_snapshot(chain, SETTINGS, 0)
    world.hand.advance()
    assert take_snapshot(chain, SETTINGS, 0).epoch == 0


def test_what_was_stored_is_what_is_read_and_storing_it_again_changes_nothing(lived, tables):
    chain = lived.seen_by(None)
    stored = store_snapshot(tables, take_snapshot(chain, SETTINGS, 0))
    lived.hand.advance(50)
    again = store_snapshot(tables, take_snapshot(chain, SETTINGS, 0))
    for snapshot in (again, read_snapshot(tables, 0)):
        for name in ("epochs", "neurons", "commitments", "swaps"):
            assert getattr(snapshot, name).equals(getattr(stored, name))


@pytest.mark.parametrize("name", ["epochs", "neurons", "commitments"])
def test_a_chain_that_says_something_else_later_is_noticed_and_changes_nothing(lived, tables, name):
    snapshot = take_snapshot(lived.seen_by(None), SETTINGS, 0)
    store_snapshot(tables, snapshot)
    column = {"epochs": "boundary_hash", "neurons": "coldkey", "commitments": "status"}[name]
    liar = dataclasses.replace(snapshot, **{name: getattr(snapshot, name).with_columns(pl.lit("else").alias(column))})
    with pytest.raises(AffineError, match=f"snapshot_differs: {name} of epoch 0"):
        store_snapshot(tables, liar)
    assert getattr(read_snapshot(tables, 0), name).equals(getattr(snapshot, name))


def test_a_snapshot_that_was_cut_off_is_no_snapshot_until_it_is_taken_again(lived, tables):
    snapshot = take_snapshot(lived.seen_by(None), SETTINGS, 0)
    tables.freeze(NEURONS, 0, snapshot.neurons)
    tables.freeze(COMMITMENTS, 0, snapshot.commitments)
    assert tables.epochs(EPOCHS) == []
    with pytest.raises(AffineError, match="missing_input"):
        read_snapshot(tables, 0)
    store_snapshot(tables, snapshot)
    assert tables.epochs(EPOCHS) == [0]


def test_the_row_of_the_epoch_is_written_last(lived, tables, monkeypatch):
    written = []
    freeze = Tables.freeze
    monkeypatch.setattr(Tables, "freeze", lambda self, table, *rest: written.append(table) or freeze(self, table, *rest))
    store_snapshot(tables, take_snapshot(lived.seen_by(None), SETTINGS, 0))
    assert written[-1] is EPOCHS
    assert {table.name for table in written} == {NEURONS.name, COMMITMENTS.name, SWAPS.name, EPOCHS.name}


def test_an_epoch_in_which_nothing_happened_is_stored_too(world, tables):
    world.found(tempo=10)
    world.hand.advance(30)
    snapshot = store_snapshot(tables, take_snapshot(world.seen_by(None), SETTINGS, 1))
    assert (snapshot.epochs.height, snapshot.commitments.height, snapshot.swaps.height) == (1, 0, 0)


def test_of_two_commitments_in_one_extrinsic_the_last_stands(lived, monkeypatch):
    """A batch can commit twice at one position; it must not fail the epoch."""
    twice = [Commitment("h", 5, 3, b"one", "plain"), Commitment("h", 5, 3, b"two", "plain"), Commitment("h", 5, None, b"x", "plain")]
    monkeypatch.setattr(LocalChain, "commitments", lambda self, netuid, *, after, until: twice)
    taken = take_snapshot(lived.seen_by(None), SETTINGS, 0).commitments
    assert taken.select("extrinsic_index", "data").rows() == [(3, b"two"), (None, b"x")]
