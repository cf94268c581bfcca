"""Weights are kept by hotkey, mapped to uids at the last moment, and every attempt is told for what it was."""

from __future__ import annotations

import dataclasses
import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affine_dagster.chain.local import LocalChain
from affine_dagster.chain.local_calls import within_max_weight
from affine_dagster.chain.local_state import SubnetParameters
from affine_dagster.chain.port import ChainRejected, Neuron, SubnetState
from affine_dagster.chain.sending import U16, plan_weights, send_weights, sendable_epoch, skip_weights, weights_age, why_not_sent
from affine_dagster.reasons import REASONS, AffineError
from affine_dagster.settings import ChainSettings, Settings, WeightSettings
from affine_dagster.store import Store, Tables
from affine_dagster.tables import WEIGHTS

NETUID = 120
SETTINGS = Settings(chain=ChainSettings(netuid=NETUID))
STATE = SubnetState(NETUID, 10, 10, 0, 1, 11, 0, 1, U16, 0, False, 10, "burn")


def _weights(parts, burn="burn", **columns):
    """WEIGHTS rows of a mapping from hotkey to weight."""
    rows = [
        {
            "epoch": 4, "rule": "frontier_credits", "hotkey": hotkey, "burn": hotkey == burn, "weight": weight, "share": weight / U16,
            "sendable": True, "reason": "credited",
        }
        for hotkey, weight in parts.items()
    ]
    return WEIGHTS.frame(rows).with_columns(**{name: pl.lit(value) for name, value in columns.items()})


def _neurons(*hotkeys):
    return [Neuron(uid, hotkey, hotkey, 0, False, 0, 1) for uid, hotkey in enumerate(hotkeys) if hotkey]


def _plan(parts, hotkeys, state=STATE, **weights):
    plan = plan_weights(_weights(parts), _neurons(*hotkeys), state, Settings(weights=WeightSettings(**weights)))
    return dict(zip(plan.uids, plan.values, strict=True)), plan.dropped


def test_hotkeys_are_mapped_to_the_uids_of_the_metagraph():
    """A10, A11: no index that was remembered, whatever the size of the metagraph was."""
    assert _plan({"a": 40000, "b": 25535}, ["burn", "", "b", "a"]) == ({2: 25535, 3: 40000}, ())
    assert _plan({"a": 40000, "b": 25535}, ["a", "burn", *"cdefgh", "b"]) == ({0: 40000, 8: 25535}, ())


def test_a_stranger_on_a_uid_does_not_inherit_its_weight():
    """W5: the place of hotkey b now belongs to x; the weight is burned."""
    assert _plan({"a": 40000, "b": 25535}, ["burn", "a", "x"]) == ({0: 25535, 1: 40000}, ("b",))


def test_without_a_burn_hotkey_the_rest_shares_in_proportion():
    """W5: 2 : 1 of 65,535 after the third has gone."""
    assert _plan({"a": 20000, "b": 10000, "c": 35535}, ["a", "b"]) == ({0: 43690, 1: 21845}, ("c",))


def test_a_burn_row_that_is_registered_goes_before_the_one_of_the_settings():
    weights = _weights({"old": 35535, "a": 20000, "gone": 10000}, burn="old")
    plan = plan_weights(weights, _neurons("old", "a", "burn"), STATE, SETTINGS)
    assert (plan.uids, plan.values) == ((0, 1), (45535, 20000))


def test_everything_to_the_burn_hotkey_is_a_vector_like_another():
    assert _plan({"burn": U16}, ["a", "burn"]) == ({1: U16}, ())
    assert _plan({"a": U16}, ["x", "burn"]) == ({1: U16}, ("a",))


