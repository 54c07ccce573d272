"""Processes to find: real ones that hold something until told otherwise, and made-up ones below a /proc of our own."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="makes device nodes and namespaces")
ZERO = (1, 5)       # the numbers of /dev/zero: harmless to open under any name

# What a thread, or a process without its leader, needs of the C library; system call 60 (93) ends a thread alone.
LIBC = """
import ctypes, mmap, os, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
exit_thread = {"x86_64": 60}.get(os.uname().machine, 93)
def ready(): print("ready", flush=True)
"""


@contextmanager
def running(*argv: str, **more: object) -> Iterator[int]:
    """A command that says `ready` when it has what it wants; its pid. Ended on the way out."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)  # type: ignore[call-overload]
    try:
        assert process.stdout.readline() == "ready\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


@contextmanager
def python(code: str, *argv: str) -> Iterator[int]:
    """A Python process."""
    with running(sys.executable, "-c", LIBC + code, *argv) as pid:
        yield pid


def node(path: Path, numbers: tuple[int, int] = ZERO) -> str:
    """A character device node."""
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(*numbers))
    return str(path)


class ProcTree:
    """A /proc with the processes put in; pids are beyond any real one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.process(1, "systemd")

    def process(
        self, pid: int, name: str, fds: Mapping[int, str] | None = None, *, info: Mapping[int, str] | None = None,
        maps: str = "", state: str = "S", flags: int = 0,
    ) -> Path:
        """A process with descriptors (targets of their links), what fdinfo says of them, and mappings."""
        here = self.root / str(pid)
        (here / "fd").mkdir(parents=True)
        (here / "fdinfo").mkdir()
        (here / f"task/{pid}").mkdir(parents=True)
        (here / "comm").write_text(f"{name}\n")
        (here / "status").write_text("Name:\tx\nUid:\t0\t0\t0\t0\n")
        rest = f"0 0 0 0 {flags} 0 0 0 0 0 0 0 0 0 0 1 0 4200 " + "0 " * 30
        (here / "stat").write_text(f"{pid} ({name}) {state} 1 {rest}")
        (here / "maps").write_text(maps)
        for number, target in (fds or {}).items():
            (here / f"fd/{number}").symlink_to(target)
            (here / f"fdinfo/{number}").write_text("pos:\t0\n" + (info or {}).get(number, ""))
        return here
