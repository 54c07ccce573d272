"""Which port is above which device, from what the machine tells and from what its log tells.

Ports report on cards they do not name: `pcieport 0000:c0:02.0: pciehp: Slot(7): Card not present`. The tie comes from
bus numbers where they are known, else from what happened next: the first card that comes or goes after a slot's line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..model import ADDRESS, Device, LogLine, Port, Probed, Slot, bus_of
from ..rules.hearing import seconds

_PORT = re.compile(r"(?:pcieport|pciehp|shpchp|pcie_bwctrl) (?=[0-9a-f]{4,8}:)")
_BRIDGE = re.compile(r"\[[0-9a-f]{4}:[0-9a-f]{4}\] type 01 class|PCI bridge to \[bus|\bbridge window \[")
_BUSES = re.compile(r"PCI bridge to \[bus ([0-9a-f]{2})(?:-([0-9a-f]{2}))?\]")
_EVENT = re.compile(
    r"[Ss]lot ?\([^)]*\):? "
    r"(?:Link (?:Up|Down)|Card (?:not )?present|Power(?:ing| fault)|[Bb]utton|Attention|Cannot|No )"
)
# What a card says when it comes or goes.
_COMES_OR_GOES = re.compile(
    r"\[[0-9a-f]{4}:[0-9a-f]{4}\] type 0[01] class|pci function |Probe driver IN|[Rr]emov(?:e driver|ing from iommu)"
    r"|device inaccessible|enabling device|BAR \d|: Removing|GPU has fallen off|controller is down|probe of"
    r"|No bus number|domain:bus:dev"
)
_SOON = 6.0     # seconds: a card's first line comes within a second of Link Up, a button adds five


@dataclass
class Tree:
    """What is known of the tree. `above` gives the ports whose lines speak for a device, nearest first."""

    bridges: set[str] = field(default_factory=set)
    buses: dict[str, tuple[int, int]] = field(default_factory=dict)
    tied: dict[str, list[str]] = field(default_factory=dict)
    slot_port: dict[str, str] = field(default_factory=dict)
    port_slot: dict[str, str] = field(default_factory=dict)

    def above(self, address: str) -> tuple[str, ...]:
        """The ports above a device, nearest first, as far as known; none above a slot that has no port."""
        if ADDRESS.fullmatch(address) is None:
            return ()
        bus = _bus(address)
        spans = [
            (last - first, port) for port, (first, last) in self.buses.items()
            if port != address and _domain(port) == _domain(address) and first <= bus <= last
        ]
        by_number = [port for _, port in sorted(spans)]
        return tuple(dict.fromkeys([*by_number, *self.tied.get(address, [])]))

    def parent(self, address: str) -> str | None:
        """The nearest port above."""
        return next(iter(self.above(address)), None)


def grow(devices: Iterable[Device], ports: Iterable[Port], slots: Iterable[Slot], lines: Sequence[LogLine]) -> Tree:
    """The tree of all evidence together."""
    tree = Tree()
    for port in ports:
        _add_port(tree, port)
    for device in devices:
        if isinstance(device, Probed) and isinstance(device.upstream, tuple):
            for port in device.upstream:
                _add_port(tree, port)
            if device.address is not None:
                tree.tied[device.address] = [port.address for port in reversed(device.upstream)]
    for slot in slots:
        if isinstance(slot.port, str):
            tree.slot_port[slot.name], tree.port_slot[slot.port] = slot.port, slot.name
            for address in slot.addresses:
                _tie(tree, address, slot.port)
    for line in lines:
        _read(tree, line)
    _watch(tree, lines)
    return tree


def _add_port(tree: Tree, port: Port) -> None:
    tree.bridges.add(port.address)
    if isinstance(port.secondary_bus, int) and isinstance(port.subordinate_bus, int) and port.secondary_bus:
        tree.buses[port.address] = (port.secondary_bus, port.subordinate_bus)


def _read(tree: Tree, line: LogLine) -> None:
    """What a single line tells: that this is a port, its buses, its slot, whom it speaks of."""
    if line.address is None:
        return
    text = line.text
    is_port = _PORT.match(text) is not None
    if is_port or _BRIDGE.search(text):
        tree.bridges.add(line.address)
        buses = _BUSES.search(text)
        if buses is not None:
            first = int(buses[1], 16)
            tree.buses.setdefault(line.address, (first, int(buses[2] or buses[1], 16)))
    if is_port:
        if line.slot is not None:
            tree.slot_port.setdefault(line.slot, line.address)
            tree.port_slot.setdefault(line.address, line.slot)
        for address in line.also:
            if address != line.address:
                _tie(tree, address, line.address)


def _watch(tree: Tree, lines: Sequence[LogLine]) -> None:
    """Tie a card to the slot whose event came just before it came or went."""
    recent: dict[str, tuple[float | None, int]] = {}
    source = ""
    for i, line in enumerate(lines):
        if line.source != source:
            recent, source = {}, line.source
        if line.address is None:
            continue
        if _PORT.match(line.text):
            if _EVENT.search(line.text):
                recent[line.address] = (seconds(line), i)
            continue
        if not recent or not _COMES_OR_GOES.search(line.text):
            continue
        port = _likely(tree, line, i, recent)
        if port is not None:
            _tie(tree, line.address, port)


def _likely(tree: Tree, line: LogLine, at: int, recent: dict[str, tuple[float | None, int]]) -> str | None:
    """The one slot that the card can be in: below its port's bus number, inside its bus range, and just now active."""
    address, now = line.address or "", seconds(line)
    if any(port in tree.port_slot for port in tree.above(address)):
        return None
    fitting = []
    for port, (then, place) in recent.items():
        span = tree.buses.get(port)
        soon = at - place <= 12 if now is None or then is None else 0 <= now - then <= _SOON
        below = _domain(port) == _domain(address) and _bus(address) > _bus(port)
        if soon and below and (span is None or span[0] <= _bus(address) <= span[1]):
            fitting.append((_bus(port), place, port))
    if not fitting:
        return None
    nearest = max(bus for bus, _, _ in fitting)
    best = [(place, port) for bus, place, port in fitting if bus == nearest]
    if len(best) > 1 and len({port for _, port in best}) > 1:
        taken = {port for ports in tree.tied.values() for port in ports}
        best = [(place, port) for place, port in best if port not in taken] or best
        if len(best) > 1:
            return None     # two slots at once on one bus: not told apart by time
    return best[0][1]


def _tie(tree: Tree, address: str, port: str) -> None:
    ports = tree.tied.setdefault(address, [])
    if port not in ports and port != address:
        ports.append(port)


def _bus(address: str) -> int:
    return int(bus_of(address).rsplit(":", 1)[1], 16)


def _domain(address: str) -> str:
    return address.split(":", 1)[0]
