"""The kernel's log, followed as it is written."""

from __future__ import annotations

import errno
import os
import stat
import time

from ..model import Kind, Unknown
from .live import KMSG_RECORD

PATH = "/dev/kmsg"
DEVICE = (1, 11)         # Documentation/admin-guide/devices.txt; containers put /dev/null or a console in its place
LIMIT = 1000
STRAY = 500e-6           # seconds a second: NTP slews CLOCK_MONOTONIC by no more (MAXFREQ, linux/timex.h)


class KernelLog:
    """Kernel messages from the moment of opening on. What was written before is `Host.log`.

    Records are stamped with the scheduler's clock (local_clock, kernel/printk), which nobody disciplines: it starts
    a few ms off CLOCK_MONOTONIC and drifts away from it by seconds a day. `offset` leads from the one to the other.
    """

    def __init__(self, descriptor: int) -> None:
        """Takes over a descriptor of /dev/kmsg that does not block."""
        self._descriptor = descriptor
        self._expected: int | None = None
        self._offset: tuple[float, float] | None = None

    @classmethod
    def open(cls) -> KernelLog | Unknown:
        """The log from here on, or why it cannot be read (kernel.dmesg_restrict, a container)."""
        try:
            descriptor = os.open(PATH, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return Unknown(f"{PATH} is not there (a container?)", Kind.IO)
        except OSError as error:
            kind = Kind.DENIED if error.errno in (errno.EACCES, errno.EPERM) else Kind.IO
            return Unknown(f"{PATH}: {error.strerror}", kind)
        status = os.fstat(descriptor)
        if not stat.S_ISCHR(status.st_mode) or (os.major(status.st_rdev), os.minor(status.st_rdev)) != DEVICE:
            os.close(descriptor)
            return Unknown(f"{PATH} is not the kernel log here (a container?)", Kind.IO)
        os.lseek(descriptor, 0, os.SEEK_END)
        return cls(descriptor)

    @property
    def offset(self) -> float | None:
        """Seconds to add to a record's stamp to have CLOCK_MONOTONIC; None until a record was read.

        The smallest delay from stamp to reading, so it is too large by how late the promptest record was read.
        """
        return None if self._offset is None else self._offset[1]

    def fileno(self) -> int:
        """Readable when there is a record, or when some were overwritten."""
        return self._descriptor

    def read(self, limit: int = LIMIT) -> tuple[str, int]:
        """The records that wait, at most `limit`, in the format of /dev/kmsg; and how many were overwritten unread.

        Never blocks. Records that were lost before the first one that was read count as one.
        """
        records: list[bytes] = []
        lost = 0
        overwritten = False
        for _ in range(limit):
            try:
                record = os.read(self._descriptor, KMSG_RECORD)
            except BlockingIOError:
                break
            except BrokenPipeError:      # the writer came round the ring: the next read is the oldest there is
                overwritten = True
                continue
            now = time.monotonic()
            seq, stamp = (int(number) for number in record.split(b",", 3)[1:3])
            if overwritten:
                lost += max(1, seq - self._expected) if self._expected is not None else 1
                overwritten = False
            self._expected = seq + 1
            self._compare(now, stamp / 1e6)
            records.append(record)
        return b"".join(records).decode("utf-8", errors="backslashreplace"), lost + overwritten

    def _compare(self, now: float, stamp: float) -> None:
        delay = now - stamp
        if self._offset is not None:
            before, smallest = self._offset
            delay = min(delay, smallest + (now - before) * STRAY)
        self._offset = (now, delay)

    def close(self) -> None:
        """Stop following."""
        os.close(self._descriptor)
