"""The laws of the chain port, over every adapter of ``conftest.ADAPTERS``."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from affine_dagster.chain.local_state import SubnetParameters
from affine_dagster.chain.port import Commitment, HotkeySwap, WeightsReceipt

NETUID = 120


def test_a_block_has_a_hash_and_a_time_of_its_own(world):
    world.hand.advance(10)
    chain = world.seen_by(None)
    assert chain.head() == chain.block(10)
    assert len({chain.block(number).hash for number in range(11)}) == 11
    assert chain.block(4).timestamp_ms > chain.block(3).timestamp_ms


def test_a_block_that_is_not_closed_is_unavailable(world, refusal):
    world.found()
    chain, open_block = world.seen_by(None), world.seen_by(None).head().number + 1
    assert refusal(lambda: chain.block(open_block)) == "unavailable"
    assert refusal(lambda: chain.subnet(NETUID, block=open_block)) == "unavailable"
    assert refusal(lambda: chain.neurons(NETUID, block=open_block)) == "unavailable"
    assert refusal(lambda: chain.commitments(NETUID, after=0, until=open_block)) == "unavailable"
    assert refusal(lambda: chain.swaps(NETUID, after=0, until=open_block)) == "unavailable"
    assert refusal(lambda: chain.weights(NETUID, block=open_block)) == "unavailable"


def test_the_epoch_index_grows_by_one_each_tempo(world):
    world.found(tempo=10)
    world.hand.advance(40)
    chain = world.seen_by(None)
    states = [chain.subnet(NETUID, block=number) for number in range(1, 41)]
    assert [state.epoch_index for state in states] == [(number - 1) // 10 for number in range(1, 41)]
    assert all(state.last_epoch_block <= state.block < state.next_epoch_block for state in states)


@pytest.mark.parametrize("tempo", [3, 10, 25])
def test_a_new_tempo_never_makes_the_epoch_index_jump(world, tempo):
    world.found(tempo=10)
    world.hand.advance(6)
    world.hand.change_subnet(NETUID, SubnetParameters(tempo=tempo))
    world.hand.advance(60)
    chain = world.seen_by(None)
    indices = [chain.subnet(NETUID, block=number).epoch_index for number in range(1, 67)]
    assert {later - earlier for earlier, later in itertools.pairwise(indices)} == {0, 1}
    newest = chain.subnet(NETUID, block=66)
    assert newest.next_epoch_block - newest.last_epoch_block == tempo


def test_the_metagraph_is_by_uid_and_pinned_to_its_block(world):
    world.found()
    chain, keys = world.seen_by(None), world.keys
    before = chain.neurons(NETUID, block=1)
    world.hand.set_stake(NETUID, keys.first.ss58_address, 7, permit=True)
    world.hand.deregister(NETUID, keys.second.ss58_address)
    world.hand.advance()
    assert chain.neurons(NETUID, block=1) == before
    assert [neuron.hotkey for neuron in before] == [key.ss58_address for key in (keys.owner, keys.validator, keys.first, keys.second)]
    after = chain.neurons(NETUID, block=2)
    told = [(neuron.uid, neuron.stake_rao, neuron.validator_permit) for neuron in after]
    assert told == [(0, 0, False), (1, 5 * 10**12, True), (2, 7, True)]


@pytest.mark.parametrize("data", [b"x", b"{" * 128, b"y" * 129, b"z" * 512, bytes(range(256))], ids=["1", "128", "129", "512", "all bytes"])
def test_a_commitment_is_read_as_it_was_written(world, data):
    world.found()
    first = world.keys.first
    block = world.seen_by(first).commit(NETUID, data)
    world.hand.advance()
    chain = world.seen_by(None)
    (found,) = chain.commitments(NETUID, after=block - 1, until=block)
    assert (found.hotkey, found.block, found.data, found.status) == (first.ss58_address, block, data, "plain")
    assert chain.commitments(NETUID, after=block, until=block) == []


def test_a_hotkey_that_commits_twice_is_there_twice(world):
    """A5: the log is append-only; each commitment has its own block."""
    world.found()
    miner = world.seen_by(world.keys.first)
    blocks = []
    for data in (b"one", b"two"):
        blocks.append(miner.commit(NETUID, data))
        world.hand.advance(3)
    found = world.seen_by(None).commitments(NETUID, after=0, until=max(blocks))
    assert [(item.block, item.data) for item in found] == list(zip(blocks, (b"one", b"two"), strict=True))


def test_commitments_of_one_block_are_in_the_order_in_which_they_came(world):
    world.found()
    keys = world.keys
    blocks = [world.seen_by(key).commit(NETUID, b"same") for key in (keys.second, keys.first)]
    world.hand.advance()
    found = world.seen_by(None).commitments(NETUID, after=0, until=blocks[0])
    assert blocks[0] == blocks[1]
    assert [item.hotkey for item in found] == [keys.second.ss58_address, keys.first.ss58_address]
    assert found[0].extrinsic_index < found[1].extrinsic_index


def test_a_sealed_commitment_opens_at_its_reveal_block_and_keeps_its_position(world):
    world.found()
    block = world.seen_by(world.keys.first).commit(NETUID, b"secret", reveal_block=7)
    world.hand.advance(10)
    chain = world.seen_by(None)
    (sealed,) = chain.commitments(NETUID, after=0, until=6)
    (opened,) = chain.commitments(NETUID, after=6, until=7)
    assert sealed == Commitment(world.keys.first.ss58_address, block, sealed.extrinsic_index, None, "sealed", 7)
    assert opened == dataclasses.replace(sealed, data=b"secret", status="revealed")
    assert chain.commitments(NETUID, after=7, until=10) == []
    assert chain.commitments(NETUID, after=0, until=6) == [sealed]


@pytest.mark.parametrize(("size", "kind"), [(0, "invalid"), (513, "invalid")])
def test_a_commitment_of_no_or_too_many_bytes_is_refused(world, refusal, size, kind):
    world.found()
    assert refusal(lambda: world.seen_by(world.keys.first).commit(NETUID, b"x" * size)) == kind


def test_the_space_for_commitments_is_bounded_in_an_epoch_and_free_in_the_next(world, refusal):
    world.found(tempo=10)
    miner = world.seen_by(world.keys.first)
    for _ in range(6):
        miner.commit(NETUID, b"x" * 512)
        world.hand.advance()
    assert refusal(lambda: miner.commit(NETUID, b"x" * 512)) == "limit_exceeded"
    world.hand.advance(10)
    assert miner.commit(NETUID, b"x" * 512) == world.seen_by(None).head().number + 1


def test_an_outsider_cannot_commit(world, refusal):
    world.found()
    assert refusal(lambda: world.seen_by(world.keys.outsider).commit(NETUID, b"x")) == "not_registered"


def test_without_a_hotkey_a_chain_can_only_be_read(world, refusal):
    world.found()
    reader = world.seen_by(None)
    assert refusal(lambda: reader.commit(NETUID, b"x")) == "not_authorized"
    assert refusal(lambda: reader.set_weights(NETUID, {2: 1}, version_key=0)) == "not_authorized"


def test_a_taken_vector_is_in_force_from_its_block_on(world):
    world.found()
    validator = world.seen_by(world.keys.validator)
    receipt = validator.set_weights(NETUID, {2: 13107, 3: 52428}, version_key=0)
    world.hand.advance()
    assert receipt == WeightsReceipt("plain", 2, receipt.extrinsic_id)
    assert validator.weights(NETUID, block=1) == {}
    assert validator.weights(NETUID, block=2) == {1: {2: 16383, 3: 65535}}
    assert validator.neurons(NETUID, block=2)[1].last_update == 2


def test_the_same_vector_is_taken_again_each_tempo(world):
    """W2: identical weights are normal."""
    world.found(weights_rate_limit=10)
    validator = world.seen_by(world.keys.validator)
    blocks = []
    for _ in range(3):
        blocks.append(validator.set_weights(NETUID, {2: 65535}, version_key=0).block)
        world.hand.advance(10)
    assert blocks == [2, 12, 22]


def test_a_vector_too_soon_after_the_last_is_rate_limited(world, refusal):
    world.found(weights_rate_limit=5)
    validator = world.seen_by(world.keys.validator)
    validator.set_weights(NETUID, {2: 1}, version_key=0)
    world.hand.advance(4)
    assert refusal(lambda: validator.set_weights(NETUID, {2: 1}, version_key=0)) == "rate_limited"
    world.hand.advance()
    assert validator.set_weights(NETUID, {2: 1}, version_key=0).block == 7


@pytest.mark.parametrize(
    ("who", "weights", "parameters", "kind"),
    [
        ("outsider", {2: 1}, {}, "not_registered"),
        ("first", {3: 1}, {}, "not_authorized"),
        ("validator", {}, {}, "invalid"),
        ("validator", {2: 0}, {}, "invalid"),
        ("validator", {2: 65536}, {}, "invalid"),
        ("validator", {2: -1}, {}, "invalid"),
        ("validator", {2: float("nan")}, {}, "invalid"),
        ("validator", {9: 1}, {}, "invalid"),
        ("validator", {2: 1}, {"min_allowed_weights": 2}, "invalid"),
        ("validator", {2: 3, 3: 1}, {"max_weight_limit": 32768}, "invalid"),
        ("validator", {2: 1}, {"weights_version": 5}, "invalid"),
    ],
)
def test_a_vector_that_the_chain_cannot_take_is_refused_and_nothing_changes(world, refusal, who, weights, parameters, kind):
    world.found(**parameters)
    chain = world.seen_by(getattr(world.keys, who))
    assert refusal(lambda: chain.set_weights(NETUID, weights, version_key=0)) == kind
    world.hand.advance()
    assert chain.weights(NETUID, block=2) == {}
    assert all(neuron.last_update == 0 for neuron in chain.neurons(NETUID, block=2))


def test_with_commit_reveal_a_vector_comes_into_force_at_its_reveal_and_its_version_key_is_kept(world):
    """W4: a version key other than the default survives from commit to reveal."""
    world.found(commit_reveal=True, weights_version=1234, tempo=10)
    validator = world.seen_by(world.keys.validator)
    receipt = validator.set_weights(NETUID, {2: 65535}, version_key=1234)
    world.hand.advance(20)
    assert receipt.mode == "timelocked"
    assert receipt.reveal_round is not None
    assert validator.neurons(NETUID, block=2)[1].last_update == 2
    assert validator.weights(NETUID, block=10) == {}
    assert validator.weights(NETUID, block=11) == {1: {2: 65535}}


def test_a_vector_that_is_revealed_under_a_newer_version_is_not_taken(world):
    """W4: the key is judged again at the reveal."""
    world.found(commit_reveal=True, weights_version=7, tempo=10)
    validator = world.seen_by(world.keys.validator)
    validator.set_weights(NETUID, {2: 65535}, version_key=7)
    world.hand.advance()
    world.hand.change_subnet(NETUID, SubnetParameters(commit_reveal=True, weights_version=8, tempo=10))
    world.hand.advance(20)
    assert validator.weights(NETUID, block=20) == {}


def test_a_swap_is_told_and_moves_the_registration_but_no_commitment(world):
    """A7: part of the state stays on the old key."""
    world.found()
    keys = world.keys
    world.seen_by(keys.first).commit(NETUID, b"mine")
    world.hand.swap_hotkey(NETUID, keys.first.ss58_address, keys.outsider.ss58_address)
    world.hand.advance(2)
    chain = world.seen_by(None)
    coldkey = f"cold-{keys.first.ss58_address}"
    assert chain.swaps(NETUID, after=1, until=3) == [HotkeySwap(2, coldkey, keys.first.ss58_address, keys.outsider.ss58_address)]
    assert chain.swaps(NETUID, after=2, until=3) == []
    assert [neuron.hotkey for neuron in chain.neurons(NETUID, block=3)][2] == keys.outsider.ss58_address
    assert [item.hotkey for item in chain.commitments(NETUID, after=0, until=3)] == [keys.first.ss58_address]


def test_a_pulse_is_the_first_at_or_after_a_time_and_stays_what_it_is(world, refusal):
    world.hand.advance(5)
    chain = world.seen_by(None)
    head = chain.head()
    pulse = chain.pulse(after_ms=head.timestamp_ms)
    assert len(bytes.fromhex(pulse.randomness)) == 32
    assert refusal(lambda: chain.pulse(after_ms=head.timestamp_ms + 1)) == "unavailable"
    assert chain.pulse(after_ms=head.timestamp_ms - 1) == pulse
    earlier = chain.pulse(after_ms=chain.block(4).timestamp_ms)
    assert earlier.round < pulse.round
    world.hand.advance(5)
    assert chain.pulse(after_ms=head.timestamp_ms) == pulse
