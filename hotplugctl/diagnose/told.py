"""What the log of an archive tells of a device that nobody probed: its ids, its class, the driver it is bound to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..model import Device, Driver, LogLine, Probed, Profile, Unknown

_FOUND = re.compile(r"\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\] type 0\d class (?:0x)?(?P<class>[0-9a-f]{6})")
_SPEAKS = re.compile(r"(?P<driver>[a-z][\w-]*) [0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7][ :]")
# The PCI core prints it in the name of the driver that probes; others speak under the device's name as well.
_PROBES = re.compile(r"(?P<driver>[a-z][\w-]*) [0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]: enabling device \(")
_PROBED = re.compile(r"Probe driver OUT|Half probe finish, probe success")
_UNBOUND = re.compile(
    r"probe with driver \S+ failed|: probe of \S+ failed|[Rr]emove driver exit|unbind driver|Removing from iommu group"
)
# Speakers that are not the driver of a function: the PCI core and the port services.
_CORE = frozenset({"pci", "pcieport", "pci_bus", "pciehp", "iommu", "vgaarb", "acpi"})


def told(device: Device | None, address: str, lines: Iterable[LogLine], profiles: Sequence[Profile]) -> Device:
    """The device with what the log adds where nobody looked; what was looked at stays."""
    known = device if device is not None else Probed(address=address)
    sources = dict(known.sources) if isinstance(known, Probed) else {}
    drivers = frozenset(name for profile in profiles for name in (*profile.drivers, *profile.passthrough))
    driver: Driver | None = None
    for line in lines:
        where = f"{line.source}:{line.line}"
        found = _FOUND.search(line.text)
        if found is not None and line.address == address:
            if isinstance(known.vendor_id, Unknown):
                known = replace(known, vendor_id=found["vendor"], device_id=found["device"])
                sources["vendor_id"] = sources["device_id"] = where
            if isinstance(known.class_, Unknown):
                known = replace(known, class_=found["class"])
                sources["class"] = where
        if _UNBOUND.search(line.text):
            driver = None
            continue
        name = _driver_of(line)
        if name is not None and (name in drivers or driver is None or _PROBES.match(line.text)):
            driver, sources["driver.name"] = Driver(name=name), where
    believed = driver is not None and (driver.name in drivers or not _ours(known, profiles))
    if isinstance(known.driver, Unknown) and believed:
        known = replace(known, driver=driver)
    return replace(known, sources=sources) if isinstance(known, Probed) else known


def _ours(device: Device, profiles: Sequence[Profile]) -> bool:
    """Has the card a profile by its ids? Then a stranger's name at its lines is not enough to call it bound."""
    ids = (device.vendor_id, device.device_id, device.class_)
    plain = [part for part in ids if isinstance(part, str)]
    return len(plain) == 3 and any(profile.match.covers(*plain) for profile in profiles)


def _driver_of(line: LogLine) -> str | None:
    """The driver whose card this line shows at work."""
    if line.text.startswith("[ascend]") and _PROBED.search(line.text):
        return "devdrv_device_driver"
    speaks = _SPEAKS.match(line.text)
    return speaks["driver"] if speaks is not None and speaks["driver"] not in _CORE else None
