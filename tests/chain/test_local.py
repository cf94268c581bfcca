"""What the development chain adds to the port's laws: hashes, signatures, sealing, registration, the clock."""

from __future__ import annotations

import dataclasses
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affine_dagster.chain.keys import hotkey_from_uri
from affine_dagster.chain.local import LocalChain
from affine_dagster.chain.local_calls import SignedCall, apply_commit, commit_payload
from affine_dagster.chain.local_file import Genesis
from affine_dagster.chain.local_state import SubnetParameters
from affine_dagster.chain.local_world import LocalWorld

NETUID = 120
DEEDS = ("commit", "seal", "weights", "stake", "swap", "advance", "tempo")
KEYS = {name: hotkey_from_uri(f"//{name}") for name in ("Owner", "Validator", "First", "Second", "Third", "Fourth")}
ADDRESS = {name: key.ss58_address for name, key in KEYS.items()}


def _history(path, data=b"x", seed="development"):
    """A short history: the hand of the world, and the chain as the first miner sees it."""
    world = LocalWorld(path, genesis=Genesis(seed=seed))
    world.add_subnet(NETUID, ADDRESS["Owner"], parameters=SubnetParameters(tempo=10, weights_rate_limit=0))
    world.register(NETUID, ADDRESS["First"])
    world.advance(4)
    chain = LocalChain(path, KEYS["First"])
    chain.commit(NETUID, data)
    chain.commit(NETUID, b"sealed", reveal_block=9)
    world.advance(6)
    return world, chain


def _view(chain, until):
    blocks = [chain.block(number) for number in range(until + 1)]
    return (
        blocks, [chain.pulse(after_ms=block.timestamp_ms) for block in blocks],
        [(chain.subnet(NETUID, block=n), chain.neurons(NETUID, block=n), chain.weights(NETUID, block=n)) for n in range(1, until + 1)],
        [chain.commitments(NETUID, after=0, until=n) for n in range(until + 1)], chain.swaps(NETUID, after=0, until=until),
    )


def test_two_chains_made_the_same_way_are_equal(tmp_path):
    (_, one), (_, two) = _history(tmp_path / "one.db"), _history(tmp_path / "two.db")
    assert _view(one, 10) == _view(two, 10)
    sealed = [
        sqlite3.connect(tmp_path / name).execute("SELECT data FROM commitment WHERE reveal_block = 9").fetchone()
        for name in ("one.db", "two.db")
    ]
    assert sealed[0] == sealed[1]
    assert b"sealed" not in sealed[0][0]


def test_hashes_and_pulses_depend_on_what_was_written_before_them_and_on_nothing_later(tmp_path):
    (_, one), (_, two) = _history(tmp_path / "one.db", b"x"), _history(tmp_path / "two.db", b"y")
    same = [one.block(number) == two.block(number) for number in range(11)]
    assert same == [True] * 5 + [False] * 6
    times = [one.block(number).timestamp_ms for number in range(11)]
    assert [one.pulse(after_ms=time) == two.pulse(after_ms=time) for time in times] == same


def test_another_seed_gives_other_hashes_and_pulses(tmp_path):
    (_, one), (_, two) = _history(tmp_path / "one.db"), _history(tmp_path / "two.db", seed="another")
    assert all(one.block(number).hash != two.block(number).hash for number in range(11))
    assert one.pulse(after_ms=one.head().timestamp_ms) != two.pulse(after_ms=two.head().timestamp_ms)


def test_a_mistyped_path_is_no_empty_chain(tmp_path, refusal):
    assert refusal(lambda: LocalChain(tmp_path / "chain.bd")) == "unavailable"
    assert not (tmp_path / "chain.bd").exists()


