"""What is printed on the board beside a slot: SMBIOS type 9, "System Slots" (DSP0134 7.10).

Firmware names the slot's bus as it was at power-on: of the card in it, on some boards of the port above. An empty slot
often has no bus there, and then nothing tells which one it is.
"""

from __future__ import annotations

from ..host import Host

ENTRIES = "/sys/firmware/dmi/entries"       # drivers/firmware/dmi-sysfs.c; `raw` is root's alone
SYSTEM_SLOT = "9-"
NAME, SEGMENT, BUS, DEVICE = 0x04, 0x0D, 0x0F, 0x10      # since SMBIOS 2.6 a slot has the last three
NOWHERE = 0xFF


def slot_names(host: Host) -> dict[str, str]:
    """`DOMAIN:BUS:DEVICE` -> what is printed there; nothing where the firmware or this user cannot tell."""
    names = host.names(ENTRIES)
    found: dict[str, str] = {}
    for entry in names if isinstance(names, tuple) else ():
        raw = host.data(f"{ENTRIES}/{entry}/raw", 4096) if entry.startswith(SYSTEM_SLOT) else None
        if not isinstance(raw, bytes) or len(raw) <= DEVICE or raw[1] <= DEVICE or raw[BUS] == NOWHERE:
            continue
        texts = raw[raw[1]:].split(b"\0")
        name = texts[raw[NAME] - 1].decode("ascii", errors="backslashreplace").strip() if (
            0 < raw[NAME] <= len(texts)) else ""
        if name:
            segment = int.from_bytes(raw[SEGMENT:SEGMENT + 2], "little")
            found[f"{segment:04x}:{raw[BUS]:02x}:{raw[DEVICE] >> 3:02x}"] = name
    return found
