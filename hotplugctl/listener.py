"""For applications: be told of accelerators that come, become usable, are about to leave, and are gone.

The watch runs on a thread of its own; callbacks run on workers, in order for one device. A callback that raises or
hangs is reported and hurts nothing else. Leaving the `with` block unregisters.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType

from . import config
from .model import Change, ChangeKind, Device, State
from .warming import warm
from .watch.loop import BATCH_S
from .watch.run import Asked, Opened, opened_watch

log = logging.getLogger("hotplugctl")
PATIENCE_S = 10.0      # a callback that runs longer is reported, and never waited for
CLOSING_S = 2.0        # so long the end waits for callbacks that are still running


class Listener:
    """Derive, and override what you need; every method may be slow, none may be relied on to run at once."""

    def on_added(self, device: Device) -> None:
        """Seen, not yet usable."""

    def on_ready(self, device: Device) -> None:
        """The second handshake passed: use it."""

    def on_draining(self, device: Device, deadline_s: float | None) -> None:
        """Finish up, take no new work; after `deadline_s` seconds it goes (None = it is not said when)."""

    def on_removed(self, device: Device, expected: bool) -> None:
        """Gone."""

    def on_pool(self, devices: tuple[Device, ...], batch: str) -> None:
        """Once per batch: the usable set, read afresh."""

    def on_changed(self, change: Change) -> None:
        """Every change."""


@dataclass(frozen=True, slots=True)
class CallbackError:
    """A callback that raised, or that hangs (`error` is then a TimeoutError)."""

    callback: str
    address: str | None
    error: BaseException


@dataclass
class Timing:
    """Of one change: seconds from when it was seen. `restored`: the last callback, the pool's included, is done."""

    kind: str
    address: str | None
    stages: Mapping[str, float]
    seen: float
    pool: float | None = None
    restored: float | None = None


# Which method of the listener a change is for.
_CALLS: dict[ChangeKind, Callable[[Listener, Change, Device], None]] = {
    ChangeKind.ADDED: lambda to, _, device: to.on_added(device),
    ChangeKind.READY: lambda to, _, device: to.on_ready(device),
    ChangeKind.DRAINING: lambda to, change, device: to.on_draining(device, change.deadline_s),
    ChangeKind.REMOVED: lambda to, change, device: to.on_removed(device, change.expected is True),
    ChangeKind.SURPRISE_REMOVED: lambda to, _, device: to.on_removed(device, False),
}

_JOINING = (ChangeKind.ADDED, ChangeKind.REPLACED, ChangeKind.READY)
# These do not change what is usable: the pool is not told. A ready card joins it after its warm-up.
_NO_POOL = (ChangeKind.PROGRESS, ChangeKind.ADDED, ChangeKind.READY, ChangeKind.LATE, ChangeKind.FLAPPING,
            ChangeKind.ERROR)
_SETTLED = (ChangeKind.RECOVERED, ChangeKind.REMOVED, ChangeKind.SURPRISE_REMOVED)


def _key(one: Change | Device) -> str:
    """What is about the same card is called back one after another."""
    return one.address or (one.slot if isinstance(one.slot, str) else "")


def listen(
    listener: Listener, workers: int = 4, *, replay: str | None = None, config_file: str | None = None
) -> Session:
    """Listen while the `with` block runs; `replay` plays a recorded run instead, without any privilege.

    Raises HotplugError on entering when the machine cannot be listened to.
    """
    return Session(listener, workers, replay, config.settings(config_file))


