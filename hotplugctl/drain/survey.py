"""From a look at the machine to the Site of a drain; and the quick second look between two steps.

What goes with a card is found once. Between steps only what steps change is read again: drivers, virtual functions,
the slot's power and presence, the record; holders and schedulers where the next step depends on them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .. import records
from ..errors import Exit, HotplugError
from ..host import Host, Ran, Sought
from ..host.pidfds import untouchable
from ..look import Look, profile_for
from ..model import ADDRESS, Accelerator, Device, Holder, Machine, Maybe, Node, Placement, Profile, Slot, Unknown
from ..plugs.hooks import executables
from ..plugs.schedulers import Scheduler
from ..readers import holders, kernel, pci, peers, runtime, slots, uses
from . import record
from .record import Record
from .site import Card, Piece, Site, Wish

HOOKS = ("drain-check", "drain-pre", "drain-post", "drain-undo")
ASK_S = 5.0


@dataclass(frozen=True, slots=True)
class _Having:
    """A card as processes can have it: its functions, the nodes with the numbers they had at first, its modules."""

    functions: tuple[pci.Function, ...]
    nodes: Maybe[tuple[Node, ...]]
    modules: tuple[str, ...]


@dataclass
class Survey:
    """How one drain looks at its cards: the look it began with, the wish, the schedulers it asks."""

    seen: Look
    machine: Machine
    wish: Wish
    schedulers: Sequence[Scheduler] = ()
    records: dict[str, Record | None] = field(default_factory=dict)      # as this run last wrote them
    _having: dict[str, _Having] = field(default_factory=dict)            # by place: what holders can have of it

    @property
    def host(self) -> Host:
        """The machine looked at."""
        return self.seen.host

    def site(self, devices: Sequence[Device], blind: str | None) -> Site:
        """Everything about the places of these devices (each names its place; several may name one)."""
        places: dict[str, list[Device]] = {}
        for device in devices:
            places.setdefault(self._place(device), []).append(device)
        cards = tuple(self._card(key, named) for key, named in sorted(places.items()))
        return self._with_site(Site(
            cards=cards, boot_id=self.seen.boot_id if isinstance(self.seen.boot_id, str) else None,
            hooks=self._hooks(), live=self.host.live, blind=blind,
        ))

    def again(self, site: Site, *, holders: bool = False, schedulers: bool = False) -> Site:
        """The same places, looked at again."""
        cards = tuple(self._again(card, holders=holders, schedulers=schedulers) for card in site.cards)
        return self._with_site(replace(site, cards=cards))

    def keep(self, entry: Record, *, sync: bool = True) -> None:
        """Write a record; it is on the disk, and known here, when this returns."""
        record.keep(entry, sync=sync)
        self.records[entry.key] = entry

    def reread(self, site: Site) -> None:
        """Take the records as they are now: another run may have ended while this one waited for a person."""
        found = record.everything(self.host)
        if isinstance(found, Unknown):
            raise HotplugError("cannot read the records of drains", why=found.why, hint="run as root", exit=Exit.DENIED)
        self.records = {card.key: found.get(card.key) for card in site.cards}

    def below(self, card: Card) -> tuple[pci.Function, ...]:
        """The functions that are below the card's port now."""
        return tuple(self._below(card.port_path)) if card.port_path is not None else ()

    def forget(self, entry: Record) -> None:
        """The drain of this place is over."""
        record.forget(entry)
        self.records[entry.key] = None

    # --- the first look

    def _with_site(self, site: Site) -> Site:
        pids = {h.pid for card in site.cards for h in (card.holders if isinstance(card.holders, tuple) else ())}
        told = {pid: why for pid in pids if (why := untouchable(pid)) is not None} if site.live else {}
        return replace(site, untouchable=told)

    def _place(self, device: Device) -> str:
        if device.held is not None and device.held.place is not None:
            return device.held.place
        function = self.seen.by_address.get(device.address or "")
        if function is not None:
            return self.seen.place(function)
        slot = self._slot_named(device.slot)
        if slot is not None and isinstance(slot.path, str):
            return slot.path
        return device.address or str(device.slot)

    def _slot_named(self, name: Maybe[str]) -> Slot | None:
        return next((slot for slot in self.seen.slots if slot.name == name), None)

    def _card(self, key: str, named: Sequence[Device]) -> Card:
        slot = next((s for s in self.seen.slots if s.path == key), None)
        functions = self._together(named[0], slot)
        known = {f.path: profile_for(self.seen.profiles, f) for f in functions}
        needed = uses.uses(self.host, [f.path for f in functions])
        pieces = tuple(self._piece(f, known[f.path], needed, functions) for f in functions)
        own = {f.address for f in functions}
        rows = [d for d in self.machine.devices if d.address in own]
        profiles = [p for p in known.values() if p is not None]
        port = self.seen.by_address.get(str(slot.port)) if slot is not None else self._port_of(named[0], key)
        nodes = tuple(node for row in rows for node in _nodes(row))
        blind = next((row.nodes for row in rows if isinstance(row.nodes, Unknown)), None)
        companions = tuple(dict.fromkeys(d.replace("-", "_") for p in profiles for d in p.drivers))
        self._having[key] = _Having(functions, blind if blind is not None else nodes, companions)
        accelerators = tuple(self._accelerator(row, known) for row in rows)
        card = Card(
            key=key, device=named[0], slot=slot, pieces=pieces,
            accelerators=accelerators,
            named=tuple(d.address for d in named if d.address is not None),
            peers=(*self._iommu(functions), *(w for row in rows for w in peers.joined(
                self.host, row, [d for d in self.machine.devices if d.address not in own])), *_chips(accelerators)),
            record=self._record(key), quiesce={q.unit: q.why for p in profiles for q in p.quiesce},
            light=self._light(slot), port_path=port.path if port is not None else None,
        )
        return self._again(card, holders=True, schedulers=True, first=True)

    def _together(self, device: Device, slot: Slot | None) -> tuple[pci.Function, ...]:
        """All functions that leave together: those below the slot's port, or below the port of a card in no slot."""
        if slot is not None and isinstance(slot.port, str):
            return tuple(f for f in self.seen.functions if slot.port in f.above)
        function = self.seen.by_address.get(device.address or "")
        if slot is not None and function is None:
            return tuple(f for f in self.seen.functions if f.address in slot.addresses)
        if function is None:
            return ()
        if function.above and self.seen.port(function.above[-1]) is not None:
            return tuple(f for f in self.seen.functions if function.above[-1] in f.above)
        place = function.address.rpartition(".")[0]
        return tuple(f for f in self.seen.functions if f.address.rpartition(".")[0] == place)

    def _port_of(self, device: Device, key: str) -> pci.Function | None:
        """The port above a card in no slot; of one that is off the bus, the port whose path its place is."""
        function = self.seen.by_address.get(device.address or "")
        if function is not None:
            return self.seen.by_address.get(function.above[-1]) if function.above else None
        bridges = (f for f in self.seen.functions if f.is_bridge)
        return next((f for f in bridges if slots.slot_path(f.address, self.seen.functions) == key), None)

    def _piece(
        self, function: pci.Function, profile: Profile | None, needed: Mapping[str, tuple[str, ...]] | Unknown,
        group: Sequence[pci.Function],
    ) -> Piece:
        path, ids = function.path, f"{function.vendor_id}:{function.device_id}"
        known = profile.models.get(function.device_id) if profile is not None else None
        return Piece(
            address=function.address, path=path, what=known or f"{ids} of class {function.class_}",
            bridge=function.is_bridge, virtual=isinstance(self.host.link(f"{path}/physfn"), str),
            profile=profile.id if profile is not None else None,
            uses=needed if isinstance(needed, Unknown) else needed.get(path, ()),
            top=not any(other.address in function.above for other in group),
        )

    def _accelerator(self, row: Device, known: Mapping[str, Profile | None]) -> Accelerator:
        function = self.seen.by_address[str(row.address)]
        profile = known[function.path]
        numbers = runtime.index_of(self.host, function.path, profile) if profile is not None else None
        return Accelerator(
            str(row.address), tuple(node.path for node in _nodes(row)), numbers if isinstance(numbers, tuple) else (),
            row.serial if isinstance(row.serial, str) else None, row.uuid if isinstance(row.uuid, str) else None,
            profile.id if profile is not None else None,
        )

    def _iommu(self, functions: Sequence[pci.Function]) -> list[str]:
        own = {f.address for f in functions}
        found = []
        for function in functions:
            group = kernel.iommu_group(self.host, function)
            others = kernel.iommu_peers(self.host, function, group)
            strangers = [a for a in others if a not in own] if isinstance(others, tuple) else []
            if strangers:
                found.append(f"IOMMU group {group} of {function.address} also holds {', '.join(strangers)}: "
                             "a VM has all of them or none")
        return found

    def _light(self, slot: Slot | None) -> str | None:
        said = self.host.text(f"{slots.SLOTS}/{slot.name}/attention") if slot is not None else None
        return said if isinstance(said, str) and said in ("0", "1", "2") else None

    def _hooks(self) -> dict[str, tuple[str, ...]]:
        if not self.host.live:
            return {}
        folder = self.seen.settings.hooks
        return {kind: tuple(path.name for path in executables(folder, kind)) for kind in HOOKS}

    def _record(self, key: str) -> Record | None:
        return self.records[key] if key in self.records else self.seen.drains.get(key)

    # --- every look

    def _again(self, card: Card, *, holders: bool, schedulers: bool, first: bool = False) -> Card:
        pieces = tuple(found for piece in card.pieces if (found := self._piece_now(piece)) is not None)
        if not first:
            pieces = (*pieces, *self._newcomers(card, pieces))
        hanging = records.unfinished_write(self.host, card.key) if self.host.live else None
        card = replace(
            card, pieces=tuple(sorted(pieces, key=lambda p: p.address)), record=self._record(card.key),
            slot=self._slot_now(card.slot), hanging=hanging[0] if hanging is not None else None,
        )
        if holders:
            card = replace(card, holders=self._holders(card), units=self._units(card))
        return replace(card, placements=self._placements(card)) if schedulers else card

    def _piece_now(self, piece: Piece) -> Piece | None:
        if self.host.text(f"{piece.path}/vendor") is None:
            return None
        driver = self.host.link(f"{piece.path}/driver")
        vfs = self.host.text(f"{piece.path}/sriov_numvfs")
        number: Maybe[int] = int(vfs) if isinstance(vfs, str) and vfs.isdecimal() else None
        return replace(piece, driver=posixpath.basename(driver) if isinstance(driver, str) else driver, vfs=number)

    def _newcomers(self, card: Card, known: Sequence[Piece]) -> list[Piece]:
        """Functions that came below the port meanwhile: the card is back, or another one."""
        if card.port_path is None:
            return []
        there = {piece.address for piece in known}
        found = tuple(self._below(card.port_path))
        made = [self._piece(f, profile_for(self.seen.profiles, f), {}, found) for f in found if f.address not in there]
        return [self._piece_now(piece) or piece for piece in made]

    def _below(self, path: str) -> Iterator[pci.Function]:
        """The functions below a port's directory, those behind a switch as well."""
        names = self.host.names(path)
        for name in names if isinstance(names, tuple) else ():
            function = pci.function(self.host, name) if ADDRESS.fullmatch(name) else None
            if function is not None:
                yield function
                yield from self._below(function.path) if function.is_bridge else ()

    def _slot_now(self, slot: Slot | None) -> Slot | None:
        if slot is None:
            return None
        here = f"{slots.SLOTS}/{slot.name}"
        power, adapter = self.host.text(f"{here}/power"), self.host.text(f"{here}/adapter")
        return replace(
            slot, power={"1": "on", "0": "off"}.get(power, power) if isinstance(power, str) else power,
            presence=adapter == "1" if adapter in ("0", "1") else slot.presence,
        )

    def sought(self, card: Card) -> Sought:
        """What processes can have of this card."""
        having = self._having[card.key]
        return holders.sought(self.host, having.functions, having.nodes)[0]

    def _holders(self, card: Card) -> Maybe[tuple[Holder, ...]]:
        having = self._having[card.key]
        return holders.of_card(self.host, having.functions, having.nodes, having.modules) if card.pieces else ()

    def _units(self, card: Card) -> tuple[str, ...]:
        """The services of the profile that run: each holds every card open."""
        if not self.host.live or not any(piece.driver is not None for piece in card.pieces):
            return ()
        return tuple(unit for unit in card.quiesce if self.runs(unit))

    def runs(self, unit: str) -> bool:
        """Is the systemd unit active? Where there is no systemd, none is."""
        answer = self.host.run(("systemctl", "is-active", "--quiet", unit), ASK_S)
        return isinstance(answer, Ran) and answer.status == 0

    def asked(self, card: Card) -> list[tuple[Scheduler, Accelerator]]:
        """Whom each of the card's placements is of."""
        return [(scheduler, one) for scheduler in self.schedulers for one in card.accelerators]

    def _placements(self, card: Card) -> tuple[Placement, ...]:
        told = card.record.told if card.record is not None else {}
        return tuple(
            scheduler.placement(accelerator, self.wish.scope, told.get(told_key(scheduler, accelerator), {}))
            for scheduler, accelerator in self.asked(card)
        )

    def scheduler(self, name: str) -> Scheduler:
        """One of this drain's schedulers. Raises HotplugError when it is not here any more."""
        for scheduler in self.schedulers:
            if scheduler.name == name:
                return scheduler
        raise HotplugError(f"{name} is not here", why="the record speaks of it", hint=f"--scheduler {name}")


def told_key(scheduler: Scheduler, accelerator: Accelerator) -> str:
    """Under which word a record keeps what a scheduler was told of one accelerator."""
    return f"{scheduler.name}:{accelerator.address}"


def _chips(accelerators: Sequence[Accelerator]) -> list[str]:
    return [f"{a.address} has {len(a.numbers)} chips that go together: {', '.join(a.numbers)}"
            for a in accelerators if len(a.numbers) > 1]


def _nodes(row: Device) -> tuple[Node, ...]:
    return row.nodes if isinstance(row.nodes, tuple) else ()

