"""Threads that have descriptors of their own.

Threads share the descriptors of their process, except after unshare(CLONE_FILES); and those of a leader that has ended
are seen at its threads alone, since /proc/PID/fd is then empty.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache

# kcmp(2): its number on each machine (arch/*/syscall*.tbl, include/uapi/asm-generic/unistd.h), and what it compares.
KCMP = {"x86_64": 312, "aarch64": 272, "riscv64": 272, "loongarch64": 272, "ppc64le": 354, "s390x": 343}
KCMP_FILES = 2


def apart(pid: int, base: str, *, leader_has_any: bool) -> Iterator[str]:
    """Directories in /proc of the threads whose descriptors are not those of the leader; `base` is /proc/PID.

    Where threads cannot be compared, all of them.
    """
    try:
        # Its links are two and one a thread (fs/proc/base.c, proc_task_getattr).
        if os.stat(f"{base}/task").st_nlink <= 3:
            return
        threads = sorted(int(name) for name in os.listdir(f"{base}/task"))
    except OSError:
        return
    like = pid if leader_has_any else None
    for thread in threads:
        if thread == pid or (like is not None and _same_files(like, thread)):
            continue
        yield f"{base}/task/{thread}"
        like = thread if like is None else like


def _same_files(one: int, other: int) -> bool:
    """Do two threads share their descriptors? False where that cannot be learnt."""
    return bool((kcmp := _kcmp()) is not None and kcmp(one, other) == 0)


@cache
def _kcmp() -> Callable[[int, int], int] | None:
    number = KCMP.get(os.uname().machine)
    if number is None:
        return None
    import ctypes

    system_call = ctypes.CDLL(None, use_errno=True).syscall

    def compare(one: int, other: int) -> int:
        return int(system_call(number, one, other, KCMP_FILES, 0, 0))

    return compare
