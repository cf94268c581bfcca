"""Everything that happens to the development chain and is not a hotkey's call: time, subnets, registrations, stake, swaps.

No part of the port: the system under test must not be able to do these things. Every change lands in the open block and can
be read once ``advance`` (or the clock) has closed it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from affine_dagster.chain.local_file import ChainFile, Clock, Genesis, OpenBlock
from affine_dagster.chain.local_state import SubnetParameters, neurons_at, parameters_at, subnet_at
from affine_dagster.chain.port import ChainRejected, Neuron

__all__ = ["LocalWorld"]


class LocalWorld:
    """The hand that moves a development chain, and founds it where there is none.

    ``genesis`` counts for a new file, and must agree with an old one's if given (ChainRejected ``invalid``).
    """

    def __init__(self, path: Path, *, clock: Clock | None = None, genesis: Genesis | None = None) -> None:
        self._file = ChainFile(path, clock=clock, make=True, genesis=genesis)

    def advance(self, blocks: int = 1) -> int:
        """Close the open block and ``blocks - 1`` empty ones. Returns the new head."""
        return self._file.advance(blocks)

    def wind_clock(self, pace_ms: int) -> None:
        """From now on, for all who open the file with a clock, a block closes every ``pace_ms`` of it.

        A chain that is opened with a clock for the first time starts to run then, at its genesis' pace. Wind it again to let
        it go on from where it stood when nobody looked. Raises ChainRejected ``invalid`` without a clock.
        """
        self._file.wind_clock(pace_ms)

    def close(self) -> None:
        """Close this thread's connection."""
        self._file.close()

    def add_subnet(
        self, netuid: int, owner_hotkey: str, *, owner_coldkey: str | None = None, parameters: SubnetParameters | None = None
    ) -> None:
        """Found a subnet whose epoch 0 starts at the open block; the owner's hotkey gets uid 0, as on the main network."""
        made = parameters or SubnetParameters()
        _check(made)
        with self._file.writing() as block:
            if block.connection.execute("SELECT 1 FROM subnet WHERE netuid = ?", (netuid,)).fetchone():
                raise ChainRejected("invalid", f"subnet {netuid} exists")
            _record(block, "add_subnet", netuid=netuid, owner=owner_hotkey, parameters=asdict(made))
            _write_subnet(block, netuid, (block.number, 0), owner_hotkey, made)
            _write_neuron(block, netuid, Neuron(0, owner_hotkey, owner_coldkey or owner_hotkey, 0, False, 0, block.number))

    def change_subnet(self, netuid: int, parameters: SubnetParameters) -> None:
        """Other parameters from the open block on.

        A new tempo counts from the running epoch's start; where that is longer ago than the new tempo, the next epoch starts
        with the open block. So the epoch index never jumps.
        """
        _check(parameters)
        with self._file.writing() as block:
            state = subnet_at(block.connection, netuid, block.number)
            _record(block, "change_subnet", netuid=netuid, parameters=asdict(parameters))
            overdue = block.number - state.last_epoch_block >= parameters.tempo
            epoch = (block.number, state.epoch_index + 1) if overdue else (state.last_epoch_block, state.epoch_index)
            _write_subnet(block, netuid, epoch, state.owner_hotkey, parameters)

    def change_owner(self, netuid: int, owner_hotkey: str) -> None:
        """Another owner's hotkey from the open block on."""
        with self._file.writing() as block:
            state = subnet_at(block.connection, netuid, block.number)
            parameters = parameters_at(block.connection, netuid, block.number)
            _record(block, "change_owner", netuid=netuid, owner=owner_hotkey)
            _write_subnet(block, netuid, (state.last_epoch_block, state.epoch_index), owner_hotkey, parameters)

    def parameters(self, netuid: int) -> SubnetParameters:
        """The parameters in force in the open block."""
        return parameters_at(self._file.connection(), netuid, self._file.head() + 1)

    def register(self, netuid: int, hotkey: str, coldkey: str | None = None, *, stake_rao: int = 0, permit: bool = False) -> int:
        """Give a hotkey a uid: a free one, the next one, or that of the lowest-staked, then oldest neuron past its immunity.

        Raises ChainRejected ``invalid`` if it has one, ``limit_exceeded`` if all are immune. The owner's is always immune.
        """
        with self._file.writing() as block:
            neurons = neurons_at(block.connection, netuid, block.number)
            if any(neuron.hotkey == hotkey for neuron in neurons):
                raise ChainRejected("invalid", f"HotKeyAlreadyRegisteredInSubNet: {hotkey}")
            uid = _uid_for(block, netuid, neurons)
            _record(block, "register", netuid=netuid, hotkey=hotkey, coldkey=coldkey, stake_rao=stake_rao, permit=permit)
            _write_neuron(block, netuid, Neuron(uid, hotkey, coldkey or hotkey, stake_rao, permit, 0, block.number))
            return uid

    def deregister(self, netuid: int, hotkey: str) -> None:
        """Take a hotkey's uid away; the place is free. Raises ChainRejected ``not_registered``."""
        with self._file.writing() as block:
            neuron = _find(block, netuid, hotkey)
            _record(block, "deregister", netuid=netuid, hotkey=hotkey)
            block.connection.execute(
                "INSERT OR REPLACE INTO neuron VALUES (?, ?, ?, NULL, NULL, 0, 0, ?)", (netuid, neuron.uid, block.number, block.number)
            )

    def set_stake(self, netuid: int, hotkey: str, stake_rao: int, *, permit: bool | None = None) -> None:
        """Another stake, and permit if given. Raises ChainRejected ``not_registered``."""
        with self._file.writing() as block:
            old = _find(block, netuid, hotkey)
            held = old.validator_permit if permit is None else permit
            _record(block, "set_stake", netuid=netuid, hotkey=hotkey, stake_rao=stake_rao, permit=held)
            _write_neuron(block, netuid, replace(old, stake_rao=stake_rao, validator_permit=held))

    def swap_hotkey(self, netuid: int, old_hotkey: str, new_hotkey: str) -> None:
        """Move a registration to another hotkey. Commitments stay with the old one, as on the real chain (case A7)."""
        with self._file.writing() as block:
            old = _find(block, netuid, old_hotkey)
            if any(neuron.hotkey == new_hotkey for neuron in neurons_at(block.connection, netuid, block.number)):
                raise ChainRejected("invalid", f"HotKeyAlreadyRegisteredInSubNet: {new_hotkey}")
            position = _record(block, "swap_hotkey", netuid=netuid, old=old_hotkey, new=new_hotkey)
            _write_neuron(block, netuid, replace(old, hotkey=new_hotkey))
            block.connection.execute(
                "INSERT INTO swap VALUES (?, ?, ?, ?, ?, ?)", (netuid, block.number, position, old.coldkey, old_hotkey, new_hotkey)
            )


