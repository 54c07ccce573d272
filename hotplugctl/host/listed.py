"""The bus as `lspci` text tells it, as the files that sysfs would have. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ..model import Bar, Device, Driver, Link, Maybe, Port
from ..readers import hexdump, lspci
from . import dump
from .files import Memory

_FLAGS = {"io": 0x40101, "mem32": 0x40200, "mem64": 0x140204, "mem64pref": 0x14220C}      # include/linux/ioport.h


def bus(texts: Iterable[str]) -> Memory:
    """Every function of the listings, with config space where its bytes were listed."""
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    for text in texts:
        listing = lspci.read_lspci(text, "lspci")
        above = {
            (port.address.split(":")[0], port.secondary_bus): port.address for port in listing.ports
            if isinstance(port.secondary_bus, int)
        }
        known = [(port.address, _port(port), port.driver) for port in listing.ports]
        known += [(d.address, _device(d), _driver(d)) for d in listing.devices if d.address is not None]
        for address, attributes, driver in known:
            here = dump.path(address, above)
            links[f"/sys/bus/pci/devices/{address}"] = f"../../..{here.removeprefix('/sys')}"
            files |= {f"{here}/{name}": value.encode() for name, value in attributes.items()}
            if isinstance(driver, str):
                links[f"{here}/driver"] = f"/sys/bus/pci/drivers/{driver}"
        for device in listing.devices:
            if isinstance(device.slot, str) and device.address is not None:
                files[f"/sys/bus/pci/slots/{device.slot}/address"] = device.address.rsplit(".", 1)[0].encode()
        for address, raw in hexdump.parse_hex_dump(text).items():
            files[f"{dump.path(address, above)}/config"] = raw
    return Memory(files, links)


def _driver(device: Device) -> Maybe[str]:
    return device.driver.name if isinstance(device.driver, Driver) else device.driver


def _port(port: Port) -> dict[str, str]:
    found = {"class": "0x060400", "vendor": "0x", "device": "0x"}
    for name, number in (("secondary", port.secondary_bus), ("subordinate", port.subordinate_bus)):
        if isinstance(number, int):
            found[f"{name}_bus_number"] = str(number)
    return found | _link(port.link)


def _device(device: Device) -> dict[str, str]:
    numbers = (("vendor", device.vendor_id), ("device", device.device_id), ("class", device.class_))
    found = {name: f"0x{number if isinstance(number, str) else ''}" for name, number in numbers}
    if isinstance(device.numa_node, int):
        found["numa_node"] = str(device.numa_node)
    if isinstance(device.bars, tuple):
        found["resource"] = _resource(device.bars)
    return found | _link(device.link)


def _link(link: Maybe[Link]) -> dict[str, str]:
    if not isinstance(link, Link):
        return {}
    rows = (
        ("current_link_width", link.width, "{}"), ("max_link_width", link.max_width, "{}"),
        ("current_link_speed", link.speed_gts, "{} GT/s PCIe"), ("max_link_speed", link.max_speed_gts, "{} GT/s PCIe"),
    )
    return {name: form.format(value) for name, value, form in rows if isinstance(value, int | float)}


def _resource(bars: tuple[Bar, ...]) -> str:
    rows = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 13
    for bar in bars:
        placed = bar.assigned is True and bar.index < len(rows)
        if placed and isinstance(bar.address, int) and isinstance(bar.size, int):
            flags = _FLAGS.get(str(bar.kind), 0x40200)
            rows[bar.index] = f"{bar.address:#018x} {bar.address + bar.size - 1:#018x} {flags:#018x}"
    return "\n".join(rows)
