"""Uevents to order: the kernel's own, about /dev/null, which nobody minds (Documentation/ABI/testing/sysfs-uevent)."""

from __future__ import annotations

import os
import time
import uuid
from types import TracebackType

NULL = "/sys/class/mem/null/uevent"
SUBSYSTEM = "mem"


def allowed() -> bool:
    """May this process have uevents sent?"""
    return os.access(NULL, os.W_OK)


class Announcer:
    """Has the kernel send `change` events that carry this announcer's own uuid, and SYNTH_ARG_ for each argument."""

    def __init__(self) -> None:
        self.uuid = str(uuid.uuid4())

    def __enter__(self) -> Announcer:
        self._file = os.open(NULL, os.O_WRONLY | os.O_CLOEXEC)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)

    def say(self, **arguments: object) -> float:
        """One event. Returns the monotonic time just before it was sent."""
        words = " ".join(f"{name}={value}" for name, value in arguments.items())
        line = f"change {self.uuid} {words}".encode()
        at = time.monotonic()
        os.write(self._file, line)
        return at

    def storm(self, count: int) -> float:
        """So many events as fast as the kernel takes them. Returns the seconds that took."""
        line = f"change {self.uuid} STORM=1".encode()
        started = time.monotonic()
        for _ in range(count):
            os.write(self._file, line)
        return time.monotonic() - started
