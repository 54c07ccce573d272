"""PCI addresses (domain:bus:device.function), parsed where they enter."""

from __future__ import annotations

import re

from ..errors import Exit, HotplugError

# A domain may have more than four digits (a VMD domain is 10000:), see drivers/pci/controller/vmd.c.
ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<device>[01][0-9a-f])\.(?P<function>[0-7])"
)


def parse_address(raw: str) -> str:
    """`3b:00.0` or `0000:3B:00.0` as `0000:3b:00.0`. Raises HotplugError naming `raw` when it is no PCI address."""
    match = ADDRESS.fullmatch(raw.strip().lower())
    if match is None:
        raise HotplugError(
            f"{raw!r} is not a PCI address", why="expected DOMAIN:BUS:DEVICE.FUNCTION in hex, such as 0000:3b:00.0",
            hint="hotplugctl list", exit=Exit.USAGE,
        )
    return f"{match['domain'] or '0000'}:{match['bus']}:{match['device']}.{match['function']}"


def bus_of(address: str) -> str:
    """`0000:3b` of `0000:3b:00.0`."""
    return address.rsplit(":", 1)[0]


def device_of(address: str) -> str:
    """`0000:3b:00` of `0000:3b:00.0`: the card, whichever of its functions was named."""
    return address.rsplit(".", 1)[0]
