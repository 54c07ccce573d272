"""Which port is above which device, from what the machine tells and from what its log tells.

Ports report on cards they do not name: `pcieport 0000:c0:02.0: pciehp: Slot(7): Card not present`. The tie comes from
bus numbers where they are known, else from what happened next: the first card that comes after a slot says that one
comes, that goes after it says that one goes, or that fails just below a port as the port contains an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ..model import ADDRESS, Device, LogLine, Port, Probed, Slot, SlotControl, bus_of
from ..rules.hearing import seconds

_PORT = re.compile(r"(?:pcieport|pciehp|shpchp|pcie_bwctrl) (?=[0-9a-f]{4,8}:)")
_BRIDGE = re.compile(r"\[[0-9a-f]{4}:[0-9a-f]{4}\] type 01 class|PCI bridge to \[bus|\bbridge window \[")
_BUSES = re.compile(r"(?:PCI bridge|bridge window \[[^\]]*\]) to \[bus ([0-9a-f]{2})(?:-([0-9a-f]{2}))?\]")
# What a slot's line says of its card: it comes, it goes, either of them, or nothing will come of it.
_SLOT_SAYS: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = tuple(
    (re.compile(rf"[Ss]lot ?\([^)]*\):? (?:{words})|{old}"), frozenset(ways)) for words, old, ways in (
        ("Card present|Link Up|Powering on|Button press: will power on", "Card present on Slot|Link Up event",
         ("comes",)),
        ("Card not present|Link Down(?!/Up)|Powering off|Button press: will power off",
         "Card not present on Slot|Link Down event", ("goes",)),
        ("Attention button pressed", "Attention button pressed", ("comes", "goes")),
        ("Power fault|Cannot train|No link|No device found|Latch open|Failed to|Button press: cancel",
         "Power fault on|No new device found|Link Training Error|Failed to check link", ()),
    )
)
# What a card's own line says.
_CARD_SAYS: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = (
    (re.compile(r"\[[0-9a-f]{4}:[0-9a-f]{4}\] type 0[01] class|Probe driver IN|enabling device|BAR \d|No bus number"
                r"|\[drm\] Initialized \S+ .* for "),
     frozenset({"comes"})),
    (re.compile(r"[Rr]emov(?:e driver|ing from iommu)|device inaccessible|: Removing|: finishing device"
                r"|Attempting to remove|Relaying device request|GPU has fallen off|device lost from bus"
                r"|controller is down"),
     frozenset({"goes"})),
    (re.compile(r"pci function |probe of|domain:bus:dev"), frozenset({"comes", "goes"})),
)
# A port that contains or reports an error, and the card below it that feels it.
_CONTAINS = re.compile(r"DPC: (?:containment event|unmasked|ERR_|RP PIO)|AER: \S+ \S+ error message received")
_FEELS = re.compile(
    r"AER: |PCIe Bus Error|PCI error: |pci_err_detected|device inaccessible|device lost|GPU has fallen off"
    r"|error detected|I/O error")
_NUMBERED = re.compile(r"pciehp: Slot #(\d{1,5}) ")      # how pciehp announces a slot; its lines call it by a name
_SOON = 6.0     # seconds: a card's first line comes within a second of Link Up, a button adds five
_NEAR = 12      # lines, where no clock tells
_LATER = 600.0  # seconds between the removal of a card by software and its leaving the slot
_LET_GO = re.compile(r"Removing from iommu group")
_AT_ONCE = 1.0  # seconds between a port's containment and what its card says of it
_Recent: TypeAlias = dict[tuple[str, str], tuple[float | None, int]]    # (way, port) -> when and where


@dataclass
class Tree:
    """What is known of the tree. `above` gives the ports whose lines speak for a device, nearest first.

    `guessed`: cards with the ports that nothing but time ties to them; such a card's lines clear nothing of the port's.
    """

    bridges: set[str] = field(default_factory=set)
    buses: dict[str, tuple[int, int]] = field(default_factory=dict)
    tied: dict[str, list[str]] = field(default_factory=dict)
    guessed: dict[str, set[str]] = field(default_factory=dict)
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
    number = port.slot.number if isinstance(port.slot, SlotControl) else None
    if isinstance(number, int):
        _name(tree, str(number), port.address)
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
        numbered = _NUMBERED.search(text)
        slot = line.slot or (numbered[1] if numbered is not None else None)
        if slot is not None:
            _name(tree, slot, line.address)
        for address in line.also:
            if address != line.address:
                _tie(tree, address, line.address)


def _name(tree: Tree, slot: str, port: str) -> None:
    tree.slot_port.setdefault(slot, port)
    tree.port_slot.setdefault(port, slot)


def _watch(tree: Tree, lines: Sequence[LogLine]) -> None:
    """Tie a card to the slot whose event came just before, where the event is one that fits what the card says."""
    recent: _Recent = {}
    let_go: dict[str, float | None] = {}        # cards that the kernel let go of, and when
    source = ""
    for line in lines:
        if line.source != source:
            recent, source, let_go = {}, line.source, {}
        if line.address is None:
            continue
        if _LET_GO.search(line.text):
            let_go[line.address] = seconds(line)
        if _PORT.match(line.text):
            _note(recent, line)
            _tie_let_go(tree, line, let_go)
        elif recent:
            _match(tree, line, recent)
    _give_way(tree)


def _tie_let_go(tree: Tree, line: LogLine, let_go: dict[str, float | None]) -> None:
    """A slot whose card goes had the one on the next bus, which the kernel had let go of a while before."""
    ways = next((ways for pattern, ways in _SLOT_SAYS if pattern.search(line.text)), frozenset())
    port = line.address or ""
    if ways != {"goes"} or any(port in ports for ports in tree.tied.values()):
        return
    for card, then in let_go.items():
        if _right_below(card, port) and not tree.above(card) and _within(then, seconds(line), _LATER):
            _tie(tree, card, port)


def _give_way(tree: Tree) -> None:
    """A slot holds one card: where one is known to be below its port, what only time put there is not."""
    plain = {
        port for card, ports in tree.tied.items() for port in ports
        if port in tree.port_slot and port not in tree.guessed.get(card, ())
    }
    for card, ports in tree.guessed.items():
        tree.tied[card] = [port for port in tree.tied[card] if port not in ports & plain]
        ports -= plain


def _note(recent: _Recent, line: LogLine) -> None:
    """A port's line: from now on its card may come, or go; or what it said before no longer counts."""
    port, when = line.address or "", (seconds(line), line.line)
    if _CONTAINS.search(line.text):
        recent["fails", port] = when
        return
    ways = next((ways for pattern, ways in _SLOT_SAYS if pattern.search(line.text)), None)
    if ways is None:
        return
    if "comes" not in ways:
        recent.pop(("comes", port), None)
    recent.update({(way, port): when for way in ways})


