"""Waiting for whatever speaks first: events, the kernel log, a deadline, another thread."""

from __future__ import annotations

import os
import selectors
import time
from contextlib import suppress

LONGEST = 3600.0  # a wait that is never over in an hour only costs one more turn of the caller's loop


class Waiting:
    """One wait on many sources, each known by a name. One thread waits; any may wake it."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._names: dict[str, int] = {}
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._bell, selectors.EVENT_READ, None)

    def now(self) -> float:
        """Seconds of CLOCK_MONOTONIC: the clock of every deadline here, and of Uevent.at.

        The kernel log is stamped with another one, close to it only at first: KernelLog.offset.
        """
        return time.monotonic()

    def add(self, name: str, fileno: int) -> None:
        """Wait for `fileno` too, until it is removed; a name that is there already moves to the new descriptor.

        Remove a source before closing it. Raises OSError for what cannot be waited for, a regular file for one.
        """
        self.remove(name)
        for other in [known for known, number in self._names.items() if number == fileno]:
            self.remove(other)  # closed without a word, and its number was given out again
        self._selector.register(fileno, selectors.EVENT_READ, name)
        self._names[name] = fileno

    def remove(self, name: str) -> None:
        """Wait no longer for the source of that name, if there is one."""
        fileno = self._names.pop(name, None)
        if fileno is not None:
            with suppress(KeyError):
                self._selector.unregister(fileno)

    def wait(self, timeout: float) -> set[str]:
        """The names that have something to read; empty after `timeout` seconds, after a wake() or after an hour.

        A zero or negative timeout looks without waiting. Errors of a source count as something to read.
        """
        ready = self._selector.select(max(0.0, min(timeout, LONGEST)))
        names = {key.data for key, _ in ready}
        if None in names:
            names.remove(None)
            with suppress(BlockingIOError):
                os.eventfd_read(self._bell)
        return names

    def wake(self) -> None:
        """End the wait that is on, or the next one. From any thread, and from a signal handler."""
        with suppress(BlockingIOError):  # 2^64 - 2 unheard calls: it will wake anyway
            os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        """Release the descriptors that are its own; the sources stay open."""
        self._selector.close()
        os.close(self._bell)
