"""Waiting for whatever speaks first: events, the kernel log, a deadline, another thread."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress

LONGEST = 3600.0  # seconds; epoll takes no more than 2^31 ms, and an hour's rest costs the caller one turn of its loop


class Waiting:
    """One wait on many sources, each known by a name. One thread waits; any may wake it."""

    def __init__(self) -> None:
        self._epoll = select.epoll()  # not selectors: it takes some us longer to say that an event is there
        self._names: dict[int, str] = {}
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._bell, select.EPOLLIN)

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
        if fileno in self._names:  # closed without a word, and its number was given out again
            self.remove(self._names[fileno])
        self._epoll.register(fileno, select.EPOLLIN)
        self._names[fileno] = name

    def remove(self, name: str) -> None:
        """Wait no longer for the source of that name, if there is one."""
        for fileno in [number for number, known in self._names.items() if known == name]:
            del self._names[fileno]
            with suppress(OSError):  # closed already, which took it out
                self._epoll.unregister(fileno)

    def wait(self, timeout: float) -> set[str]:
        """The names that have something to read; empty after `timeout` seconds, after a wake() or after an hour.

        A zero or negative timeout looks without waiting. Errors of a source count as something to read.
        """
        ready = self._epoll.poll(max(0.0, min(timeout, LONGEST)))
        names = {self._names[fileno] for fileno, _ in ready if fileno in self._names}
        if len(names) < len(ready):
            with suppress(BlockingIOError):
                os.eventfd_read(self._bell)
        return names

    def wake(self) -> None:
        """End the wait that is on, or the next one. From any thread, and from a signal handler."""
        with suppress(BlockingIOError):  # 2^64 - 2 unheard calls: it will wake anyway
            os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        """Release the descriptors that are its own; the sources stay open."""
        self._epoll.close()
        os.close(self._bell)
