"""From a raw uevent of the kernel to the Change that `watch` makes of it.

The event is a real one about /dev/null; that it is about a card is told to the watch, and the card is a built tree in
which it comes and goes: no PCI device of this machine is touched.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from hotplugctl import config
from hotplugctl.host.waiting import Waiting
from hotplugctl.model import Unknown
from hotplugctl.readers.uevents import KernelEvents
from hotplugctl.watch.checks import NoChecks
from hotplugctl.watch.loop import Wake, Watch
from hotplugctl.watch.moves import Limits
from hotplugctl.watch.scene import Scene

from ..machine import MachineTree
from . import announce

CARD = "/devices/pci0000:00/0000:00:01.0/0000:01:00.0"


@dataclass
class Translated:
    """A source of real events, each taken for one about the card."""

    events: KernelEvents
    waiting: Waiting
    stop: threading.Event = field(default_factory=threading.Event)

    def wait(self, timeout: float) -> Wake:
        self.waiting.wait(min(timeout, 0.2))
        heard = self.events.read()
        about = tuple(replace(event, devpath=CARD, subsystem="pci", action="change") for event in heard.events)
        return Wake(self.waiting.now(), time.time(), about, lost=heard.lost, ended=self.stop.is_set())


def latencies(count: int) -> list[float]:
    """Seconds from just before an event is sent to its Change, `count` times."""
    events = KernelEvents.open({announce.SUBSYSTEM})
    if isinstance(events, Unknown):
        raise SystemExit(events.why)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(events):
        machine = MachineTree(Path(folder) / "machine")
        machine.port()
        machine.card()
        present = machine.root / "sys/bus/pci/devices/0000:01:00.0"
        target = os.readlink(present)
        waiting = Waiting()
        waiting.add("events", events.fileno())
        source = Translated(events, waiting)
        watch = Watch(Scene(machine.host, config.Settings(), machine.profiles), source, NoChecks(), Limits(),
                      lambda *_: None)
        sent: list[float] = []
        taken: list[float] = []

        def send() -> None:
            with announce.Announcer() as announcer:
                for number in range(count):
                    if number % 2:
                        present.symlink_to(target)
                    else:
                        present.unlink()
                    sent.append(announcer.say(N=number))
                    time.sleep(0.02)
            source.stop.set()

        sender = threading.Thread(target=send)
        for change in watch.changes():
            now = time.monotonic()
            if change.kind.value == "snapshot":
                sender.start()
            elif change.kind.value in ("removed", "added", "surprise_removed"):
                taken.append(now - sent[-1])
        sender.join()
        return taken


def report(count: int) -> None:
    """Print the median and the worst."""
    found = sorted(latencies(count))
    print(f"\na relevant event to its Change, {len(found)} of {count}: median {1e3 * median(found):.2f} ms, "
          f"p99 {1e3 * found[len(found) * 99 // 100]:.2f} ms (at most 20 ms is wanted)")
