# SPDX-License-Identifier: Apache-2.0
"""Run in the guest: an application that works on every usable card and moves its work when one is to leave.

Units of work are counted when they are begun and when they are done; a unit that is begun on a card needs the card's
node open until it is done. It ends with SIGTERM and says what became of them.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from typing import Any

from hotplugctl import Listener, listen
from hotplugctl.model import Device

UNIT_S = 0.2
SETUP_S = 0.5        # what an application does before it lets go: it writes a checkpoint


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


class Worker(threading.Thread):
    """Takes units of the common queue while its card may be used."""

    def __init__(self, device: Device, units: itertools.count[int], counts: dict[str, int]) -> None:
        super().__init__(daemon=True)
        self.slot = str(device.slot)
        self.path = device.nodes[0].path  # type: ignore[index]
        self.units, self.counts = units, counts
        self.leaving = threading.Event()

    def run(self) -> None:
        node = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            while not self.leaving.is_set():
                next(self.units)
                self.counts["begun"] += 1
                time.sleep(UNIT_S)
                os.fstat(node)
                self.counts["done"] += 1
                self.counts[self.slot] = self.counts.get(self.slot, 0) + 1
            time.sleep(SETUP_S)
        finally:
            os.close(node)


class Application(Listener):
    def __init__(self) -> None:
        self.units = itertools.count()
        self.counts: dict[str, int] = {"begun": 0, "done": 0}
        self.workers: dict[str, Worker] = {}

    def on_pool(self, devices: tuple[Device, ...], batch: str) -> None:
        say(call="pool", slots=sorted(str(device.slot) for device in devices))
        for device in devices:
            if str(device.slot) not in self.workers:
                worker = self.workers[str(device.slot)] = Worker(device, self.units, self.counts)
                worker.start()

    def on_draining(self, device: Device, deadline_s: float | None) -> None:
        say(call="draining", slot=device.slot, deadline=deadline_s)
        worker = self.workers.pop(str(device.slot), None)
        if worker is not None:
            worker.leaving.set()
            worker.join()
            say(call="moved", slot=device.slot)


stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
application = Application()
with listen(application) as session:
    application.on_pool(session.devices(), "at first")
    stop.wait(300)
    for worker in application.workers.values():
        worker.leaving.set()
    for worker in application.workers.values():
        worker.join()
    say(call="end", counts=application.counts, errors=[str(error.error) for error in session.errors])