def test_an_existing_chain_is_not_opened_as_another(tmp_path, refusal):
    LocalWorld(tmp_path / "chain.db", genesis=Genesis(seed="one"))
    assert refusal(lambda: LocalWorld(tmp_path / "chain.db", genesis=Genesis(seed="two"))) == "invalid"
    assert LocalChain(tmp_path / "chain.db").head().number == 0


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(1, 9)), max_size=14))
def test_what_was_read_once_at_a_block_is_read_for_ever(tmp_path_factory, deeds):
    """Whatever happens later, a pinned read gives the same value."""
    world, chain = _history(tmp_path_factory.mktemp("chain") / "chain.db")
    world.register(NETUID, ADDRESS["Validator"], permit=True)
    validator = LocalChain(chain._file.path, KEYS["Validator"])
    until = chain.head().number
    before = _view(chain, until)
    swapped = False
    for deed, amount in deeds:
        if deed == "commit" and not swapped:
            chain.commit(NETUID, bytes([amount]))
        elif deed == "seal" and not swapped:
            chain.commit(NETUID, b"s", reveal_block=chain.head().number + 1 + amount)
        elif deed == "weights":
            validator.set_weights(NETUID, {0: amount, 2: 1}, version_key=0)
        elif deed == "stake":
            world.set_stake(NETUID, ADDRESS["Validator"], amount)
        elif deed == "swap" and not swapped:
            world.swap_hotkey(NETUID, ADDRESS["First"], ADDRESS["Third"])
            swapped = True
        elif deed == "tempo":
            world.change_subnet(NETUID, SubnetParameters(tempo=amount, weights_rate_limit=0, commit_space=10**6))
        elif deed == "advance":
            world.advance(amount)
    world.advance()
    assert _view(chain, until) == before


def _signed(chain, signer, nonce, payload, said=None):
    message = SignedCall.message(chain._file, signer.ss58_address, nonce, payload)
    return SignedCall(said or signer.ss58_address, nonce, payload, signer.sign(message))


@pytest.mark.parametrize("fault", ["another's name", "another payload", "old nonce", "another chain"])
def test_a_call_that_is_not_signed_by_its_signer_for_this_chain_now_is_refused(tmp_path, refusal, fault):
    world, chain = _history(tmp_path / "chain.db")
    world.register(NETUID, ADDRESS["Second"])
    payload, signer = commit_payload(NETUID, b"x", None), KEYS["Second"]
    _, other = _history(tmp_path / "other.db", seed="another")
    call = {
        "another's name": lambda: _signed(chain, signer, 2, payload, said=ADDRESS["First"]),
        "another payload": lambda: SignedCall(
            signer.ss58_address, 0, commit_payload(NETUID, b"y", None), _signed(chain, signer, 0, payload).signature
        ),
        "old nonce": lambda: _signed(chain, KEYS["First"], 1, payload),
        "another chain": lambda: _signed(other, signer, 0, payload),
    }[fault]()

    def send():
        with chain._file.writing() as block:
            apply_commit(chain._file, block, call)

    assert refusal(send) == "invalid"
    with chain._file.writing() as block:
        assert apply_commit(chain._file, block, _signed(chain, signer, 0, payload)) == 11


@pytest.mark.parametrize("sealed", [b"x", b"no ciphertext at all, whatever it claims to be", bytes(540)])
def test_a_sealed_commitment_that_does_not_open_has_failed_and_the_next_one_stands(tmp_path, sealed):
    """A1: the state is shown, not lost; a second commitment is an ordinary one."""
    world, chain = _history(tmp_path / "chain.db")
    chain.commit_sealed(NETUID, sealed, reveal_block=15)
    world.advance(6)
    chain.commit(NETUID, b"again")
    world.advance()
    found = chain.commitments(NETUID, after=10, until=17)
    assert [(item.status, item.data) for item in found] == [("failed", None), ("plain", b"again")]
    assert [item.status for item in chain.commitments(NETUID, after=10, until=14)] == ["sealed"]


def test_sealed_bytes_do_not_open_for_one_who_copied_them(tmp_path):
    world, chain = _history(tmp_path / "chain.db")
    (bytes_,) = sqlite3.connect(tmp_path / "chain.db").execute("SELECT data FROM commitment WHERE reveal_block = 9").fetchone()
    world.register(NETUID, ADDRESS["Second"])
    chain_of_thief = LocalChain(tmp_path / "chain.db", KEYS["Second"])
    chain_of_thief.commit_sealed(NETUID, bytes_, reveal_block=20)
    world.advance(10)
    assert [item.status for item in chain.commitments(NETUID, after=10, until=20)] == ["failed"]


def test_a_reveal_block_that_has_passed_is_refused(tmp_path, refusal):
    _, chain = _history(tmp_path / "chain.db")
    assert refusal(lambda: chain.commit(NETUID, b"x", reveal_block=11)) == "invalid"


