"""Physical slots as /sys/bus/pci/slots and the port above show them.

Sources: drivers/pci/slot.c, hotplug/pci_hotplug_core.c, hotplug/pciehp_hpc.c (Linux 6.1 and 6.12).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from ..host import Host
from ..model import Hotplug, Kind, Maybe, Port, Room, Slot, SlotControl, Unknown, bus_of, device_of
from .pci import Function

SLOTS = "/sys/bus/pci/slots"
# domain:bus:device, or domain:bus for place-holders (drivers/pci/slot.c).
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}(?::[0-9a-f]{2})?")
# The hot-plug service of a port: (port type - 4) << 8 | 4, see drivers/pci/pcie/portdrv.h.
SERVICES = ("pcie004", "pcie204")


def names(host: Host) -> tuple[str, ...]:
    """The slots' names; none where the kernel knows no slots."""
    found = host.names(SLOTS)
    return found if isinstance(found, tuple) else ()


def slots(
    host: Host, functions: tuple[Function, ...], ports: Mapping[str, Port], printed: Mapping[str, str]
) -> tuple[Slot, ...]:
    """Every slot the kernel knows, filled and empty, in natural order.

    `printed` maps ports' addresses, slots' names, or `DOMAIN:BUS:DEVICE` of a slot or a port, to labels.
    """
    found = [slot(host, name, functions, ports, printed) for name in names(host)]
    return tuple(sorted(found, key=lambda slot: [_natural(part) for part in slot.name.split("-")]))


def _natural(part: str) -> int:
    return int(part) if part.isdecimal() and len(part) < 9 else 0


def slot(
    host: Host, name: str, functions: tuple[Function, ...], ports: Mapping[str, Port], printed: Mapping[str, str]
) -> Slot:
    """One slot."""
    here = f"{SLOTS}/{name}"
    address = host.text(f"{here}/address")
    power = host.text(f"{here}/power")
    port = _port_above(address, functions, ports)
    driver = _driver(host, here, power, port, functions)
    control = port.slot if port is not None else None
    in_slot = _in_slot(address, functions, driver)
    path = slot_path(port.address, functions) if port is not None else address
    return Slot(
        name=name,
        printed=_printed(printed, name, port.address if port is not None else None, address),
        port=port.address if port is not None else None,
        path=path,
        hotplug=Hotplug(
            driver=driver,
            capable=True if driver is not None else _of(control, "hotplug_capable"),
            surprise=_of(control, "surprise"),
            button=_of(control, "attention_button"),
            power_controller=_of(control, "power_controller"),
            indicator=_first(host.text(f"{here}/attention") is not None or None, _of(control, "attention_indicator")),
            latch=_first(host.text(f"{here}/latch") is not None or None, _of(control, "latch_sensor")),
        ),
        power={"1": "on", "0": "off"}.get(power, power) if isinstance(power, str) else power,
        presence=_presence(host, here, control, in_slot),
        latch={"0": "closed", "1": "open"}.get(str(host.text(f"{here}/latch"))),
        link=port.link if port is not None else None,
        addresses=tuple(f.address for f in in_slot),
    )


def _printed(known: Mapping[str, str], name: str, port: str | None, address: Maybe[str]) -> str | None:
    """By the port or the name, as the configuration has it; else by the device or the port, as the firmware has it."""
    keys = (port, name, address, port.rpartition(".")[0] if port is not None else None)
    return next((known[key] for key in keys if isinstance(key, str) and key in known), None)


def slot_path(port: str, functions: tuple[Function, ...]) -> str:
    """The slot's identity: its root port's address, then device.function of each port down to it.

    Bus numbers below the root port change when buses are numbered anew, so they are left out.
    """
    chain = next((f.above for f in functions if f.address == port), ())
    first, *rest = (*chain, port)
    return "/".join([first, *(address.rsplit(":", 1)[1] for address in rest)])


