"""Second handshakes on worker threads: the loop asks, a worker runs, and the loop is woken when one has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from .. import health
from ..look import profile_for
from ..model import Device, State
from .scene import Scene

WORKERS = 4
RENEW = 0.8          # of max_age: a running watch renews a record before it expires
RETRY_S = 5.0        # after a check that failed


class Checks:
    """Runs the health check of a device that needs one; one at a time for each card."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._pool = ThreadPoolExecutor(WORKERS, "health")
        self._running: set[str] = set()
        self._void: set[str] = set()         # the card went while its check ran: the result is nobody's
        self._again: dict[str, float] = {}   # address -> when its check is due again
        self._lock = threading.Lock()

    def ask(self, scene: Scene, device: Device) -> None:
        """As in Checker. A device below INITIALISED has nothing to ask; a young result is not asked again."""
        address = device.address
        if scene.seen is None or address is None:
            return
        if device.rung not in (State.INITIALISED, State.READY):
            self._again.pop(address, None)
            scene.forget_health(address)
            with self._lock:
                self._void |= self._running & {address}
            return
        function = scene.seen.by_address.get(address)
        profile = profile_for(scene.profiles, function) if function is not None else None
        if function is None or profile is None or profile.handshake is None:
            return
        known = device.rung is State.READY or device.sure      # a result that counts, good or bad
        with self._lock:
            if address in self._running or (known and scene.host.now() < self._again.get(address, 0.0)):
                return
            self._running.add(address)
        self._pool.submit(self._run, scene, device, address)

    def close(self) -> None:
        """Begin no more; what hangs is left behind."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, scene: Scene, device: Device, address: str) -> None:
        seen = scene.seen
        function = seen.by_address.get(address) if seen is not None else None
        profile = profile_for(scene.profiles, function) if function is not None else None
        check = profile.handshake if profile is not None else None
        try:
            if seen is None or function is None or profile is None or check is None:
                return
            result = health.health_check(seen, function, profile)
            with self._lock:
                if address in self._void:
                    return
            health.remember(seen, device, address, result)
            self._again[address] = scene.host.now() + (check.max_age * RENEW if result[0] else RETRY_S)
        finally:
            with self._lock:
                self._running.discard(address)
                self._void.discard(address)
            self._wake()


class NoChecks:
    """For a replay, where nothing is run: the recorded looks hold the results."""

    def ask(self, scene: Scene, device: Device) -> None:
        """Nothing."""
