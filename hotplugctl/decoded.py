"""The hex of an `lspci -xxxx` listing among what people sent, decoded as a machine's own config space is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from . import config, probe
from .host import dump
from .look import look
from .model import Device, Machine, Port, Profile
from .readers.filling import filled


def completed(
    machine: Machine, dumps: Sequence[str], settings: config.Settings, profiles: Sequence[Profile]
) -> Machine:
    """The machine with what the bytes tell beyond the words of the listing; the words go first."""
    for text in dumps:
        host = dump.from_text(text)
        if host is not None:
            seen = look(host, settings, profiles)
            found = probe.machine(seen, all_pci=True, close=True)
            ports = tuple(port for f in seen.functions if f.is_bridge and (port := seen.port(f.address)) is not None)
            machine = replace(machine, devices=_devices(machine.devices, found.devices),
                              ports=_ports(machine.ports, ports))
    return machine


def _devices(told: Sequence[Device], read: Sequence[Device]) -> tuple[Device, ...]:
    known = {device.address: device for device in read}
    both = [filled(device, known[device.address]) if device.address in known else device for device in told]
    named = {device.address for device in told}
    return (*both, *(device for device in read if device.address not in named))


def _ports(told: Sequence[Port], read: Sequence[Port]) -> tuple[Port, ...]:
    known = {port.address: port for port in read}
    both = [filled(port, known[port.address]) if port.address in known else port for port in told]
    named = {port.address for port in told}
    return (*both, *(port for port in read if port.address not in named))