def test_commitments_of_a_hotkey_keep_their_distance_where_the_subnet_asks_for_it(tmp_path, refusal):
    world, chain = _history(tmp_path / "chain.db")
    world.change_subnet(NETUID, SubnetParameters(tempo=10, commit_rate_limit=9))
    assert refusal(lambda: chain.commit(NETUID, b"x")) == "rate_limited"
    world.advance(3)
    assert chain.commit(NETUID, b"x") == 14


def _full(path):
    """A subnet of three places: the owner's, First (stake 5, older), Second (stake 1, younger); immunity 10 blocks."""
    world = LocalWorld(path)
    world.add_subnet(NETUID, ADDRESS["Owner"], parameters=SubnetParameters(tempo=10, max_uids=3, immunity_period=10, weights_rate_limit=0))
    world.register(NETUID, ADDRESS["First"], stake_rao=5, permit=True)
    world.advance(3)
    world.register(NETUID, ADDRESS["Second"], stake_rao=1)
    world.advance()
    return world, LocalChain(path, KEYS["First"])


def test_in_a_full_subnet_all_immune_nobody_is_replaced(tmp_path, refusal):
    world, _ = _full(tmp_path / "chain.db")
    assert refusal(lambda: world.register(NETUID, ADDRESS["Third"])) == "limit_exceeded"


def test_the_lowest_stake_past_immunity_is_replaced_and_never_the_owner(tmp_path):
    world, chain = _full(tmp_path / "chain.db")
    world.advance(7)
    assert world.register(NETUID, ADDRESS["Third"]) == 1  # First alone is past its immunity
    world.advance(10)
    assert world.register(NETUID, ADDRESS["Fourth"]) == 1  # Third: stake 0 under Second's 1
    world.advance()
    assert [neuron.hotkey for neuron in chain.neurons(NETUID, block=22)] == [ADDRESS[name] for name in ("Owner", "Fourth", "Second")]


def test_of_equal_stake_the_oldest_is_replaced(tmp_path):
    world, _ = _full(tmp_path / "chain.db")
    world.advance(7)
    assert world.register(NETUID, ADDRESS["Third"], stake_rao=1) == 1  # younger than Second on uid 2, and of equal stake
    world.advance(10)
    assert world.register(NETUID, ADDRESS["Fourth"]) == 2


def test_the_weights_of_a_validator_end_with_its_registration(tmp_path):
    world, chain = _full(tmp_path / "chain.db")
    chain.set_weights(NETUID, {2: 1}, version_key=0)
    world.advance(20)
    assert chain.weights(NETUID, block=24) == {1: {2: 65535}}
    world.set_stake(NETUID, ADDRESS["First"], 0)
    assert world.register(NETUID, ADDRESS["Third"], permit=True) == 1
    world.advance()
    assert chain.weights(NETUID, block=25) == {}
    assert chain.neurons(NETUID, block=25)[1].last_update == 0
    assert chain.weights(NETUID, block=24) == {1: {2: 65535}}


def test_a_hotkey_has_one_place(tmp_path, refusal):
    world, _ = _full(tmp_path / "chain.db")
    assert refusal(lambda: world.register(NETUID, ADDRESS["First"])) == "invalid"
    assert refusal(lambda: world.swap_hotkey(NETUID, ADDRESS["First"], ADDRESS["Second"])) == "invalid"
    assert refusal(lambda: world.deregister(NETUID, ADDRESS["Third"])) == "not_registered"


def test_the_owner_can_change(tmp_path):
    world, chain = _history(tmp_path / "chain.db")
    world.change_owner(NETUID, ADDRESS["Third"])
    world.advance()
    assert [chain.subnet(NETUID, block=number).owner_hotkey for number in (10, 11)] == [ADDRESS["Owner"], ADDRESS["Third"]]
    assert chain.subnet(NETUID, block=11).epoch_index == 1


class _Clock:
    def __init__(self) -> None:
        self.now = 10**12

    def __call__(self) -> int:
        return self.now


def test_blocks_close_as_the_clock_passes_and_never_reopen(tmp_path):
    clock = _Clock()
    LocalWorld(tmp_path / "chain.db")
    chain = LocalChain(tmp_path / "chain.db", clock=clock)
    assert chain.head().number == 0
    clock.now += 11_999
    assert chain.head().number == 0
    clock.now += 1
    assert chain.head().number == 1
    clock.now += 36_000
    assert chain.head().number == 4
    clock.now -= 10**9
    assert chain.head().number == 4


