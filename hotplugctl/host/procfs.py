"""What /proc/PID tells of a process beside its files: its state, parent, age and user (proc(5))."""

from __future__ import annotations

import os
import pwd
import time
from dataclasses import dataclass

PROC = "/proc"
KERNEL_THREAD = 0x00200000      # PF_KTHREAD, include/linux/sched.h
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stat:
    """A line of /proc/PID/stat. `start_time` is in clock ticks since boot; `threads` counts the living ones too."""

    state: str
    parent: int
    flags: int
    threads: int
    start_time: int

    @property
    def of_kernel(self) -> bool:
        """Is it a kernel thread, which has neither memory nor descriptors?"""
        return bool(self.flags & KERNEL_THREAD)

    @property
    def ended(self) -> bool:
        """Is nothing left of it but its exit status? A leader that ended before its threads is not over."""
        return self.state in "ZX" and self.threads <= 1


def parse_stat(text: str) -> Stat:
    """A line of /proc/PID/stat. Raises ValueError for anything else."""
    # The command name may hold spaces and parentheses; what follows the last one is plain.
    _, _, plain = text.rpartition(")")
    fields = plain.split()
    if len(fields) < 20:
        raise ValueError(f"no line of /proc/PID/stat: {text!r}")
    return Stat(fields[0], int(fields[1]), int(fields[6]), int(fields[17]), int(fields[19]))


def name_in_stat(text: str) -> str:
    """The command name in a line of /proc/PID/stat."""
    return text[text.find("(") + 1 : text.rfind(")")]


def stat(pid: int, proc: str = PROC) -> Stat:
    """A process as it stands. Raises OSError when there is none (any more)."""
    with open(f"{proc}/{pid}/stat", encoding="ascii", errors="replace") as file:
        text = file.read()
    try:
        return parse_stat(text)
    except ValueError as error:
        raise ProcessLookupError(str(error)) from error


def since(start_time: int) -> float:
    """When a process began, in seconds since the epoch."""
    # Start times count on the boot clock, which goes on in suspend (fs/proc/array.c, do_task_stat).
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return round(boot + start_time / TICKS, 2)


def command(pid: int, proc: str = PROC) -> str:
    """The name it goes by; at most 15 characters. Raises OSError."""
    with open(f"{proc}/{pid}/comm", encoding="utf-8", errors="backslashreplace") as file:
        return file.read().rstrip("\n")


def user(pid: int, proc: str = PROC) -> str:
    """The login name of its user here, or the number. Raises OSError."""
    with open(f"{proc}/{pid}/status", encoding="utf-8", errors="replace") as file:
        # Not the owner of /proc/PID: that is root for what may not be dumped (fs/proc/base.c, task_dump_owner).
        number = next((int(line.split()[1]) for line in file if line.startswith("Uid:")), 0)
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