def test_a_weight_of_zero_is_not_sent():
    """W7: 1e-6 is 0 in u16."""
    assert _plan({"a": U16, "b": 0}, ["a", "b"]) == ({0: U16}, ())


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 1000), min_size=1), st.sets(st.sampled_from("abcdefgh")), st.booleans())
def test_whoever_is_gone_the_vector_sums_to_its_whole_and_pays_no_stranger(parts, here, burned):
    total = sum(parts.values())
    weights = {hotkey: part * U16 // max(1, total) for hotkey, part in parts.items()}
    weights["burn"] = U16 - sum(weights.values())
    hotkeys = [*sorted(here), *(["burn"] if burned else [])]
    paid = [hotkey for hotkey, weight in weights.items() if weight and hotkey in hotkeys]
    if not paid and not burned:
        with pytest.raises(AffineError, match="not_sendable"):
            _plan(weights, hotkeys)
        return
    sent, dropped = _plan(weights, hotkeys)
    assert sum(sent.values()) == U16
    assert {hotkeys[uid] for uid in sent} <= {*paid, "burn"}
    assert set(dropped) == {hotkey for hotkey, weight in weights.items() if weight and hotkey not in hotkeys}
    if burned:
        assert all(value == weights[hotkeys[uid]] for uid, value in sent.items() if hotkeys[uid] != "burn")


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=20), st.integers(1, U16))
def test_a_vector_within_the_chains_maximum_is_made_where_there_is_one(parts, limit):
    """W7: the chain's own judgement, on the vector as the chain keeps it."""
    total = sum(parts)
    weights = {f"h{number}": part * (U16 - len(parts)) // total + 1 for number, part in enumerate(parts)}
    weights["h0"] += U16 - sum(weights.values())
    state = dataclasses.replace(STATE, max_weight_limit=limit)
    hotkeys = [f"h{number}" for number in range(len(parts))]
    if len(parts) * limit < U16:
        with pytest.raises(AffineError, match="not_sendable"):
            _plan(weights, hotkeys, state)
        return
    try:
        sent, _ = _plan(weights, hotkeys, state)
    except AffineError as error:
        assert error.code == "not_sendable"
        assert len(parts) * (limit - 2) < U16  # only where even equal parts are over it by a rounding
        return
    assert sum(sent.values()) == U16
    assert within_max_weight(sent, limit)
    if within_max_weight(dict(enumerate(weights.values())), limit) and max(weights.values()) <= limit:
        assert sent == dict(enumerate(weights.values()))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (WEIGHTS.empty(), "no weights"),
        (_weights({"a": 65534}), "sum to 65534"),
        (_weights({"a": 3, "b": 2}), "sum to 5"),
        (_weights({"a": 0, "b": 0}), "sum to 0"),
        (_weights({"a": 70000, "b": U16 - 70000}), "outside"),
        (_weights({"a": U16}, share=float("nan")), r"not in \[0, 1\]"),
        (_weights({"a": U16}, share=float("inf")), r"not in \[0, 1\]"),
        (_weights({"a": U16}, share=-1.0), r"not in \[0, 1\]"),
        (_weights({"a": U16}, share=0.5), "shares do not sum"),
        (_weights({"a": U16}).with_columns(share=pl.lit(None, pl.Float64)), "missing"),
        (_weights({"a": U16}).with_columns(weight=pl.lit(None, pl.Int64)), "missing"),
        (_weights({"a": U16}, sendable=False), "not sendable"),
        (_weights({"a": 60000, "burn": 5535}, burn="none"), "contestant"),
        (pl.concat([_weights({"a": U16}), _weights({"b": U16}, rule="elo_ladder")]), "several"),
        (_weights({"a": U16}, epoch=3).cast({"epoch": pl.Int64}), "epoch 4"),
    ],
)
def test_bad_input_is_never_sent_and_the_failed_check_is_told(world, weights, message):
    """W7, W8: a refusal that names the check."""
    world.found()
    world.hand.change_owner(NETUID, "burn")
    world.hand.advance()
    chain = world.seen_by(world.keys.validator)
    row = _one(send_weights(chain, SETTINGS, weights, 4, 1, "s1"))
    assert row["class"] == "not_sendable"
    assert re.search(message, row["message"])
    world.hand.advance()
    assert chain.weights(NETUID, block=3) == {}