def room(port: Port, functions: tuple[Function, ...], taken: Mapping[str, tuple[tuple[int, int], ...]]) -> Room:
    """What the port can still take: the largest free range of each window, and the bus numbers left below it."""
    largest: dict[str, int] = {"mem": 0, "prefetchable": 0}
    if not isinstance(port.windows, tuple):
        return Room(buses=_free_buses(port, functions), mem=port.windows, prefetchable=port.windows)
    inside = sorted(span for f in functions if f.above and f.above[-1] == port.address for span in taken[f.address])
    for window in port.windows:
        if window.kind not in largest:
            continue
        at = window.start
        for start, end in [*(s for s in inside if window.start <= s[0] <= window.end), (window.end + 1, 0)]:
            largest[window.kind] = max(largest[window.kind], start - at)
            at = max(at, end + 1)
    return Room(buses=_free_buses(port, functions), mem=largest["mem"], prefetchable=largest["prefetchable"])


def _free_buses(port: Port, functions: tuple[Function, ...]) -> Maybe[int]:
    """Bus numbers below the port that no bridge behind it uses; a card with a switch needs some."""
    if not isinstance(port.secondary_bus, int) or not isinstance(port.subordinate_bus, int):
        return port.subordinate_bus
    used = {int(f.address.split(":")[1], 16) for f in functions if port.address in f.above}
    return port.subordinate_bus - max(used | {port.secondary_bus})


def _port_above(address: Maybe[str], functions: tuple[Function, ...], ports: Mapping[str, Port]) -> Port | None:
    """The port whose secondary bus is the slot's; None for a slot on a root bus."""
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        return None
    domain, bus = address.split(":")[:2]
    for function in functions:
        port = ports.get(function.address)
        if port is not None and function.address.startswith(f"{domain}:") and port.secondary_bus == int(bus, 16):
            return port
    return None


def _in_slot(
    address: Maybe[str], functions: tuple[Function, ...], driver: Maybe[str]
) -> tuple[Function, ...]:
    """The functions seated in the slot. pciehp prints device 00 for its whole bus; others name the device."""
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        return ()
    if driver == "pciehp" or address.count(":") < 2:
        return tuple(f for f in functions if bus_of(f.address) == ":".join(address.split(":")[:2]))
    return tuple(f for f in functions if device_of(f.address) == address)


def _driver(host: Host, here: str, power: Maybe[str], port: Port | None, functions: tuple[Function, ...]) -> Maybe[str]:
    """Which driver makes the slot hot-pluggable; None = none does (it has no `power` file)."""
    if power is None:
        return None
    if isinstance(power, Unknown):
        return power
    module = host.link(f"{here}/module")
    if isinstance(module, str):
        return posixpath.basename(module)
    above = next((f for f in functions if port is not None and f.address == port.address), None)
    if above is not None:
        for service in SERVICES:
            bound = host.link(f"{above.path}/{above.address}:{service}/driver")
            if isinstance(bound, str):
                return posixpath.basename(bound)
        if port is not None and port.driver == "shpchp":
            return "shpchp"
    if isinstance(host.names("/sys/module/acpiphp"), tuple):
        return "acpiphp"
    return Unknown("no hot-plug driver of this slot shows itself in sysfs", Kind.IO)


def _presence(
    host: Host, here: str, control: Maybe[SlotControl], in_slot: tuple[Function, ...]
) -> bool | Unknown:
    adapter = host.text(f"{here}/adapter")
    if adapter in ("0", "1"):
        return adapter == "1"
    seen = _of(control, "presence")
    if isinstance(seen, bool):
        return seen
    return True if in_slot else Unknown("the slot has no presence detection that can be read", Kind.IO)


def _of(control: Maybe[SlotControl], name: str) -> Maybe[bool]:
    return control if control is None or isinstance(control, Unknown) else getattr(control, name)


def _first(*answers: Maybe[bool]) -> Maybe[bool]:
    """The first that is a value, else the last."""
    return next((a for a in answers if isinstance(a, bool)), answers[-1])
