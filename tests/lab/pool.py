# SPDX-License-Identifier: Apache-2.0
"""Run in the guest: an application that keeps a pool and says what it is told. Usage: pool.py [HOW] [SECONDS].

It ends after SECONDS or with SIGTERM.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from typing import Any

from hotplugctl import Listener, listen
from hotplugctl.model import Change, Device

HOW = sys.argv[1] if len(sys.argv) > 1 else ""


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


class Pool(Listener):
    def on_changed(self, change: Change) -> None:
        say(call="changed", kind=change.kind.value)

    def on_added(self, device: Device) -> None:
        if HOW == "raises":
            raise RuntimeError("no room for it")
        say(call="added", slot=device.slot)

    def on_ready(self, device: Device) -> None:
        if HOW == "slow" and device.slot == "1":
            time.sleep(4)
        say(call="ready", slot=device.slot)

    def on_draining(self, device: Device, deadline_s: float | None) -> None:
        say(call="draining", slot=device.slot, deadline=deadline_s)

    def on_removed(self, device: Device, expected: bool) -> None:
        say(call="removed", slot=device.slot, expected=expected)

    def on_pool(self, devices: tuple[Device, ...], batch: str) -> None:
        say(call="pool", slots=[device.slot for device in devices], batch=batch)


stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with listen(Pool()) as session:
    stop.wait(float(sys.argv[2]) if len(sys.argv) > 2 else 60)
    session.settle(5)
    say(call="end", errors=[[error.callback, str(error.error)] for error in session.errors],
        timings=[[t.kind, t.pool, t.restored, t.stages.get("removal", 0.0)] for t in session.timings])