def test_too_few_weights_for_the_subnet_are_not_sent():
    with pytest.raises(AffineError, match="at least 3"):
        _plan({"a": U16}, ["a"], dataclasses.replace(STATE, min_allowed_weights=3))


def _vector(world, **parts):
    keys = world.keys
    return _weights({getattr(keys, name).ss58_address: weight for name, weight in parts.items()}, burn=keys.owner.ss58_address)


def _one(frame):
    (row,) = frame.to_dicts()
    assert row["reason"] in REASONS
    return row


def test_a_vector_that_the_chain_took_is_told_with_its_receipt(world):
    world.found()
    chain = world.seen_by(world.keys.validator)
    row = _one(send_weights(chain, SETTINGS, _vector(world, first=40000, second=25535), 4, 1, "s1"))
    assert (row["class"], row["reason"], row["block"], row["mode"]) == ("ok", "sent", 2, "plain")
    assert (row["uids"], row["values"], row["dropped_hotkeys"], row["scorer"]) == ([2, 3], [40000, 25535], [], "s1")
    world.hand.advance()
    assert chain.weights(NETUID, block=2) == {1: {2: 65535, 3: 41835}}


def test_a_uid_that_changed_hands_just_before_is_not_paid(world):
    """W5, on the chain: uid 3 is another's when the weights are sent."""
    world.found()
    world.hand.deregister(NETUID, world.keys.second.ss58_address)
    assert world.hand.register(NETUID, world.keys.outsider.ss58_address) == 3
    world.hand.advance()
    row = _one(send_weights(world.seen_by(world.keys.validator), SETTINGS, _vector(world, first=40000, second=25535), 4, 1, "s1"))
    assert (row["uids"], row["values"], row["dropped_hotkeys"]) == ([0, 2], [25535, 40000], [world.keys.second.ss58_address])


def test_the_same_vector_is_sent_again_each_tempo(world):
    """W2."""
    world.found(weights_rate_limit=10, tempo=10)
    chain, vector = world.seen_by(world.keys.validator), _vector(world, first=U16)
    classes = []
    for attempt in range(3):
        classes.append(_one(send_weights(chain, SETTINGS, vector, 4, attempt, "s1"))["class"])
        world.hand.advance(10)
    assert classes == ["ok"] * 3


def test_too_soon_is_told_apart_from_a_failure(world):
    """A14."""
    world.found(weights_rate_limit=10)
    chain, vector = world.seen_by(world.keys.validator), _vector(world, first=U16)
    send_weights(chain, SETTINGS, vector, 4, 1, "s1")
    world.hand.advance(2)
    row = _one(send_weights(chain, SETTINGS, vector, 4, 2, "s1"))
    assert (row["class"], row["reason"]) == ("rate_limited", "rate_limited")
    assert "next at block 12" in row["message"]
    assert row["values"] == [U16]


def test_a_version_key_other_than_the_default_reaches_the_chain(world):
    """W4."""
    world.found(weights_version=1234, commit_reveal=True, tempo=10)
    chain, vector = world.seen_by(world.keys.validator), _vector(world, first=U16)
    wrong = _one(send_weights(chain, SETTINGS, vector, 4, 1, "s1"))
    assert (wrong["class"], wrong["reason"]) == ("rejected", "chain_rejected")
    assert "IncorrectWeightVersionKey" in wrong["message"]
    settings = SETTINGS.model_copy(update={"weights": WeightSettings(version_key=1234)})
    right = _one(send_weights(chain, settings, vector, 4, 2, "s1"))
    assert (right["class"], right["mode"]) == ("ok", "timelocked")
    world.hand.advance(20)
    assert chain.weights(NETUID, block=20) == {1: {2: 65535}}


