# SPDX-License-Identifier: Apache-2.0
"""Capture the demo: a machine with two working accelerators, a network card, and one card that found no room.

    python -m tests.lab.demo hotplugctl/data/demo.tar.gz
"""

from __future__ import annotations

import sys
from pathlib import Path

from .guest import Guest


def main(dest: str) -> None:
    """Boot, plug, capture with our own Recorder (redacted, as for anybody's ticket), and fetch the bundle."""
    with Guest() as guest:
        guest.clean()
        for slot in (1, 2):
            address = guest.plug(slot, "edu")
            status = f"/sys/bus/pci/devices/{address}/status"
            guest.wait(lambda: guest.read(status).strip() == "operational", 30, "the accelerator is up")  # noqa: B023
        guest.plug(3, "e1000e", mac="52:54:00:12:34:56")
        guest.plug(4, "pci-testdev", membar=64 << 30)
        guest.wait(lambda: "failed to assign" in guest.dmesg(), 20, "the kernel gave up on the BAR")
        result = guest.hotplugctl("diagnose", "--capture", "/root/demo.tar.gz", timeout=120)
        print(result.stdout, result.stderr, sep="\n")
        Path(dest).write_bytes(guest.fetch("/root/demo.tar.gz"))


if __name__ == "__main__":
    main(sys.argv[1])