def _match(tree: Tree, line: LogLine, recent: _Recent) -> None:
    """A card's line: the one port that just now spoke of such a thing is the one above it."""
    address = line.address or ""
    ways = next((ways for pattern, ways in _CARD_SAYS if pattern.search(line.text)), frozenset())
    if ways and not any(port in tree.port_slot for port in tree.above(address)):
        port = _likely(tree, line, {key: when for key, when in recent.items() if key[0] in ways})
        if port is not None:
            _tie(tree, address, port)
            if not _right_below(address, port) and port not in _by_number(tree, address):
                tree.guessed.setdefault(address, set()).add(port)
    if _FEELS.search(line.text) and not tree.above(address):
        failing = [
            port for (way, port), (then, _) in recent.items()
            if way == "fails" and _right_below(address, port) and _within(then, seconds(line), _AT_ONCE)
        ]
        if len(failing) == 1:       # two ports on one bus at once: which of them has the card is not plain
            _tie(tree, address, failing[0])
        elif not failing:           # below a switch or tunnel of which nothing is known: the only port that fails now
            port = _likely(tree, line, {key: when for key, when in recent.items() if key[0] == "fails"})
            if port is not None:
                _tie(tree, address, port)
                tree.guessed.setdefault(address, set()).add(port)


def _likely(tree: Tree, line: LogLine, recent: _Recent) -> str | None:
    """The one slot that the card can be in: below its port's bus number, inside its bus range, and just now active."""
    address, now = line.address or "", seconds(line)
    fitting = []
    for (_, port), (then, place) in recent.items():
        span = tree.buses.get(port)
        soon = line.line - place <= _NEAR if now is None or then is None else _within(then, now, _SOON)
        below = _domain(port) == _domain(address) and _bus(address) > _bus(port)
        if soon and below and (span is None or span[0] <= _bus(address) <= span[1]):
            fitting.append((_bus(port), place, port))
    if not fitting:
        return None
    nearest = max(bus for bus, _, _ in fitting)
    best = [(place, port) for bus, place, port in fitting if bus == nearest]
    if len({port for _, port in best}) > 1:
        taken = {port for ports in tree.tied.values() for port in ports}
        best = [(place, port) for place, port in best if port not in taken] or best
        if len({port for _, port in best}) > 1:
            return None     # two slots at once on one bus: not told apart by time
    return best[0][1]


def _within(then: float | None, now: float | None, limit: float) -> bool:
    return then is not None and now is not None and 0 <= now - then <= limit


def _right_below(address: str, port: str) -> bool:
    """Has the card the next bus number? That is where a port's only card is, where no numbers are set aside."""
    return _domain(address) == _domain(port) and _bus(address) == _bus(port) + 1


def _by_number(tree: Tree, address: str) -> tuple[str, ...]:
    return tuple(
        port for port, (first, last) in tree.buses.items()
        if port != address and _domain(port) == _domain(address) and first <= _bus(address) <= last
    )


def _tie(tree: Tree, address: str, port: str) -> None:
    ports = tree.tied.setdefault(address, [])
    if port not in ports and port != address:
        ports.append(port)


def _bus(address: str) -> int:
    return int(bus_of(address).rsplit(":", 1)[1], 16)


def _domain(address: str) -> str:
    return address.split(":", 1)[0]
