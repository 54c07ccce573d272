"""The example of the README: a pool of usable accelerators that moves work away before a card goes."""

from __future__ import annotations

import threading

from hotplugctl import Listener, listen
from hotplugctl.model import Device


class Pool(Listener):
    """Hands out cards; a card that is about to leave takes no new work and gives its own back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.usable: set[str] = set()
        self.moved: list[str] = []

    def on_pool(self, devices: tuple[Device, ...], batch: str) -> None:
        """The usable set, read afresh: never count on your own."""
        with self._lock:
            self.usable = {device.address for device in devices if device.address}

    def on_draining(self, device: Device, deadline_s: float | None) -> None:
        """No new work from here on, and what runs is moved; this may take until the deadline."""
        with self._lock:
            self.usable.discard(device.address or "")
            self.moved.append(device.address or "")

    def on_removed(self, device: Device, expected: bool) -> None:
        """Gone. Without notice (expected False) the work on it is lost, and starts again elsewhere."""
        with self._lock:
            self.usable.discard(device.address or "")


if __name__ == "__main__":
    with listen(Pool()) as session:
        print([device.address for device in session.devices()])
        threading.Event().wait()
