"""An epoch's first and last block are what the chain counts, whatever its tempo was."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.chain.epochs import epoch_boundary, newest_closed_epoch
from affine_dagster.chain.keys import hotkey_from_uri
from affine_dagster.chain.local import LocalChain
from affine_dagster.chain.local_file import Genesis
from affine_dagster.chain.local_state import SubnetParameters
from affine_dagster.chain.local_world import LocalWorld
from affine_dagster.chain.port import ChainRejected
from affine_dagster.reasons import AffineError
from affine_dagster.settings import ChainSettings

NETUID = 120
SETTINGS = ChainSettings(netuid=NETUID, beacon_lag_blocks=3)


def _chain(path, born=0, tempo=10, genesis=None):
    world = LocalWorld(path, genesis=genesis)
    if born:
        world.advance(born)
    world.add_subnet(NETUID, hotkey_from_uri("//Owner").ss58_address, parameters=SubnetParameters(tempo=tempo))
    return world, LocalChain(path)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 30), st.lists(st.tuples(st.integers(1, 12), st.integers(1, 25)), min_size=1, max_size=5))
def test_epochs_tile_the_blocks_as_the_chain_counts_them(tmp_path_factory, born, stretches):
    world, chain = _chain(tmp_path_factory.mktemp("chain") / "chain.db", born, stretches[0][0])
    for tempo, blocks in stretches:
        world.change_subnet(NETUID, SubnetParameters(tempo=tempo))
        world.advance(blocks)
    head = chain.head().number
    by_epoch = itertools.groupby(range(born + 1, head + 1), key=lambda number: chain.subnet(NETUID, block=number).epoch_index)
    counted = {epoch: list(blocks) for epoch, blocks in by_epoch}
    running = max(counted)
    for epoch, blocks in counted.items():
        if epoch < running:
            assert epoch_boundary(chain, NETUID, epoch) == (blocks[0], blocks[-1])
    with pytest.raises(AffineError, match="epoch_not_closed"):
        epoch_boundary(chain, NETUID, running)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 60))
def test_the_newest_closed_epoch_is_the_newest_whose_beacon_block_is_closed(tmp_path_factory, lag, tempo, blocks):
    world, chain = _chain(tmp_path_factory.mktemp("chain") / "chain.db", tempo=tempo)
    world.advance(blocks)
    boundaries = {}
    for epoch in range(chain.subnet(NETUID, block=blocks).epoch_index):
        boundaries[epoch] = epoch_boundary(chain, NETUID, epoch)[1]
    expected = max((epoch for epoch, boundary in boundaries.items() if boundary + lag <= blocks), default=None)
    assert newest_closed_epoch(chain, ChainSettings(netuid=NETUID, beacon_lag_blocks=lag)) == expected


def test_an_epoch_from_before_a_much_shorter_tempo_is_found(tmp_path):
    world, chain = _chain(tmp_path / "chain.db", tempo=100)
    world.advance(300)
    world.change_subnet(NETUID, SubnetParameters(tempo=1))
    world.advance(4)
    assert [epoch_boundary(chain, NETUID, epoch) for epoch in (0, 1, 2, 3)] == [(1, 100), (101, 200), (201, 300), (301, 301)]


def test_an_epoch_closes_with_its_beacon_block(tmp_path):
    world, chain = _chain(tmp_path / "chain.db")
    world.advance(12)
    assert epoch_boundary(chain, NETUID, 0) == (1, 10)
    assert newest_closed_epoch(chain, SETTINGS) is None
    world.advance()
    assert newest_closed_epoch(chain, SETTINGS) == 0


def test_an_epoch_is_not_closed_before_its_pulse(tmp_path):
    """Blocks of 700 ms: the pulse at or after the beacon block comes some blocks later."""
    world, chain = _chain(tmp_path / "chain.db", genesis=Genesis(block_ms=700))
    world.advance(13)  # 9,100 ms; the pulse after block 13 is at 12,000 ms, in block 18
    closed = []
    for _ in range(7):
        closed.append(newest_closed_epoch(chain, SETTINGS))
        world.advance()
    assert closed == [None, None, None, None, None, 0, 0]


def test_before_the_subnet_is_founded_nothing_is_closed(tmp_path):
    world, chain = _chain(tmp_path / "chain.db", born=50)
    assert newest_closed_epoch(chain, SETTINGS) is None
    world.advance(2)
    assert newest_closed_epoch(chain, SETTINGS) is None


def test_a_chain_without_the_subnet_says_so(tmp_path):
    world, chain = _chain(tmp_path / "chain.db")
    world.advance(30)
    with pytest.raises(ChainRejected, match="no subnet 7"):
        epoch_boundary(chain, 7, 0)
    with pytest.raises(ChainRejected, match="no block in epoch -5"):
        epoch_boundary(chain, NETUID, -5)


def test_a_far_epoch_costs_few_reads(tmp_path, monkeypatch):
    world, chain = _chain(tmp_path / "chain.db", tempo=360)
    world.advance(2_000_000)
    reads = []
    read = LocalChain.subnet
    monkeypatch.setattr(LocalChain, "subnet", lambda self, netuid, *, block: reads.append(block) or read(self, netuid, block=block))
    assert epoch_boundary(chain, NETUID, 3) == (1081, 1440)
    assert len(reads) < 60
    reads.clear()
    newest_closed_epoch(chain, SETTINGS)
    assert len(reads) < 35
