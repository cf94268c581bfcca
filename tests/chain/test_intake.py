"""Commitments are read item by item: one bad item costs itself alone, and order is the chain's or is not known."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.chain.intake import Named, decode_commitment, read_submissions, submission_id
from affine_dagster.chain.snapshot import take_snapshot
from affine_dagster.reasons import REASONS, AffineError
from affine_dagster.settings import ChainSettings
from affine_dagster.tables import COMMITMENTS, NEURONS

NETUID = 120
SETTINGS = ChainSettings(netuid=NETUID)
REVISION = "0123456789abcdef0123456789abcdef01234567"  # pragma: allowlist secret
GOOD = json.dumps({"model": "owner/name", "revision": REVISION}).encode()


def _commitments(*items, epoch=4):
    """Rows of (hotkey, block, index, data[, status, reveal_block])."""
    names = ("hotkey", "block", "extrinsic_index", "data", "status", "reveal_block")
    rows = [{"epoch": epoch, "status": "plain", "reveal_block": None, **dict(zip(names, item, strict=False))} for item in items]
    return COMMITMENTS.frame(rows)


def _neurons(*hotkeys, epoch=4):
    return NEURONS.frame([
        {
            "epoch": epoch, "uid": uid, "hotkey": hotkey, "coldkey": f"cold-{hotkey}", "stake_rao": 0, "validator_permit": False,
            "last_update": 0, "registered_at": 1,
        }
        for uid, hotkey in enumerate(hotkeys)
    ])


def _read(*items, earlier=None, **settings):
    return read_submissions(_commitments(*items), _neurons("a", "b"), ChainSettings(netuid=NETUID, **settings), earlier)


def _compact(length, width):
    return ((length << 2) | {1: 0, 2: 1, 4: 2}[width]).to_bytes(width, "little")


@pytest.mark.parametrize(
    "data",
    [
        GOOD, b"0x" + GOOD.hex().encode(), b"0x" + GOOD.hex().upper().encode(),
        _compact(len(GOOD), 2) + GOOD, _compact(len(GOOD), 4) + GOOD,
        b"0x" + (_compact(len(GOOD), 2) + GOOD).hex().encode(), b" " + GOOD + b"\n",
        json.dumps({"revision": REVISION, "model": "owner/name", "chute_id": "x", "n": [1, {}]}).encode(),
    ],
    ids=["json", "hex", "HEX", "compact2", "compact4", "hex of compact", "space", "more fields"],
)
def test_each_form_in_which_clients_hand_a_commitment_out_is_read(data):
    """A2: hex text, raw text, and raw text with its length in front."""
    assert decode_commitment(data) == Named("owner/name", REVISION)


def test_the_length_prefix_of_the_case_is_read():
    """A2: the raw string began with the characters 5 and 0x02, which say that 141 bytes follow."""
    body = json.dumps({"model": "owner/name", "revision": REVISION, "filler": ""}).encode()
    body = body.replace(b'""', b'"' + b"f" * (141 - len(body)) + b'"')
    assert decode_commitment(b"5\x02" + body) == Named("owner/name", REVISION)


def _object(**fields):
    return json.dumps({"model": "owner/name", "revision": REVISION, **fields}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"garbage", b"\xff\xfe{", b"{", b"[]", b"null", b"7", b'"text"', b"{}", b"[" * 512, b'{"a":' * 200, GOOD[:-1], GOOD + GOOD,
        b'{"model":"owner/name","model":"owner/name","revision":"' + REVISION.encode() + b'"}', GOOD.replace(b"}", b',"x":NaN}'),
        _object(revision=REVISION.upper()), _object(revision=REVISION[:-1]), _object(revision=REVISION + "\n"), _object(revision="main"),
        _object(revision=None), _object(revision=int(REVISION, 16)), _object(model=None), _object(model=["owner/name"]),
        _object(model="name"), _object(model="a/b/c"), _object(model="../name"), _object(model="owner/.."), _object(model="owner/a..b"),
        _object(model="/name"), _object(model="owner/"), _object(model="owner/na me"), _object(model="owner/name\n"),
        _object(model="owner/näme"), _object(model="owner/-name"), _object(model="owner/name-"), _object(model="owner/a--b"),
        _object(model="owner/" + "n" * 91), _object(model="owner/name.git"), _object(model="\ud800/name"), _object(model="o\x00/name"),
        _compact(len(GOOD) - 1, 2) + GOOD, b"0x" + GOOD.hex().encode()[:-1], b"0xzz", b"0x", GOOD.decode().encode("utf-16"), b" " * 5000,
    ],
)
def test_what_names_no_model_is_undecodable_and_says_why(data):
    with pytest.raises(AffineError) as caught:
        decode_commitment(data)
    assert caught.value.code == "undecodable"
    assert caught.value.detail


@given(st.one_of(st.binary(max_size=600), st.binary(max_size=60).map(lambda tail: GOOD[: len(tail)] + tail)))
def test_no_bytes_whatever_raise_anything_else(data):
    try:
        named = decode_commitment(data)
    except AffineError as error:
        assert error.code == "undecodable"
    else:
        assert ".." not in named.repo
        assert named.repo.count("/") == 1


def test_a_long_name_within_the_hubs_bound_is_taken():
    assert decode_commitment(_object(model="owner/" + "n" * 90)).repo == "owner/" + "n" * 90


def test_one_bad_item_costs_itself_alone_and_keeps_its_bytes():
    """A2: decode item by item."""
    made = _read(("a", 5, 0, GOOD), ("b", 5, 1, b"\x00garbage"), ("a", 6, 0, b"0x" + GOOD.hex().encode()))
    assert made["state"].to_list() == ["submitted", "undecodable", "submitted"]
    assert made["raw"].to_list() == [None, b"\x00garbage", None]
    assert made["reason"].to_list() == ["submitted", "undecodable", "submitted"]


@pytest.mark.parametrize(("bad", "good", "stops"), [(20, 0, True), (19, 0, False), (200, 1, False)])
def test_a_flood_of_undecodable_items_stops_the_epoch(bad, good, stops):
    """A2: if of at least 20 hotkeys nobody's can be decoded, it is the decoder; one that can shows that it works, whatever others send."""
    items = [(f"a{block}", block, 0, b"?") for block in range(bad)] + [(f"b{block}", 100 + block, 0, GOOD) for block in range(good)]
    if stops:
        with pytest.raises(AffineError, match="undecodable_epoch"):
            _read(*items)
    else:
        assert _read(*items).height == bad + good


