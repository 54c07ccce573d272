"""Who on this machine has a device node open or mapped.

By `st_rdev` of what a descriptor really is, so that other mount namespaces, renamed and deleted nodes count as well.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator

from ..model import Kind, Unknown
from . import OpenFile


def holders(nodes: tuple[str, ...]) -> tuple[OpenFile, ...] | Unknown:
    """Every process with one of the nodes open or mapped; Unknown when some process could not be looked into."""
    wanted = _numbers(nodes)
    found: list[OpenFile] = []
    if not wanted:
        return ()
    denied = False
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        if pid == os.getpid():
            continue
        try:
            found.extend(_of_process(pid, wanted))
        except PermissionError:
            denied = denied or not _kernel_thread(pid)
        except OSError:
            continue  # it ended while we looked
    if denied and not found:
        return Unknown("some processes cannot be looked into; needs root or CAP_SYS_PTRACE", Kind.DENIED)
    return tuple(found)


def _numbers(nodes: tuple[str, ...]) -> dict[int, str]:
    numbers = {}
    for node in nodes:
        try:
            status = os.stat(node)
        except OSError:
            continue
        if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            numbers[status.st_rdev] = node
    return numbers


def _of_process(pid: int, wanted: dict[int, str]) -> Iterator[OpenFile]:
    seen = set()
    for via, folder in (("fd", f"/proc/{pid}/fd"), ("map", f"/proc/{pid}/map_files")):
        try:
            names = os.listdir(folder)
        except PermissionError:
            if via == "fd":
                raise
            continue  # map_files needs CAP_CHECKPOINT_RESTORE; descriptors were seen
        for name in names:
            try:
                number = os.stat(f"{folder}/{name}").st_rdev
            except OSError:
                continue
            if number in wanted and (via, number) not in seen:
                seen.add((via, number))
                yield OpenFile(pid, _command(pid), _user(pid), via, wanted[number])


def _command(pid: int) -> str:
    with open(f"/proc/{pid}/comm", encoding="utf-8", errors="backslashreplace") as file:
        return file.read().rstrip("\n")


def _user(pid: int) -> str:
    number = os.stat(f"/proc/{pid}").st_uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _kernel_thread(pid: int) -> bool:
    """Kernel threads have no descriptors and no command line; what cannot be read of them hides nobody."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read(1) == b""
    except OSError:
        return True
