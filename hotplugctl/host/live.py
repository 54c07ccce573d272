"""This machine, now."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import time
from collections.abc import Callable

from ..model import Kind, Maybe, Unknown
from . import NodeStat, Ran, Seen, Sought, child, processes
from .files import answer, decode, read, read_end

TEXT_LIMIT = 1 << 20
FILE_END = 2 << 20      # of a log file: what a runtime writes in an hour, many times over
JOURNAL = (
    "journalctl", "-k", "-b", "-o", "json", "--no-pager", "-n", "6000",
    "--output-fields=MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_KERNEL_DEVICE,_SOURCE_MONOTONIC_TIMESTAMP",
)
KMSG_RECORD = 8192  # kernel/printk: the longest record with its escapes and keys


class Live:
    """The running machine. Everything is read when asked; nothing is kept."""

    live = True
    redacted = False

    @property
    def name(self) -> str:
        """The machine's host name."""
        return os.uname().nodename

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds of a clock that only runs on, for deadlines."""
        return time.monotonic()

    def unprivileged(self) -> str | None:
        """Why this user cannot write sysfs: its files are root's alone. None = it is root."""
        return None if os.geteuid() == 0 else "it takes root to unbind drivers and to power slots"

    def pause(self, seconds: float) -> None:
        """As in Host."""
        time.sleep(seconds)

    def text(self, path: str) -> Maybe[str]:
        """As in Host."""
        raw = self.data(path, TEXT_LIMIT)
        return decode(raw) if isinstance(raw, bytes) else raw

    def data(self, path: str, limit: int = 4096) -> Maybe[bytes]:
        """As in Host."""
        try:
            return read(path, limit)
        except OSError as error:
            return answer(error)

    def names(self, path: str) -> Maybe[tuple[str, ...]]:
        """As in Host."""
        try:
            return tuple(sorted(os.listdir(path)))
        except OSError as error:
            return answer(error)

    def link(self, path: str) -> Maybe[str]:
        """As in Host; None for what is no link."""
        try:
            return os.readlink(path)
        except OSError as error:
            return None if error.errno == errno.EINVAL else answer(error)

    def real(self, path: str) -> Maybe[str]:
        """As in Host."""
        try:
            return os.path.realpath(path, strict=True)
        except OSError as error:
            return answer(error)

    def stat(self, path: str) -> Maybe[NodeStat]:
        """As in Host; None when the path is no device node."""
        try:
            status = os.stat(path)
        except OSError as error:
            return answer(error)
        if not (stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)):
            return None
        return NodeStat(
            "c" if stat.S_ISCHR(status.st_mode) else "b", os.major(status.st_rdev), os.minor(status.st_rdev),
            _name(lambda: pwd.getpwuid(status.st_uid).pw_name, status.st_uid),
            _name(lambda: grp.getgrgid(status.st_gid).gr_name, status.st_gid), f"{stat.S_IMODE(status.st_mode):04o}",
        )

    def run(self, argv: tuple[str, ...], deadline: float) -> Maybe[Ran]:
        """As in Host."""
        return child.run(argv, deadline)

    def log(self, name: str) -> Maybe[str]:
        """As in Host. A record that was overwritten while reading is said in the text, not passed over."""
        if name == "journal":
            return _journal()
        if name.startswith("/"):
            return _end_of(name)
        if name != "kernel":
            return None
        try:
            descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            why = answer(error)
            return Unknown("/dev/kmsg is not there (a container?)", Kind.IO) if why is None else why
        records: list[bytes] = []
        try:
            while True:
                try:
                    records.append(os.read(descriptor, KMSG_RECORD))
                except BlockingIOError:
                    break
                except OSError as error:
                    if error.errno != errno.EPIPE:
                        return answer(error)
        finally:
            os.close(descriptor)
        return b"".join(records).decode("utf-8", errors="backslashreplace")

    def holders(self, sought: Sought) -> Maybe[Seen]:
        """As in Host."""
        return processes.holders(sought)

    def write(
        self, path: str, text: str, deadline: float, begun: Callable[[child.Child], None]
    ) -> child.Written | child.Stuck:
        """Write to a sysfs file in a child that is given `deadline` seconds; `begun` records it before it acts."""
        return child.write(path, text, deadline, begun)


def _journal() -> Maybe[str]:
    """The kernel's lines of this boot; None without a journal, Unknown when they are too many to be had whole."""
    answer = child.run(JOURNAL, 10.0)
    if not isinstance(answer, Ran):
        return answer
    if answer.status != 0 or not answer.stdout.strip():
        return None
    if len(answer.stdout) >= child.OUTPUT_LIMIT:
        return Unknown("the journal has more lines of this boot than are read at once", Kind.IO)
    return answer.stdout


def _end_of(path: str) -> Maybe[str]:
    """The last lines of a file."""
    try:
        raw, whole = read_end(path, FILE_END)
    except OSError as error:
        return answer(error)
    text = raw.decode("utf-8", errors="backslashreplace")
    return text if whole else text.partition("\n")[2]


def _name(look_up: Callable[[], str], number: int) -> str:
    """A user's or group's name; the number where it has none."""
    try:
        return look_up()
    except KeyError:
        return str(number)