def test_one_hotkey_cannot_stop_the_epoch_with_garbage():
    """The snapshot is frozen: an epoch that is stopped by garbage would be stopped for all, for ever."""
    made = _read(*[("a", block, 0, b"?") for block in range(500)], ("b", 600, 0, GOOD))
    assert made.filter(state="submitted")["hotkey"].to_list() == ["b"]


def test_sealed_items_are_no_flood():
    assert _read(*[("a", block, 0, None, "sealed", 900) for block in range(40)]).height == 40


def test_a_failed_reveal_is_a_state_of_its_own_and_the_next_commitment_an_ordinary_one():
    """A1."""
    made = _read(("a", 5, 0, None, "failed", 9), ("b", 6, 0, None, "sealed", 99), ("a", 10, 0, GOOD))
    assert made.select("state", "reason").rows() == [("failed", "reveal_failed"), ("sealed", "reveal_pending"), ("submitted", "submitted")]
    assert REASONS["reveal_failed"].next_step.startswith("commit again")


def test_every_commitment_of_a_hotkey_is_a_row_with_its_own_block():
    """A5: the log is append-only, so a dated rule sees the block of the commitment that it judges."""
    made = _read(("a", 100, 0, GOOD), ("a", 900, 0, _object(model="owner/other")))
    assert made.select("block", "repo").rows() == [(100, "owner/name"), (900, "owner/other")]
    assert made["submission_id"].n_unique() == 2


def test_items_of_one_block_are_ordered_by_their_extrinsic_index():
    """A8: neither by uid nor by hotkey."""
    made = _read(("b", 5, 3, GOOD), ("a", 5, 9, GOOD))
    assert made.select("hotkey", "state").rows() == [("b", "submitted"), ("a", "submitted")]


@pytest.mark.parametrize("indices", [(None, 9), (None, None)])
def test_where_an_index_of_a_shared_block_is_unknown_a_person_decides(indices):
    """A8."""
    made = _read(("a", 5, indices[1], GOOD), ("b", 5, indices[0], GOOD), ("a", 6, None, GOOD))
    assert made.select("state", "reason").rows() == [("review", "tie_needs_review")] * 2 + [("submitted", "submitted")]
    assert made["repo"].to_list() == ["owner/name"] * 3


def test_a_tie_with_a_commitment_of_an_earlier_epoch_is_seen_when_it_is_opened():
    """A8: the block-mates of a commitment that is opened now were read in the epoch of its block."""
    earlier = read_submissions(
        _commitments(("a", 5, None, None, "sealed", 50), ("b", 5, 2, GOOD), ("a", 7, None, None, "sealed", 50), epoch=3),
        _neurons("a", "b", epoch=3), SETTINGS,
    )
    made = _read(("a", 5, None, GOOD, "revealed", 50), ("a", 7, None, GOOD, "revealed", 50), earlier=earlier)
    assert made["state"].to_list() == ["review", "submitted"]
    assert earlier["state"].to_list() == ["sealed", "review", "sealed"]


def test_a_commitment_has_one_id_and_one_position_sealed_and_opened():
    sealed = _read(("a", 5, 2, None, "sealed", 50)).to_dicts()[0]
    opened = _read(("a", 5, 2, GOOD, "revealed", 50)).to_dicts()[0]
    for name in ("submission_id", "hotkey", "block", "extrinsic_index"):
        assert sealed[name] == opened[name]
    assert (sealed["state"], opened["state"]) == ("sealed", "submitted")


def test_an_id_is_short_safe_and_of_one_position():
    names = {submission_id(hotkey, block, index) for hotkey in "ab" for block in (1, 11) for index in (1, 11, None)}
    assert len(names) == 12
    assert all(len(name) == 25 and name[0] == "s" and set(name[1:]) <= set("0123456789abcdef") for name in names)


def test_the_uid_is_that_of_the_hotkey_at_the_boundary_and_none_for_one_that_left():
    """A11: by hotkey, never by an index that was remembered."""
    made = read_submissions(_commitments(("b", 5, 0, GOOD), ("gone", 5, 1, GOOD)), _neurons("x", "b"), SETTINGS)
    assert made.select("uid", "coldkey").rows() == [(1, "cold-b"), (None, None)]


def test_a_swapped_hotkey_inherits_nothing(world):
    """A7: the commitment stays with the old identity."""
    world.found(tempo=10)
    keys = world.keys
    world.seen_by(keys.first).commit(NETUID, GOOD)
    world.hand.swap_hotkey(NETUID, keys.first.ss58_address, keys.outsider.ss58_address)
    world.hand.advance(20)
    snapshot = take_snapshot(world.seen_by(None), SETTINGS, 0)
    made = read_submissions(snapshot.commitments, snapshot.neurons, SETTINGS)
    assert made.select("hotkey", "uid").rows() == [(keys.first.ss58_address, None)]


def test_an_epoch_without_commitments_gives_no_rows():
    assert read_submissions(_commitments(), _neurons("a"), SETTINGS).height == 0