@pytest.mark.parametrize("answer", [True, "ok", None, {"success": True}, object()])
def test_only_a_receipt_is_success(world, monkeypatch, answer):
    """W1: an answer that merely looks true is a failure."""
    world.found()
    chain = world.seen_by(world.keys.validator)
    monkeypatch.setattr(LocalChain, "set_weights", lambda self, netuid, weights, *, version_key: answer)
    row = _one(send_weights(chain, SETTINGS, _vector(world, first=U16), 4, 1, "s1"))
    assert (row["class"], row["reason"], row["block"]) == ("rejected", "chain_rejected", None)


@pytest.mark.parametrize(
    ("kind", "told", "reason"),
    [
        ("rate_limited", "rate_limited", "rate_limited"), ("timeout", "timeout", "chain_timeout"),
        ("unavailable", "timeout", "chain_unavailable"), ("invalid", "rejected", "chain_rejected"),
        ("not_registered", "rejected", "no_permit"), ("not_authorized", "rejected", "no_permit"), ("unknown", "rejected", "chain_rejected"),
    ],
)
@pytest.mark.parametrize("call", ["set_weights", "neurons"])
def test_every_refusal_is_told_by_its_class_and_none_is_raised(world, monkeypatch, call, kind, told, reason):
    """A14."""
    world.found()

    def refuse(*_arguments, **_named):
        raise ChainRejected(kind, "because")

    monkeypatch.setattr(LocalChain, call, refuse)
    row = _one(send_weights(world.seen_by(world.keys.validator), SETTINGS, _vector(world, first=U16), 4, 1, "s1"))
    assert (row["class"], row["reason"]) == (told, reason)
    assert "because" in row["message"]


def test_a_failed_attempt_does_not_stand_in_the_way_of_the_next(world, monkeypatch):
    """A10: nothing is kept from one attempt to the next."""
    world.found()
    chain, vector = world.seen_by(world.keys.validator), _vector(world, first=U16)
    with monkeypatch.context() as once:
        once.setattr(LocalChain, "neurons", lambda self, netuid, *, block: _neurons("x"))
        assert _one(send_weights(chain, SETTINGS, vector, 4, 1, "s1"))["class"] == "not_sendable"
    assert _one(send_weights(chain, SETTINGS, vector, 4, 2, "s1"))["class"] == "ok"


def test_an_error_that_is_no_refusal_is_not_hidden(world, monkeypatch):
    world.found()

    def fail(*_arguments, **_named):
        raise ZeroDivisionError

    monkeypatch.setattr(LocalChain, "neurons", fail)
    with pytest.raises(ZeroDivisionError):
        send_weights(world.seen_by(world.keys.validator), SETTINGS, _vector(world, first=U16), 4, 1, "s1")


@pytest.mark.parametrize(("who", "message"), [("first", "has no validator permit"), ("outsider", "is not registered")])
def test_a_sender_without_permit_is_told_so_before_anything_is_sent(world, who, message):
    world.found()
    key = getattr(world.keys, who)
    row = _one(send_weights(world.seen_by(key), SETTINGS, _vector(world, first=U16), 4, 1, "s1", hotkey=key.ss58_address))
    assert (row["class"], row["reason"]) == ("not_sendable", "no_permit")
    assert message in row["message"]


def test_a_dry_run_shows_the_vector_and_sends_nothing(world):
    world.found()
    chain = world.seen_by(world.keys.validator)
    settings = SETTINGS.model_copy(update={"weights": WeightSettings(dry_run=True)})
    row = _one(send_weights(chain, settings, _vector(world, first=40000, second=25535), 4, 1, "s1"))
    world.hand.advance()
    assert (row["class"], row["uids"], row["values"]) == ("dry_run", [2, 3], [40000, 25535])
    assert chain.weights(NETUID, block=2) == {}


def test_the_chains_maximum_is_met_before_the_chain_refuses(world):
    """W7."""
    world.found(max_weight_limit=40000)
    chain = world.seen_by(world.keys.validator)
    row = _one(send_weights(chain, SETTINGS, _vector(world, first=60000, second=5535), 4, 1, "s1"))
    assert row["class"] == "ok"
    assert sum(row["values"]) == U16
    alone = _one(send_weights(chain, SETTINGS, _vector(world, first=U16), 4, 2, "s1"))
    assert alone["class"] == "not_sendable"
    assert "cannot all be at most 40000" in alone["message"]


