"""The machine between two looks: what is read again, and what is carried over.

A look after an event reads only what the event is about; the list of functions itself is one directory read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .. import config, probe
from ..host import Host
from ..look import Look, profile_for, way
from ..model import Device, Profile, Slot
from ..readers import pci


@dataclass
class Scene:
    """What is where, by key: the slot's path for a card's first function in it, else the function's own path."""

    host: Host
    settings: config.Settings
    profiles: Sequence[Profile]
    devices: dict[str, Device] = field(default_factory=dict)
    seen: Look | None = None

    def everything(self) -> None:
        """Look at all of it afresh."""
        self._take(None)

    def again(self, addresses: set[str], slots: bool) -> None:
        """Look again at these functions, and at the slots when they may have changed."""
        self._take(addresses, slots=slots)

    def forget_health(self, address: str) -> None:
        """What a health check found is over with the binding it was made in."""
        if self.seen is not None:
            self.seen.checked.pop(address, None)

    def key_of(self, address: str) -> str | None:
        """Where the function of this address is, or was when last seen."""
        function = self.seen.by_address.get(address) if self.seen is not None else None
        if function is not None:
            return way(function)
        return next((key for key, device in self.devices.items() if device.address == address), None)

    def slot_key(self, name: str) -> str | None:
        """The key of the card in a slot."""
        slot = next((s for s in self.slots if s.name == name), None)
        return slot.path if slot is not None and isinstance(slot.path, str) else None

    def port_key(self, address: str) -> str | None:
        """The key of the card in the slot below a port."""
        slot = next((s for s in self.slots if s.port == address), None)
        return slot.path if slot is not None and isinstance(slot.path, str) else None

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots as last seen."""
        return self.seen.slots if self.seen is not None else ()

    def _take(self, addresses: set[str] | None, *, slots: bool = True) -> None:
        before = self.seen
        functions = self._functions(addresses)
        changed = before is None or {f.address for f in functions} != set(before.by_address)
        seen = Look(self.host, self.settings, self.profiles, functions)
        if before is not None:
            seen.checked = before.checked
            if addresses is not None and not slots and not changed:
                seen.keep_slots(before.slots)
        self.seen = seen
        found: dict[str, Device] = {}
        for function in functions:
            profile = profile_for(self.profiles, function)
            if profile is None:
                continue
            key = way(function)
            kept = self.devices.get(key)
            if addresses is not None and function.address not in addresses and kept is not None and (
                kept.address == function.address
            ):
                found[key] = kept
            elif not isinstance(self.host.link(f"{function.path}/physfn"), str):  # virtual functions fold
                found[key] = probe.row(seen, function, profile, close=False)
        for slot in seen.slots:
            if slot.presence is True and not slot.addresses and isinstance(slot.path, str):
                found[slot.path] = probe.unseen(seen, slot, close=False)
        paths = {slot.path for slot in seen.slots}
        found |= {key: row for key, row in probe.drained(seen, tuple(found.values()), close=False).items()
                  if key in paths and key not in found}
        self.devices = found

    def _functions(self, addresses: set[str] | None) -> tuple[pci.Function, ...]:
        """The functions on the bus; the ids of those that were there and are not asked about are not read again."""
        names = self.host.names(pci.DEVICES)
        known: Mapping[str, pci.Function] = self.seen.by_address if self.seen is not None else {}
        again = set(names) if addresses is None and isinstance(names, tuple) else addresses or set()
        found = []
        for name in names if isinstance(names, tuple) else ():
            function = known.get(name) if name not in again else None
            function = function or pci.function(self.host, name)
            if function is not None:
                found.append(function)
        return tuple(found)
