"""An `lspci -xxxx` dump as a machine: config space is all there is, and everything else was not captured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from ..model import Kind, Maybe, Unknown, parse_address
from ..readers import header, hexdump
from .files import Memory
from .tree import Tree

T = TypeVar("T")

# What `lspci -nn` says of a function that no longer answers: class, vendor and device id.
_IDS = re.compile(
    r"^(?P<where>[0-9a-f:]{5,}\.[0-7]) .*?\[(?P<kind>[0-9a-f]{4})\]: "
    r".*\[(?P<vendor>[0-9a-f]{4}):(?P<model>[0-9a-f]{4})\]",
    re.MULTILINE,
)


class Dump(Tree):
    """What the dump does not hold is Unknown (not_captured), never "not there"."""

    holder = "the dump"

    def data(self, path: str, limit: int = 4096) -> Maybe[bytes]:
        """As in Host."""
        return _unless_absent(self.holder, super().data(path, limit), path)

    def names(self, path: str) -> Maybe[tuple[str, ...]]:
        """As in Host."""
        return _unless_absent(self.holder, super().names(path), path)

    def link(self, path: str) -> Maybe[str]:
        """As in Host."""
        return _unless_absent(self.holder, super().link(path), path)

    def real(self, path: str) -> Maybe[str]:
        """As in Host."""
        return _unless_absent(self.holder, super().real(path), path)


def from_text(text: str) -> Dump | None:
    """The machine of a dump; None when the text holds none."""
    spaces = hexdump.parse_hex_dump(text)
    if not spaces:
        return None
    above = _bridges(spaces)
    said = {parse_address(match["where"]): match for match in _IDS.finditer(text)}
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    for address, config in spaces.items():
        here = path(address, above)
        links[f"/sys/bus/pci/devices/{address}"] = f"../../..{here.removeprefix('/sys')}"
        files[f"{here}/config"] = config
        for name, value in _attributes(config, said.get(address)).items():
            files[f"{here}/{name}"] = value.encode()
    return Dump(Memory(files, links), "unknown")


def _attributes(config: bytes, said: re.Match[str] | None) -> dict[str, str]:
    """The attributes sysfs would have: from config space, of a dead function from its line in the listing."""
    who = header.identity(config)
    if isinstance(who, header.Identity):
        found = {"vendor": f"0x{who.vendor_id}", "device": f"0x{who.device_id}", "class": f"0x{who.class_}"}
        if who.secondary_bus is not None and who.subordinate_bus is not None:
            found |= {
                "secondary_bus_number": str(who.secondary_bus), "subordinate_bus_number": str(who.subordinate_bus),
            }
        return found
    if said is None:
        return {}
    return {"vendor": f"0x{said['vendor']}", "device": f"0x{said['model']}", "class": f"0x{said['kind']}00"}


def _bridges(spaces: dict[str, bytes]) -> dict[tuple[str, int], str]:
    """(domain, secondary bus) -> the bridge above it."""
    found = {}
    for address, config in spaces.items():
        who = header.identity(config)
        if not isinstance(who, Unknown) and who is not None and who.secondary_bus:
            found[address.split(":")[0], who.secondary_bus] = address
    return found


def path(address: str, above: Mapping[tuple[str, int], str]) -> str:
    """A function's directory in sysfs; `above` is the bridge above each (domain, bus)."""
    way = _chain(address, above)
    return "/".join([f"/sys/devices/pci{way[0].rsplit(':', 1)[0]}", *way])


def _chain(address: str, above: Mapping[tuple[str, int], str]) -> list[str]:
    """The addresses from the root bus down to this one; a bridge that names itself does not make a loop."""
    way = [address]
    while True:
        domain, bus = way[0].split(":")[:2]
        parent = above.get((domain, int(bus, 16)))
        if parent is None or parent in way:
            return way
        way.insert(0, parent)


def _unless_absent(holder: str, answer: Maybe[T], path: str) -> Maybe[T]:
    return Unknown(f"{path} is not in {holder}", Kind.NOT_CAPTURED) if answer is None else answer
