"""One look at a machine: the bus listed once, ports, slots and the kernel log read when first asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from . import config, records
from .drain import record
from .drain.record import Record
from .errors import Exit, HotplugError
from .host import Host, OpenFile, Seen, Sought
from .lifecycle import HealthRecord
from .model import Kind, LogLine, Match, Maybe, Port, Profile, Slot, Unknown
from .readers import kernel, logs, pci, runtime, slots, smbios, waits

# What --all-pci shows beside accelerators: nothing is expected of it.
UNPROFILED = Profile(id="none", name="no accelerator", match=Match(), any_driver=True)


@dataclass
class Look:
    """One look at a machine: the bus listed once, ports and the kernel log read when first asked for.

    `patience`: seconds after which what waits in the kernel is looked at again; 0 = once is enough.
    """

    host: Host
    settings: config.Settings
    profiles: Sequence[Profile]
    functions: tuple[pci.Function, ...] = ()
    checked: dict[str, HealthRecord] = field(default_factory=dict)  # health checks of this very run, by address
    patience: float = 0.0
    _ports: dict[str, Port] = field(default_factory=dict)
    _stayed: dict[str, bool] = field(default_factory=dict)
    _left_behind: dict[tuple[str, ...], tuple[OpenFile, ...]] = field(default_factory=dict)

    @cached_property
    def by_address(self) -> dict[str, pci.Function]:
        """Functions by address."""
        return {f.address: f for f in self.functions}

    @cached_property
    def kernel_log(self) -> Maybe[tuple[LogLine, ...]]:
        """The kernel log, parsed; what it says of a slot's thread is told of the slot's port."""
        lines = logs.kernel(self.host)
        if not isinstance(lines, tuple) or not waits.names_thread(lines):
            return lines
        ports = {
            number: function.address for function in self.functions if function.is_bridge
            for numbers in (waits.interrupts(self.host, function.path),) if isinstance(numbers, tuple)
            for number in numbers
        }
        return waits.of_threads(lines, ports)

    @cached_property
    def moment(self) -> tuple[float, Maybe[float]]:
        """Seconds since the epoch and since boot at one moment, so that the one may be told by the other."""
        uptime = kernel.uptime(self.host)
        return self.host.now(), uptime

    @property
    def uptime(self) -> Maybe[float]:
        """Seconds since boot, at `moment`."""
        return self.moment[1]

    @cached_property
    def boot_id(self) -> Maybe[str]:
        """Which boot this is."""
        return kernel.boot_id(self.host)

    @cached_property
    def drains(self) -> Mapping[str, Record]:
        """Drains in progress, by the place of the card."""
        return {} if isinstance(self.holds, Unknown) else self.holds

    @cached_property
    def holds(self) -> Mapping[str, Record] | Unknown:
        """The same, or why they could not be looked at."""
        return record.everything(self.host)

    @cached_property
    def hotplug_threads(self) -> Mapping[str, str]:
        """The slots' threads in the kernel, by interrupt."""
        return waits.hotplug_threads(self.host)

    def probe_waits(self, function: pci.Function) -> Maybe[waits.Waiting]:
        """Where a driver's probe waits in the thread of the port above; None = nowhere."""
        port = self.by_address.get(function.above[-1]) if function.above else None
        if port is None:
            return None
        return waits.in_threads(self.host, port.path, self.hotplug_threads, waits.PROBES)

    def remove_waits(self, function: pci.Function, profile: Profile) -> Maybe[waits.Waiting]:
        """Where a driver's remove waits: in a write of ours, the slot's thread or anybody's write; None = nowhere."""
        names = {function.address, *function.above}
        found: Maybe[waits.Waiting] = waits.in_writes(self.host, records.writes(self.host), names, waits.REMOVES)
        slot = self.slot_of(function)
        port = self.by_address.get(slot.port) if slot is not None and isinstance(slot.port, str) else None
        if found is None and port is not None:
            found = waits.in_threads(self.host, port.path, self.hotplug_threads, waits.REMOVES)
        if found is None and self.host.text(f"{function.path}/enable") not in (None, "0"):
            # No driver, and still enabled (drivers/pci/pci-sysfs.c): one that let go would have switched it off.
            found = waits.in_processes(self.host, waits.controls(names, profile), waits.REMOVES)
        if not isinstance(found, waits.Waiting) or not self.patience:
            return found
        if found.who not in self._stayed:       # the functions of a card wait for one and the same
            again = waits.still(self.host, found, waits.REMOVES, self.patience)
            self._stayed[found.who] = isinstance(again, waits.Waiting)
        return found if self._stayed[found.who] else None

    def left_behind(self, profile: Profile) -> tuple[OpenFile, ...]:
        """Who still has a node open whose device is no more, a node as cards of this profile have them."""
        patterns = runtime.node_patterns(profile)
        if patterns not in self._left_behind:
            found = self.host.holders(Sought(gone=patterns)) if patterns else None
            self._left_behind[patterns] = found.files if isinstance(found, Seen) else ()
        return self._left_behind[patterns]

    def place(self, function: pci.Function) -> str:
        """The PCI path of the place a function sits in: its slot's, else that of the port above, else its own."""
        slot = self.slot_of(function)
        if slot is not None and isinstance(slot.path, str):
            return slot.path
        if function.above and self.port(function.above[-1]) is not None:
            return slots.slot_path(function.above[-1], self.functions)
        return function.address.rpartition(".")[0]

    @property
    def ports(self) -> tuple[Port, ...]:
        """The ports looked at so far."""
        return tuple(self._ports.values())

    def port(self, address: str) -> Port | None:
        """A port; None when the function above is no port (a host bridge)."""
        function = self.by_address.get(address)
        if function is None or not function.is_bridge:
            return None
        if address not in self._ports:
            self._ports[address] = pci.port(self.host, function)
        return self._ports[address]

    def port_above(self, function: pci.Function) -> Port | None:
        """The nearest port above."""
        return self.port(function.above[-1]) if function.above else None

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Every slot, filled and empty."""
        if not slots.names(self.host):
            return ()
        ports = {f.address: port for f in self.functions if (port := self.port(f.address)) is not None}
        return slots.slots(self.host, self.functions, ports, {**smbios.slot_names(self.host), **self.settings.slots})

    def keep_slots(self, slots: tuple[Slot, ...]) -> None:
        """Take the slots of an earlier look, where nothing can have changed them."""
        self.__dict__["slots"] = slots

    def slot_of(self, function: pci.Function) -> Slot | None:
        """The slot a function is seated in, directly or behind a switch on the card."""
        above = set(function.above)
        found = [s for s in self.slots if function.address in s.addresses or (s.port is not None and s.port in above)]
        return found[-1] if found else None


def look(host: Host, settings: config.Settings, profiles: Sequence[Profile]) -> Look:
    """List the bus. Raises HotplugError when it cannot be listed at all."""
    functions = pci.functions(host)
    if isinstance(functions, Unknown):
        denied = functions.kind is Kind.DENIED
        raise HotplugError(
            "cannot list the PCI bus", why=functions.why, hint="run as root" if denied else "is sysfs mounted at /sys?",
            exit=Exit.DENIED if denied else Exit.UNKNOWN,
        )
    return Look(host, settings, profiles, functions)


def way(function: pci.Function) -> str:
    """Device and function numbers from the root port down; `00.0` below the slot's port is the slot itself."""
    first, *rest = (*function.above, function.address)
    path = "/".join([first, *(address.rsplit(":", 1)[1] for address in rest)])
    return path.removesuffix("/00.0") if rest else path


def profile_for(profiles: Sequence[Profile], function: pci.Function) -> Profile | None:
    """The first profile that covers the function; generic ones (any driver) come last."""
    ids = (function.vendor_id, function.device_id, function.class_)
    return next((p for p in sorted(profiles, key=lambda p: p.any_driver) if p.match.covers(*ids)), None)
