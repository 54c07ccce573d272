"""Config space as text, in the form of `lspci -xxxx`, and back."""

from __future__ import annotations

import re

from ..model import ADDRESS, parse_address

_DEVICE = re.compile(rf"{ADDRESS.pattern}(?=\s|$)", re.IGNORECASE)
_LINE = re.compile(r"\s*(?P<at>[0-9a-f]{2,3}):(?P<bytes>(?: [0-9a-f]{2}){1,16})", re.IGNORECASE)
MOST = 4096      # the size of a function's config space (PCIe base spec 7.2.2)


def hex_dump(config: bytes) -> str:
    """Sixteen bytes a line, as `lspci -xxxx` prints them below the name of the device."""
    return "".join(f"{at:02x}: {config[at:at + 16].hex(' ')}\n" for at in range(0, len(config), 16))


def parse_hex_dump(text: str) -> dict[str, bytes]:
    """Address -> config space, out of an `lspci -x`, `-xxx` or `-xxxx` listing; other lines are passed over.

    Reads on where the next line continues the last one: a hole ends that device's bytes. A device listed twice keeps
    the longer reading. Devices without hex lines are left out.
    """
    readings: list[tuple[str, bytearray]] = []
    for line in text.splitlines():
        if device := _DEVICE.match(line):
            readings.append((parse_address(device[0]), bytearray()))
        elif readings and (row := _LINE.fullmatch(line.rstrip())):
            config = readings[-1][1]
            if int(row["at"], 16) == len(config) < MOST:
                config += bytes.fromhex(row["bytes"])
    readings.sort(key=lambda reading: len(reading[1]))
    return {address: bytes(config) for address, config in readings if config}
