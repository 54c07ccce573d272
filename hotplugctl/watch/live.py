"""Wake-ups of this machine: both uevent groups, the kernel log, the clock, and workers that have ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from ..errors import Exit, HotplugError
from ..host import Host
from ..host.kmsg import KernelLog
from ..host.waiting import Waiting
from ..model import Kind, Profile, Uevent, Unknown
from ..readers.uevents import KernelEvents, UdevEvents
from .loop import Wake

# What a card's coming and going shows in; vendor classes come with the profiles.
SUBSYSTEMS = ("pci", "slots", "accel", "drm", "vfio")
SOURCES = ("auto", "udev", "kernel")


class LiveSource:
    """As Source. Opened before the first look, so that nothing between the two is lost."""

    def __init__(self, host: Host, profiles: Sequence[Profile], source: str) -> None:
        if source not in SOURCES:
            raise HotplugError(
                f"--source {source!r}", why=f"it is one of {', '.join(SOURCES)}", hint="--source auto", exit=Exit.USAGE
            )
        subsystems = {*SUBSYSTEMS, *(name for profile in profiles for name in profile.classes)}
        self._waiting = Waiting()
        self._checked = False
        self._stopped = False
        self._events: dict[str, KernelEvents | UdevEvents] = {}
        self.gaps: list[str] = []
        if source in ("auto", "kernel"):
            self._listen("kernel", KernelEvents.open(subsystems))
        if source in ("auto", "udev"):
            udev = UdevEvents.open(host, subsystems)
            self._listen("udev", Unknown("udevd is not running", Kind.IO) if udev is None else udev)
        if not self._events:
            raise HotplugError(
                "no events can be heard", why="; ".join(self.gaps), hint="run it on the host, or with --source auto",
                exit=Exit.UNKNOWN,
            )
        log = KernelLog.open()
        self._log = None if isinstance(log, Unknown) else log
        if self._log is None:
            self.gaps.append(f"the kernel log cannot be followed: {log.why if isinstance(log, Unknown) else ''}")
        else:
            self._waiting.add("log", self._log.fileno())

    def wait(self, timeout: float) -> Wake:
        """As in Source."""
        ready = self._waiting.wait(timeout)
        events: list[Uevent] = []
        lost = 0
        for name, source in self._events.items():
            if name in ready:
                heard = source.read()
                events += heard.events
                lost += heard.lost
        text = ""
        if self._log is not None and "log" in ready:
            text, overwritten = self._log.read()
            lost += overwritten
        offset = self._log.offset if self._log is not None else None
        checked, self._checked = self._checked, False
        return Wake(
            self._waiting.now(), time.time(), tuple(events), text, offset or 0.0, lost, checked, self._stopped)

    def now(self) -> float:
        """Monotonic seconds, the clock of every wake-up."""
        return self._waiting.now()

    def checked(self) -> None:
        """A health check has ended: wake the loop. From any thread."""
        self._checked = True
        self._waiting.wake()

    def stop(self) -> None:
        """Say no more than what has come so far. From any thread."""
        self._stopped = True
        self._waiting.wake()

    def close(self) -> None:
        """Stop listening."""
        for name, source in self._events.items():
            self._waiting.remove(name)
            with suppress(OSError):
                source.close()
        if self._log is not None:
            self._waiting.remove("log")
            self._log.close()
        self._waiting.close()

    def _listen(self, name: str, source: KernelEvents | UdevEvents | Unknown) -> None:
        if isinstance(source, Unknown):
            self.gaps.append(f"{name} events cannot be heard: {source.why}")
            return
        self._events[name] = source
        self._waiting.add(name, source.fileno())
