"""Who on this machine has a card: every process is looked into, and those that could not be are told."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..model import Kind, Unknown
from . import OpenFile, Seen, Sought, aside, procfs, threads
from .descriptors import DEVICES, UNTOLD, Hit, Wanted, held, wanted

PATIENCE = 3.0                      # seconds for one process; one with 1,000 descriptors takes a few milliseconds
INITIAL_PID_NAMESPACE = "pid:[4026531836]"      # include/linux/proc_ns.h, PROC_PID_INIT_INO


def holders(
    sought: Sought, proc: str = procfs.PROC, patience: float = PATIENCE, known: str = DEVICES
) -> Seen | Unknown:
    """Every process that has what is sought. Unknown when nobody was found and some could not be looked into."""
    want = wanted(sought, known)
    told = {pid: [(via, path)] for pid, via, path in sought.told}
    if not (want.numbers or want.files or want.addresses or want.gone or want.controls or told):
        return Seen()
    pids = [int(name) for name in os.listdir(proc) if name.isdecimal() and int(name) != os.getpid()]
    found: dict[int, list[Hit]] = {}
    denied: list[int] = []

    def look(pid: int) -> None:
        try:
            if hits := [*told.get(pid, []), *of_process(pid, want, proc)]:
                found[pid] = hits
        except PermissionError:
            if pid in told:
                found[pid] = told[pid]
            if _may_hold(pid, proc):
                denied.append(pid)
        except OSError:
            pass    # it ended while we looked

    hung = aside.each(sorted(pids), look, patience)
    files = [file for pid in sorted(found) for file in _named(pid, found[pid], proc)]
    # What another source names after it has ended is still being taken down (amdkfd does so in a work queue).
    files += [OpenFile(pid, "(ended)", "", *told[pid][0]) for pid in sorted(told) if pid not in pids]
    untold = [pid for pid in sorted(found) if UNTOLD in found[pid]]
    unseen = _unseen(proc, pids, denied, hung, untold)
    return unseen if unseen is not None and not files else Seen(tuple(files), unseen)


def of_process(pid: int, want: Wanted, proc: str = procfs.PROC) -> list[Hit]:
    """What one process has of it, its threads included. Raises OSError: it has ended, or may not be looked into."""
    base = f"{proc}/{pid}"
    hits, count = held(base, want)
    for thread in threads.apart(pid, base, leader_has_any=count > 0):
        try:
            hits += held(thread, want)[0]
        except OSError:
            continue    # the thread ended
    return list(dict.fromkeys(hits))


def _may_hold(pid: int, proc: str) -> bool:
    """Could a process that may not be looked into have anything? Kernel threads and zombies have no descriptors."""
    try:
        now = procfs.stat(pid, proc)
    except PermissionError:
        return True
    except OSError:
        return False
    return not (now.of_kernel or now.ended)


def _named(pid: int, hits: Sequence[Hit], proc: str) -> list[OpenFile]:
    try:
        began = procfs.since(procfs.stat(pid, proc).start_time)
        command, user = procfs.command(pid, proc), procfs.user(pid, proc)
    except OSError:
        return []       # it ended, and with it its hold
    return [OpenFile(pid, command, user, via, path, began) for via, path in hits if (via, path) != UNTOLD]


def _unseen(
    proc: str, pids: Sequence[int], denied: Sequence[int], hung: Sequence[int], untold: Sequence[int]
) -> Unknown | None:
    """Why there may be holders that were not seen; None = there are none."""
    why = []
    if denied:
        why.append(f"{_processes(denied, proc)} cannot be looked into: needs root or CAP_SYS_PTRACE")
    if 1 not in pids and os.getpid() != 1:
        why.append(f"other users' processes are hidden: {proc} is mounted with hidepid")
    if not _sees_all(proc):
        why.append("only processes of this pid namespace are seen: run it on the host")
    if why:
        return Unknown("; ".join(why), Kind.DENIED)
    if hung:
        why.append(f"{_processes(hung, proc)} did not answer within {PATIENCE:g} s")
    if untold:
        why.append(f"{_processes(untold, proc)} has a VFIO device, and only Linux 6.18 tells which")
    return Unknown("; ".join(why), Kind.IO) if why else None


def _processes(pids: Sequence[int], proc: str) -> str:
    """`pid 812 (dockerd)`, or how many and the first of them."""
    try:
        first = f"pid {pids[0]} ({procfs.command(pids[0], proc)})"
    except OSError:
        first = f"pid {pids[0]}"
    return first if len(pids) == 1 else f"{len(pids)} processes ({first} and others)"


def _sees_all(proc: str) -> bool:
    """Is this the machine's own pid namespace?"""
    try:
        return os.readlink(f"{proc}/self/ns/pid") == INITIAL_PID_NAMESPACE
    except OSError:
        return True     # a kernel without pid namespaces
