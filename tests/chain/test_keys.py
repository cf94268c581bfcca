"""Hotkeys are real, show their address only, and an error never quotes a secret."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from affine_dagster.chain.keys import hotkey_from_seed, hotkey_from_uri, is_address, read_hotkey, validator_hotkey, verify
from affine_dagster.reasons import AffineError
from affine_dagster.settings import ChainSettings

ALICE = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"  # pragma: allowlist secret
SEED = "0x" + "11" * 32


def test_the_development_key_has_the_address_that_substrate_documents():
    assert hotkey_from_uri("//Alice").ss58_address == ALICE


def test_a_signature_holds_for_its_message_and_its_key_alone():
    key = hotkey_from_uri("//Alice")
    signature = key.sign(b"message")
    assert verify(ALICE, b"message", signature)
    assert not verify(ALICE, b"massage", signature)
    assert not verify(hotkey_from_uri("//Bob").ss58_address, b"message", signature)
    assert not verify(ALICE, b"message", signature[:-1])
    assert not verify("nobody", b"message", signature)


def test_only_a_checked_address_is_an_address():
    assert is_address(ALICE)
    assert not is_address(ALICE[:-1] + "X")
    assert not is_address("")


def test_a_key_shows_its_address_only():
    key = hotkey_from_uri("bottom drive obey lake curtain smoke basket hold race lonely fit walk//Secret")
    assert repr(key) == str(key) == f"Hotkey({key.ss58_address})"
    assert not hasattr(key, "__dict__")


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_key_is_not_copied_out(way):
    with pytest.raises(TypeError, match="not pickled"):
        way(hotkey_from_uri("//Alice"))


@pytest.mark.parametrize(
    "content",
    [SEED, SEED[2:], SEED + "\n", json.dumps({"secretSeed": SEED, "ss58Address": "x"})],
    ids=["0x", "hex", "newline", "wallet"],
)
def test_a_seed_is_read_from_each_form_of_file(tmp_path, content):
    path = tmp_path / "hotkey"
    path.write_text(content)
    assert read_hotkey(path).ss58_address == hotkey_from_seed(SEED).ss58_address


def test_a_uri_is_read_from_a_file(tmp_path):
    path = tmp_path / "hotkey"
    path.write_text("//Alice\n")
    settings = ChainSettings(hotkey_file=path)
    key = validator_hotkey(settings)
    assert key is not None
    assert key.ss58_address == ALICE


def test_without_a_file_there_is_no_key():
    assert validator_hotkey(ChainSettings()) is None


@pytest.mark.parametrize(
    "content",
    [
        "", "   ", "correct horse battery staple", "0x" + "zz" * 32, '{"secretSeed": 5', "x" * 5000,
        '{"secretPhrase": "correct horse"}',  # pragma: allowlist secret
    ],
)
def test_a_file_that_holds_no_key_is_named_and_never_quoted(tmp_path, content):
    path = tmp_path / "hotkey"
    path.write_text(content)
    with pytest.raises(AffineError) as caught:
        read_hotkey(path)
    assert caught.value.code == "bad_settings"
    assert "chain.hotkey_file" in str(caught.value)
    assert not any(word in str(caught.value) for word in ("horse", "zz", "xxx"))
    assert caught.value.__cause__ is None


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(AffineError, match=r"chain\.hotkey_file.*FileNotFoundError"):
        read_hotkey(tmp_path / "nothing")


def test_an_empty_uri_is_not_the_public_development_key():
    with pytest.raises(AffineError, match="empty"):
        hotkey_from_uri("")
