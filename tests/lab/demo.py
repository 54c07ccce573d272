# SPDX-License-Identifier: Apache-2.0
"""Capture the demo: a machine with two working accelerators, a network card, and one card that found no room.

    python -m tests.lab.demo hotplugctl/data

writes demo.tar.gz, and the watch that saw them come as demo-run.jsonl.gz.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from .guest import Guest


def main(folder: str) -> None:
    """Boot, watch, plug, capture with our own Recorder (redacted, as for anybody's ticket), and fetch both."""
    with Guest() as guest:
        guest.clean()
        watch = guest.start(guest.command("watch", "--redact", "--record", "/root/demo-run.jsonl"))
        guest.wait(lambda: "watching" in watch.peek()[0], 60, "the watch watches")
        for slot in (1, 2):
            guest.plug(slot, "edu")
            guest.wait(lambda: watch.peek()[0].count("  ready") == slot, 30, "the accelerator is ready")  # noqa: B023
        guest.plug(3, "e1000e", mac="52:54:00:12:34:56")
        guest.wait(lambda: watch.peek()[0].count("  ready") == 3, 30, "the network card is ready")
        guest.plug(4, "pci-testdev", membar=64 << 30)
        guest.wait(lambda: "  failed" in watch.peek()[0], 30, "the card that does not fit has failed")
        watch.signal(signal.SIGINT)
        watch.wait(30)
        result = guest.hotplugctl("diagnose", "--capture", "/root/demo.tar.gz", timeout=120)
        print(watch.peek()[0], result.stdout, result.stderr, sep="\n")
        guest.run("gzip -9 -n /root/demo-run.jsonl")
        for name in ("demo.tar.gz", "demo-run.jsonl.gz"):
            (Path(folder) / name).write_bytes(guest.fetch(f"/root/{name}"))


if __name__ == "__main__":
    main(sys.argv[1])
