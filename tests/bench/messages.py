"""Uevents as bytes, in both framings."""

from __future__ import annotations

import struct


def message(action: str = "add", devpath: str = "/devices/pci0000:00/0000:00:01.0", subsystem: str = "pci") -> bytes:
    """As lib/kobject_uevent.c writes it."""
    return (f"{action}@{devpath}\0ACTION={action}\0DEVPATH={devpath}\0SUBSYSTEM={subsystem}\0PCI_ID=1234:11E8\0"
            "SEQNUM=4711\0").encode()


def of_udev(properties: bytes, *, magic: bytes = b"\xfe\xed\xca\xfe", length: int | None = None) -> bytes:
    """As systemd's device-monitor.c writes it: the header, its hashes and bloom filter empty, then the properties."""
    long = len(properties) if length is None else length
    return struct.pack("=8s4sIII16x", b"libudev\0", magic, 40, 40, long) + properties