def test_the_burn_hotkey_is_no_contestant(world):
    """W8: a vector in which the burn hotkey won like a miner is not sent."""
    world.found()
    vector = _vector(world, owner=U16).with_columns(burn=pl.lit(value=False))
    row = _one(send_weights(world.seen_by(world.keys.validator), SETTINGS, vector, 4, 1, "s1"))
    assert row["class"] == "not_sendable"
    assert "contestant" in row["message"]


def test_a_decision_not_to_send_is_a_row_too():
    row = _one(skip_weights(3, 1, "s1", message="epoch 4 is newer"))
    assert (row["class"], row["reason"], row["message"], row["uids"]) == ("skipped", "skipped_historical", "epoch 4 is newer", [])


def _kept(tmp_path, **epochs_of_scorer):
    """Tables with weights: by scorer, a mapping from epoch to whether its vector is sendable."""
    tables = Tables(Store(str(tmp_path)))
    for scorer, epochs in epochs_of_scorer.items():
        for epoch, sendable in epochs.items():
            tables.write(WEIGHTS, epoch, _weights({"a": U16}, epoch=epoch, sendable=sendable).cast({"epoch": pl.Int64}), scorer)
    return tables


def test_the_newest_sendable_vector_is_due_and_older_ones_are_history(tmp_path):
    """DESIGN section 6: a newest vector that fails its checks stops nothing."""
    tables = _kept(tmp_path, s1={3: True, 4: True, 5: False})
    assert sendable_epoch(tables, "s1") == 4
    assert why_not_sent(tables, "s1", 3) == ("skipped_historical", "epoch 4 is the newest with weights that may be sent")
    assert [why_not_sent(tables, "s1", epoch) for epoch in (4, 5)] == [None, None]


def test_a_rescoring_that_walks_through_history_sends_nothing(tmp_path):
    """No backfill sends: the newest epoch of another scorer version can be years old."""
    tables = _kept(tmp_path, s1={3: True, 4: True, 5: True}, s2={3: True, 4: True})
    assert sendable_epoch(tables, "s2") is None
    elsewhere = "epoch 5 has weights under other settings: run the job rescore first"
    assert why_not_sent(tables, "s2", 4) == ("skipped_historical", elsewhere)
    assert why_not_sent(tables, "s2", 5) == why_not_sent(tables, "new", 5) == ("no_vector", elsewhere)
    assert sendable_epoch(_kept(tmp_path, s2={5: True}), "s2") == 5
    assert sendable_epoch(_kept(tmp_path / "none"), "s2") is None


def test_an_epoch_without_weights_has_its_own_reason(tmp_path):
    tables = _kept(tmp_path, s1={4: False})
    assert sendable_epoch(tables, "s1") is None
    assert why_not_sent(tables, "s1", 4) is None, "its own check says why"
    assert why_not_sent(tables, "s1", 5) == ("no_vector", "epoch 5 has no weights yet")
    assert _one(skip_weights(5, 0, "s1", "no_vector", "why"))["class"] == "not_sendable"


def test_the_age_of_weights_counts_from_the_last_that_were_taken(world):
    """W2: what the alarm is raised from."""
    world.found()
    chain, own = world.seen_by(world.keys.validator), world.keys.validator.ss58_address
    assert weights_age(chain, NETUID, own) is None
    assert weights_age(chain, NETUID, world.keys.outsider.ss58_address) is None
    send_weights(chain, SETTINGS, _vector(world, first=U16), 4, 1, "s1")
    world.hand.advance(25)
    assert weights_age(chain, NETUID, own) == 24
    world.hand.change_subnet(NETUID, SubnetParameters(weights_rate_limit=1000))
    send_weights(chain, SETTINGS, _vector(world, first=U16), 4, 2, "s1")
    world.hand.advance()
    assert weights_age(chain, NETUID, own) == 25
