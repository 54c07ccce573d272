"""Waiting for processes and signalling them, so that never another one of the same number is meant.

A pidfd names one process for as long as it is open (pidfd_open(2), Linux 5.3). Nothing here waits without a bound.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from ..model import Kind, Unknown
from . import Sought, procfs
from .child import Child
from .descriptors import UNTOLD, wanted
from .files import answer
from .processes import of_process

SAME_START = 2.0        # seconds by which a start time may move when the clock is set


@dataclass(frozen=True, slots=True)
class Handle:
    """A process and the pidfd that means it alone. Close it, or use it in a `with`."""

    process: Child
    pidfd: int

    @property
    def ended(self) -> bool:
        """Has it ended? A zombie has."""
        return bool(_ready([self], 0.0))

    def close(self) -> None:
        """Let go of the pidfd."""
        os.close(self.pidfd)

    def __enter__(self) -> Handle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def take(pid: int, since: float | None = None) -> Handle | Unknown | None:
    """A handle on a process; None when it has ended, or began at another time than `since` and so is another one."""
    try:
        handle = Handle(Child(pid, procfs.stat(pid).start_time), os.pidfd_open(pid))
    except OSError as error:
        return None if isinstance(error, ProcessLookupError) else answer(error)
    try:
        # Read again: between the first look and the pidfd the number may have gone to another process.
        same = procfs.stat(pid).start_time == handle.process.start_time and not handle.ended
    except OSError:
        same = False
    if same and (since is None or abs(procfs.since(handle.process.start_time) - since) <= SAME_START):
        return handle
    handle.close()
    return None


def wait(handles: Sequence[Handle], seconds: float) -> tuple[Handle, ...]:
    """Those that have ended, as soon as one has; () when none has within `seconds`."""
    until = time.monotonic() + seconds
    while not (ended := _ready(handles, max(0.0, until - time.monotonic()))) and time.monotonic() < until:
        continue        # poll's bound is in whole milliseconds
    return ended


def _ready(handles: Sequence[Handle], seconds: float) -> tuple[Handle, ...]:
    poll = select.poll()
    for handle in handles:
        poll.register(handle.pidfd, select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(seconds * 1000)}
    return tuple(handle for handle in handles if handle.pidfd in ready)


def send(handle: Handle, number: signal.Signals) -> bool | Unknown:
    """Signal the process. False = it has ended already; Unknown when it may not, or must not, be signalled."""
    if (why := untouchable(handle.process.pid)) is not None:
        return Unknown(why, Kind.DENIED)
    try:
        signal.pidfd_send_signal(handle.pidfd, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return Unknown(f"may not signal pid {handle.process.pid}: another user's", Kind.DENIED)
    return True


def still_has(handle: Handle, sought: Sought) -> bool | Unknown:
    """Does this process still have what is sought? A look at its descriptors and mappings alone; ended = no."""
    try:
        hits = of_process(handle.process.pid, wanted(sought))
    except PermissionError:
        hits = [UNTOLD]
    except OSError:
        return False
    if handle.ended:
        return False        # what was seen may be another process's of the same number
    if any(hit != UNTOLD for hit in hits):
        return True
    return Unknown(f"pid {handle.process.pid} cannot be looked into", Kind.DENIED) if hits else False


def untouchable(pid: int) -> str | None:
    """Why a process must never be signalled; None = it may be, as far as this machine is concerned."""
    if pid <= 0:
        return "it is no process but the kernel's own use"
    if pid == 1:
        return "pid 1 is the machine's init: without it the machine goes down"
    if pid == os.getpid():
        return f"pid {pid} is this command itself"
    try:
        if procfs.stat(pid).of_kernel:
            return f"pid {pid} is a kernel thread: signals mean nothing to it"
        if pid in _ancestors():
            return f"pid {pid} ({procfs.command(pid)}) runs this command: ending it would end this too"
    except OSError:
        return None     # it has ended
    return None


def _ancestors() -> set[int]:
    """All processes above this one, init excepted."""
    found: set[int] = set()
    pid = os.getppid()
    while pid > 1 and pid not in found:
        found.add(pid)
        pid = procfs.stat(pid).parent
    return found