def test_a_wound_clock_has_its_own_pace_and_goes_on_from_the_head(tmp_path):
    clock = _Clock()
    world, _ = _history(tmp_path / "chain.db")
    running = LocalWorld(tmp_path / "chain.db", clock=clock)
    running.wind_clock(250)
    chain = LocalChain(tmp_path / "chain.db", KEYS["First"], clock=clock)
    clock.now += 1000
    assert chain.head().number == 14
    assert chain.head().timestamp_ms - chain.block(13).timestamp_ms == 12_000
    clock.now += 10**9
    running.wind_clock(250)
    stood = chain.head().number
    clock.now += 250
    assert chain.head().number == stood + 1
    assert world.advance(5) == stood + 6
    assert chain.head().number == stood + 6


def test_under_a_clock_a_commitment_lands_in_a_block_that_nobody_has_read(tmp_path):
    clock = _Clock()
    world = LocalWorld(tmp_path / "chain.db", clock=clock)
    world.add_subnet(NETUID, ADDRESS["Owner"])
    world.register(NETUID, ADDRESS["First"])
    chain, reader = LocalChain(tmp_path / "chain.db", KEYS["First"], clock=clock), LocalChain(tmp_path / "chain.db", clock=clock)
    for _ in range(5):
        clock.now += 17_000
        before = reader.head()
        assert chain.commit(NETUID, b"x") == before.number + 1
        assert reader.block(before.number) == before
    clock.now += 12_000
    assert [item.block for item in reader.commitments(NETUID, after=0, until=reader.head().number)] == [2, 3, 5, 6, 8]


def test_without_a_clock_none_is_wound(tmp_path, refusal):
    assert refusal(lambda: LocalWorld(tmp_path / "chain.db").wind_clock(5)) == "invalid"


def test_a_year_of_blocks_passes_in_one_write(tmp_path):
    world, chain = _history(tmp_path / "chain.db")
    world.advance(2_628_000)
    assert chain.head().number == 2_628_010
    assert chain.subnet(NETUID, block=2_628_010).epoch_index == 262_800


@pytest.mark.parametrize("parameters", [SubnetParameters(tempo=0), SubnetParameters(max_uids=0), SubnetParameters(reveal_period_epochs=0)])
def test_a_subnet_without_tempo_or_places_is_refused(tmp_path, refusal, parameters):
    world = LocalWorld(tmp_path / "chain.db")
    assert refusal(lambda: world.add_subnet(1, ADDRESS["Owner"], parameters=parameters)) == "invalid"


def test_a_subnet_is_founded_once(tmp_path, refusal):
    world, chain = _history(tmp_path / "chain.db")
    assert refusal(lambda: world.add_subnet(NETUID, ADDRESS["Owner"])) == "invalid"
    assert refusal(lambda: chain.subnet(NETUID, block=0)) == "invalid"
    assert refusal(lambda: chain.subnet(7, block=5)) == "invalid"


def test_the_parameters_of_the_open_block_can_be_changed_one_at_a_time(tmp_path):
    world, chain = _history(tmp_path / "chain.db")
    world.change_subnet(NETUID, dataclasses.replace(world.parameters(NETUID), immunity_period=77))
    assert world.parameters(NETUID) == SubnetParameters(tempo=10, weights_rate_limit=0, immunity_period=77)
    world.advance()
    assert [chain.subnet(NETUID, block=number).immunity_period for number in (10, 11)] == [4096, 77]


def test_a_write_that_fails_on_the_disk_is_a_refusal_and_leaves_nothing(tmp_path, refusal):
    world, chain = _history(tmp_path / "chain.db")
    sql = chain._file.connection()
    pages = sql.execute("PRAGMA page_count").fetchone()[0]
    sql.execute(f"PRAGMA max_page_count = {pages}")
    world.change_subnet(NETUID, SubnetParameters(tempo=10, commit_space=10**9))

    def fill():
        for _ in range(500):
            chain.commit(NETUID, b"x" * 512)

    assert refusal(fill) == "unavailable"
    world.advance()
    head = world.advance()
    count = len(chain.commitments(NETUID, after=10, until=head))
    calls = sqlite3.connect(tmp_path / "chain.db").execute("SELECT count(*) FROM extrinsic WHERE call = 'commit' AND block > 10").fetchone()
    assert (count,) == calls
