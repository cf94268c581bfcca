"""Hotkeys: real sr25519 keys, made from a uri or a seed or read from the operator's file; signing and verifying.

What must not go in: a coldkey (nothing here needs one), and any text, error or representation that shows a secret.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn, Protocol

from affine_dagster.reasons import AffineError
from affine_dagster.settings import ChainSettings

__all__ = ["Hotkey", "Signer", "hotkey_from_seed", "hotkey_from_uri", "is_address", "read_hotkey", "validator_hotkey", "verify"]

_MAX_FILE_BYTES = 4096


class Signer(Protocol):
    """What a chain needs of a key: its address and its signature."""

    @property
    def ss58_address(self) -> str:
        """The public address."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The signature of a message, 64 bytes."""
        ...


class Hotkey:
    """An sr25519 hotkey. Shows its address only, and is neither copied nor pickled, so that its secret stays where it was read."""

    __slots__ = ("_pair", "ss58_address")

    def __init__(self, pair: Any) -> None:
        self._pair = pair
        self.ss58_address = str(pair.ss58_address)

    def sign(self, message: bytes) -> bytes:
        """The signature of a message, 64 bytes. sr25519 signatures are randomised: two of one message differ."""
        return bytes(self._pair.sign(message))

    def __repr__(self) -> str:
        return f"Hotkey({self.ss58_address})"

    def __reduce__(self) -> NoReturn:
        """Refuse: a pickle of a key is a secret in a place that nobody watches."""
        raise TypeError("a hotkey is not pickled or copied; read it again where it is needed")


def hotkey_from_uri(uri: str) -> Hotkey:
    """The hotkey of a secret uri (``//Alice``, ``<mnemonic>//path``). Raises ``bad_settings`` without quoting it."""
    from bittensor_core import Keypair

    if not uri.strip():  # the library would take the public development phrase
        raise AffineError("bad_settings", "a hotkey's uri is empty")
    try:
        return Hotkey(Keypair.create_from_uri(uri))
    except ValueError:
        raise AffineError("bad_settings", "a hotkey's uri or mnemonic cannot be read") from None  # the library's text may quote it


def hotkey_from_seed(seed: str) -> Hotkey:
    """The hotkey of a seed of 64 hex digits, with or without 0x. Raises ``bad_settings`` without quoting it."""
    from bittensor_core import Keypair

    try:
        return Hotkey(Keypair.create_from_seed(bytes.fromhex(seed.removeprefix("0x"))))
    except ValueError:
        raise AffineError("bad_settings", "a hotkey's seed is not 32 bytes in hex") from None  # the library's text may quote it


def read_hotkey(path: Path) -> Hotkey:
    """The hotkey in a file: a uri, a seed in hex, a mnemonic, or a wallet's JSON with ``secretSeed``.

    Raises ``bad_settings`` that names ``chain.hotkey_file`` and never its content.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_FILE_BYTES + 1).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise AffineError("bad_settings", f"chain.hotkey_file: {path}: {type(error).__name__}") from None
    if not text or len(text) > _MAX_FILE_BYTES:
        raise AffineError("bad_settings", f"chain.hotkey_file: {path}: empty or too long")
    try:
        return _from_text(text)
    except AffineError as error:
        raise AffineError("bad_settings", f"chain.hotkey_file: {path}: {error.detail}") from None


def _from_text(text: str) -> Hotkey:
    if text.startswith("{"):
        try:
            seed = json.loads(text).get("secretSeed")
        except ValueError:
            raise AffineError("bad_settings", "the wallet's JSON cannot be read") from None
        if not isinstance(seed, str):
            raise AffineError("bad_settings", "the wallet's JSON has no secretSeed")
        return hotkey_from_seed(seed)
    digits = text.removeprefix("0x")
    is_seed = len(digits) == 64 and all(sign in "0123456789abcdefABCDEF" for sign in digits)
    return hotkey_from_seed(text) if is_seed else hotkey_from_uri(text)


def validator_hotkey(chain: ChainSettings) -> Hotkey | None:
    """The validator's hotkey from ``chain.hotkey_file``, None where none is set (reads only). Raises ``bad_settings``."""
    return None if chain.hotkey_file is None else read_hotkey(chain.hotkey_file)


def verify(address: str, message: bytes, signature: bytes) -> bool:
    """Whether the signature is this address's over this message. False for an address that is none."""
    from bittensor_core import Keypair

    if len(signature) != 64 or not is_address(address):
        return False
    return bool(Keypair(ss58_address=address).verify(message, signature))


def is_address(text: str) -> bool:
    """Whether the text is an ss58 address."""
    from bittensor_core import decode_ss58

    try:
        decode_ss58(text)
    except ValueError:
        return False
    return True