@dataclass
class Session:
    """A listener at work."""

    listener: Listener
    workers: int
    replay: str | None
    settings: config.Settings
    errors: list[CallbackError] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)

    def __enter__(self) -> Session:
        self._opened: Opened = opened_watch(Asked(replay=self.replay), self.settings, log.warning)
        self._pool = ThreadPoolExecutor(self.workers, "hotplugctl")
        self._strands: dict[str, deque[tuple[str, str | None, Callable[[], None]]]] = {}
        self._running: dict[str, tuple[float, str, str | None]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._idle = threading.Condition(self._lock)
        self._batch: str | None = None
        self._waiting: list[Timing] = []
        self._joining: set[str] = set()      # cards that were added and are not handed over as usable yet
        self._warming: set[str] = set()
        self._warmed: list[tuple[str, Timing]] = []
        self._ended = threading.Event()
        for name, work in (("hotplugctl-watch", self._follow), ("hotplugctl-patience", self._look_after)):
            threading.Thread(target=work, name=name, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.stop()
        self._ended.wait(CLOSING_S)
        self.settle(CLOSING_S)
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._opened.close()

    def devices(self) -> tuple[Device, ...]:
        """The usable set, read afresh: ready, held by nobody, and with its warm-up behind it."""
        found = self._opened.look()
        with self._lock:
            return tuple(one for one in found if one.state is State.READY and _key(one) not in self._joining)

    def settle(self, timeout: float) -> bool:
        """Wait until what was seen so far has been called back and the pool told; False when time was up."""
        until = time.monotonic() + timeout
        with self._idle:
            while self._strands or self._running or self._batch is not None:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._idle.wait(min(left, 0.1))
        return True

    def ended(self, timeout: float) -> bool:
        """Wait for the end of a replay."""
        return self._ended.wait(timeout)

    def _follow(self) -> None:
        """The watch's own thread: it hands over and never calls back itself."""
        try:
            for change in self._opened.watch.changes():
                self._hand_over(change)
        except Exception as error:  # noqa: BLE001  the application is told; there is nobody else to tell
            self._report("watch", None, error)
        finally:
            self._ended.set()

    def _hand_over(self, change: Change) -> None:
        key = _key(change)
        timing = Timing(change.kind.value, change.address, change.timings, time.monotonic())
        self.timings.append(timing)
        device = change.device
        self._call(key, "on_changed", change.address, lambda: self.listener.on_changed(change))
        if change.kind is ChangeKind.REPLACED and device is not None:
            self._call(key, "on_removed", change.address, lambda: self.listener.on_removed(device, False))
            self._call(key, "on_added", change.address, lambda: self.listener.on_added(device))
        batch = change.batch or change.id
        with self._lock:
            if change.kind in _JOINING:
                self._joining.add(key)
            elif change.kind in _SETTLED:
                self._joining.discard(key)
            if change.kind is ChangeKind.READY:
                self._warming.add(key)
        if change.kind is ChangeKind.READY:
            self._call(key, "warm-up", change.address, lambda: self._warm(key, change, batch, timing))
        call = _CALLS.get(change.kind)
        if call is not None and device is not None:
            self._call(key, f"on_{change.kind.value}", change.address, lambda: call(self.listener, change, device))
        self._call(key, "", None, lambda: setattr(timing, "restored", time.monotonic() - timing.seen))
        if change.kind not in _NO_POOL:
            self._join_batch(batch, timing)

    def _warm(self, key: str, change: Change, batch: str, timing: Timing) -> None:
        """A stage of its own, outside the budget; a card whose warm-up fails joins the pool all the same.

        The pool is told of the cards that warm up together when the last of them is done.
        """
        try:
            if change.device is not None:
                warmed = warm(self._opened.watch.scene.host, change.device, self.settings)
                if warmed.ran:
                    timing.stages = {**timing.stages, "warmup": warmed.seconds}
                if not warmed.passed:
                    self._report("warm-up", change.address, RuntimeError(warmed.said))
        finally:
            with self._lock:
                self._joining.discard(key)
                self._warming.discard(key)
                self._warmed.append((batch, timing))
                done = [] if self._warming else self._warmed
                self._warmed = self._warmed if self._warming else []
            for one in done:
                self._join_batch(*one)

    def _join_batch(self, batch: str, timing: Timing) -> None:
        """The pool is told once for all that comes within a short time."""
        with self._lock:
            self._waiting.append(timing)
            if self._batch is not None:
                return
            self._batch = batch
        timer = threading.Timer(BATCH_S, self._call, (" pool", "on_pool", None, lambda: self._tell_pool(batch)))
        timer.daemon = True
        timer.start()

    def _tell_pool(self, batch: str) -> None:
        """When a worker has come to it: what joined while it waited for one is in it as well."""
        with self._lock:
            waiting, self._waiting, self._batch = self._waiting, [], None
        self.listener.on_pool(self.devices(), batch)
        for timing in waiting:
            timing.pool = time.monotonic() - timing.seen
            timing.restored = max(timing.restored or 0.0, timing.pool)

    def _call(self, key: str, name: str, address: str | None, work: Callable[[], None]) -> None:
        """Queue a call behind the others of the same device."""
        with self._lock:
            strand = self._strands.get(key)
            if strand is not None:
                strand.append((name, address, work))
                return
            self._strands[key] = deque([(name, address, work)])
        self._pool.submit(self._run_strand, key)

    def _run_strand(self, key: str) -> None:
        while True:
            with self._idle:
                strand = self._strands[key]
                if not strand:
                    del self._strands[key]
                    self._running.pop(key, None)
                    self._idle.notify_all()
                    return
                name, address, work = strand.popleft()
                self._running[key] = (time.monotonic(), name, address)
            try:
                work()
            except Exception as error:  # noqa: BLE001  whatever it is: it is the callback's, and the loop goes on
                self._report(name, address, error)

    def _look_after(self) -> None:
        """Report a callback that hangs, once."""
        reported: set[float] = set()
        while not self._closed.wait(0.5):
            now = time.monotonic()
            with self._lock:
                hanging = [one for one in self._running.values() if now - one[0] > PATIENCE_S]
            for at, name, address in hanging:
                if at not in reported:
                    reported.add(at)
                    self._report(name, address, TimeoutError(f"{name} runs for more than {PATIENCE_S:g} s"))

    def _report(self, name: str, address: str | None, error: BaseException) -> None:
        self.errors.append(CallbackError(name, address, error))
        log.error("%s for %s: %r", name, address, error)