def _check(parameters: SubnetParameters) -> None:
    if parameters.tempo < 1 or parameters.max_uids < 1 or parameters.reveal_period_epochs < 1:
        raise ChainRejected("invalid", f"tempo, max_uids and reveal_period_epochs start at 1: {parameters}")


def _record(block: OpenBlock, call: str, **arguments: object) -> int:
    return block.record(call, json.dumps(arguments, sort_keys=True).encode())


def _write_subnet(block: OpenBlock, netuid: int, epoch: tuple[int, int], owner: str, parameters: SubnetParameters) -> None:
    block.connection.execute(
        "INSERT OR REPLACE INTO subnet VALUES (?, ?, ?, ?, ?, ?)", (netuid, block.number, *epoch, owner, json.dumps(asdict(parameters)))
    )


def _write_neuron(block: OpenBlock, netuid: int, neuron: Neuron) -> None:
    block.connection.execute(
        "INSERT OR REPLACE INTO neuron VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            netuid, neuron.uid, block.number, neuron.hotkey, neuron.coldkey, neuron.stake_rao, neuron.validator_permit,
            neuron.registered_at,
        ),
    )


def _find(block: OpenBlock, netuid: int, hotkey: str) -> Neuron:
    for neuron in neurons_at(block.connection, netuid, block.number):
        if neuron.hotkey == hotkey:
            return neuron
    raise ChainRejected("not_registered", hotkey)


def _uid_for(block: OpenBlock, netuid: int, neurons: list[Neuron]) -> int:
    state = subnet_at(block.connection, netuid, block.number)
    places = parameters_at(block.connection, netuid, block.number).max_uids
    free = set(range(places)) - {neuron.uid for neuron in neurons}
    if free:
        return min(free)
    mortal = [
        neuron
        for neuron in neurons
        if block.number - neuron.registered_at >= state.immunity_period and neuron.hotkey != state.owner_hotkey
    ]
    if not mortal:
        raise ChainRejected("limit_exceeded", f"all {places} neurons are immune")
    return min(mortal, key=lambda neuron: (neuron.stake_rao, neuron.registered_at, neuron.uid)).uid
