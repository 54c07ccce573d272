"""Which lines of a live kernel log are about the machine as it is now. Pure.

The kernel's log reaches back to the boot; a card that failed last week, was taken out and replaced is history. Verdicts
about a card leave with it; verdicts about the slot stay. An archive knows no "now", so all of its lines count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..model import LogLine, Machine, Probed, Slot
from .tree import Tree

ENUMERATED = re.compile(r"\[[0-9a-f]{4}:[0-9a-f]{4}\] type 0[0-2] ")
SURPRISE = re.compile(r"[Ss]lot ?\([^)]*\):? (?:Link Down|Card not present)")
ORDERLY = re.compile(r"Button press: will power off|Powering off due to button press")
COMING = re.compile(r"[Ss]lot ?\([^)]*\):? (?:Card present|Link Up|Button press: will power on|Powering on)")
RECOVERY = re.compile(r"(?:AER|DPC|EDR): .*(?:recover|subordinate device reset)")     # a port, of the card below it
HUNG = re.compile(r"INFO: task \S+ blocked for more than")
FLAPPING = 2      # so many surprises since the last orderly removal may be a loop, and then all of them matter


@dataclass
class _Slot:
    """What the log says of one slot, by the place of each line."""

    seated: frozenset[str]
    empty: bool         # nothing sits in it, which is more than that nothing of it is on the bus
    enumerated: dict[str, int] = field(default_factory=dict)
    surprises: list[int] = field(default_factory=list)
    orderly: list[int] = field(default_factory=list)
    coming: list[int] = field(default_factory=list)
    occupied: bool = True       # as far as the log has been read; before its first line, perhaps

    @property
    def card_since(self) -> int:
        """Where the life of the card that is seated now began; -1 = before the log, or no card."""
        return max((at for address, at in self.enumerated.items() if address in self.seated), default=-1)

    @property
    def slot_since(self) -> int:
        """Where what still says something of the slot begins."""
        if self.seated:
            earlier = [at for at in self.orderly if at < self.card_since]
            # Link Down and Card not present are one departure: what tells two apart is a coming between them.
            surprises = {sum(at > c for c in self.coming) for at in self.surprises if at > max(earlier, default=-1)}
            if len(surprises) >= FLAPPING or self.card_since < 0:
                return max(earlier, default=-1)
            return max((at for at in self.coming if max(earlier, default=-1) <= at < self.card_since), default=-1)
        return max(max(self.orderly, default=-1), -1 if self.pulled else max(self.enumerated.values(), default=-1))

    @property
    def pulled(self) -> bool:
        """Did the last card leave by surprise?"""
        last = max(self.enumerated.values(), default=-1)
        return any(at > last for at in self.surprises) and not any(at > last for at in self.orderly)

    def still_about(self, address: str, at: int) -> bool:
        """Is a line about a card below this slot about one that is there, or about how the last one left?"""
        if address in self.seated:
            return at >= self.enumerated.get(address, -1)
        return not self.seated and self.pulled and at >= self.enumerated.get(address, -1)


def current(
    lines: Sequence[LogLine], machine: Machine, tree: Tree, named: Sequence[str], kernel_logs: frozenset[str]
) -> tuple[LogLine, ...]:
    """The lines without those of cards that are gone or were exchanged; a gone one that was named keeps its own."""
    ports = {
        slot.port: _Slot(_seated(slot, machine), empty=slot.presence is False)
        for slot in machine.slots if isinstance(slot.port, str)
    }
    places = [_place(line, tree, ports) if line.source in kernel_logs else None for line in lines]
    for at, (line, port) in enumerate(zip(lines, places, strict=True)):
        if port is not None:
            _note(ports[port], line, at, port)
    kept = []
    for at, (line, port) in enumerate(zip(lines, places, strict=True)):
        if port is None or (line.address in named and line.address not in ports[port].seated):
            kept.append(line)
        elif line.address in (None, port):      # a bridge below the port is of the card
            kept += [line] if at >= ports[port].slot_since and not _left_with_card(line, ports[port]) else []
        elif ports[port].still_about(line.address, at):
            kept.append(line)
    return tuple(kept)


def _left_with_card(line: LogLine, slot: _Slot) -> bool:
    """Is a port's line about a card that is not there any more?"""
    # A device whose remove hangs stays on the bus until the remove returns.
    if HUNG.match(line.text):
        return not slot.seated
    return slot.empty and not slot.pulled and RECOVERY.search(line.text) is not None


def _seated(slot: Slot, machine: Machine) -> frozenset[str]:
    """What is in the slot now, and behind a switch that is in it: the cards there, and the ports above them."""
    found = set(slot.addresses)
    for device in machine.devices:
        above = [port.address for port in device.upstream] \
            if isinstance(device, Probed) and isinstance(device.upstream, tuple) else []
        if isinstance(slot.port, str) and slot.port in above:
            found |= {*above[above.index(slot.port) + 1:], *([device.address] if device.address else [])}
    return frozenset(found)


def _place(line: LogLine, tree: Tree, ports: dict[str, _Slot]) -> str | None:
    """The port of the slot that the line is about; None = of none."""
    if line.address in ports:
        return line.address
    if line.address is not None:
        return next((port for port in tree.above(line.address) if port in ports), None)
    port = tree.slot_port.get(line.slot) if line.slot is not None else None
    return port if port in ports else None


def _note(slot: _Slot, line: LogLine, at: int, port: str) -> None:
    if line.address not in (None, port):
        if ENUMERATED.search(line.text):
            slot.enumerated[line.address] = at
            slot.occupied = True
        return
    if SURPRISE.search(line.text):
        slot.surprises.append(at)
        slot.occupied = False
    elif ORDERLY.search(line.text):
        slot.orderly.append(at)
        slot.occupied = False
    elif COMING.search(line.text):
        slot.coming.append(at)
        if slot.occupied:       # said of an empty slot only (pciehp_ctrl.c, OFF_STATE): its card has left unsaid
            slot.orderly.append(at)
        slot.occupied = False
