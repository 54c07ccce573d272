"""Work that may hang in the kernel, done in a child with a deadline.

Writes to `unbind`, `bind`, `remove`, `rescan`, `power` and `reset` can block without end and cannot be killed
(drivers/pci/remove.c, hotplug/pciehp_ctrl.c: uninterruptible waits). Three traps, each met on a real hung remove:

- waiting for a killed child waits for the kernel: the parent polls a pidfd and never waits without a bound;
- a child that inherited stdout keeps `x=$(hotplugctl ...)` hanging after the parent has gone: it points 0, 1 and 2 at
  /dev/null;
- a child that inherited a lock keeps it: it closes every other descriptor.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from ..model import Kind, Unknown
from . import Ran, procfs

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": PATH, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "HOME": "/root"}
OUTPUT_LIMIT = 4 << 20


@dataclass(frozen=True, slots=True)
class Child:
    """A process that cannot be mistaken for a later one of the same pid: `start_time` is in clock ticks since boot."""

    pid: int
    start_time: int


@dataclass(frozen=True, slots=True)
class Written:
    """The write returned. `errno` 0 = accepted, which proves nothing: verify by looking."""

    errno: int

    @property
    def why(self) -> str:
        """The kernel's answer in words."""
        return "accepted" if self.errno == 0 else os.strerror(self.errno)


@dataclass(frozen=True, slots=True)
class Stuck:
    """The write did not return in time, and its child is still in the kernel."""

    child: Child
    seconds: float
    wchan: str
    stack: str


def write(path: str, text: str, deadline: float, begun: Callable[[Child], None]) -> Written | Stuck:
    """Write `text` to `path` in a child; `begun` is called with the child before it acts.

    Returns within `deadline` seconds (plus scheduling). When `begun` raises, nothing is written.
    """
    gate, opener = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child_writes(gate, path, text)
    os.close(gate)
    try:
        child = Child(pid, procfs.stat(pid).start_time)
        begun(child)
        os.write(opener, b"g")
    except BaseException:
        os.close(opener)  # without the go, the child reads the end of the pipe and leaves without writing
        os.waitpid(pid, 0)
        raise
    os.close(opener)
    started = time.monotonic()
    status = _wait(child, deadline)
    if status is None:
        return stuck(child, time.monotonic() - started)
    return Written(status)


def _child_writes(gate: int, path: str, text: str) -> None:
    """The child's whole life. Never returns."""
    code = errno.EIO
    try:
        os.setsid()  # Ctrl-C at the terminal is for the parent
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.dup2(gate, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        if os.read(3, 1) != b"g":
            os._exit(errno.ECANCELED)
        target = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
        os.write(target, text.encode())
        code = 0
    except OSError as error:
        code = error.errno or errno.EIO
    finally:
        os._exit(code)


def alive(child: Child) -> bool:
    """Does the very same process still run (or hang)?"""
    try:
        now = procfs.stat(child.pid)
    except OSError:
        return False
    return now.start_time == child.start_time and now.state not in "ZX"


def wait_for(child: Child, deadline: float) -> bool:
    """Wait at most `deadline` seconds for somebody's child to end. True = it has."""
    return not alive(child) or _ended(child, deadline)


def stuck(child: Child, seconds: float) -> Stuck:
    """Where in the kernel the child is."""
    return Stuck(child, seconds, _proc(child.pid, "wchan") or "unknown", _proc(child.pid, "stack"))


def run(
    argv: tuple[str, ...], deadline: float, *, stdin: str = "", env: Mapping[str, str] | None = None, cwd: str = "/"
) -> Ran | Unknown | None:
    """Run a command in its own process group; None when there is no such command.

    Its environment is fixed, with `env` added. Output beyond 4 MiB is dropped. When the deadline passes the group is
    killed and, when even that does not end it, left alone: the answer is Unknown.
    """
    paper = os.memfd_create("stdin", os.MFD_CLOEXEC)     # no pipe: who does not read it keeps nobody waiting
    try:
        with open(paper, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as file:
            file.write(stdin)
        os.lseek(paper, 0, os.SEEK_SET)
        process = subprocess.Popen(
            argv, stdin=paper, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**ENVIRONMENT, **(env or {})},
            start_new_session=True, close_fds=True, cwd=cwd,
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        return Unknown(f"{argv[0]}: {error.strerror}", Kind.DENIED if error.errno == errno.EACCES else Kind.IO)
    finally:
        os.close(paper)
    assert_pipes = (process.stdout, process.stderr)
    output = _drain(assert_pipes, time.monotonic() + deadline)
    if output is not None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            _ABANDONED.append(process)  # in the kernel; nobody may wait for it
        _close(assert_pipes)
        return Unknown(f"{argv[0]} did not answer within {deadline:g} s", Kind.IO)
    _close(assert_pipes)
    out, err = output or (b"", b"")
    return Ran(process.returncode, out.decode(errors="backslashreplace"), err.decode(errors="backslashreplace"))


_ABANDONED: list[subprocess.Popen[bytes]] = []


def _close(pipes: tuple[object, ...]) -> None:
    for pipe in pipes:
        pipe.close()  # type: ignore[attr-defined]


def _drain(pipes: tuple[object, ...], until: float) -> tuple[bytes, bytes] | None:
    """Both outputs up to their end, or None when time is up."""
    parts: list[list[bytes]] = [[], []]
    sizes = [0, 0]
    with selectors.DefaultSelector() as selector:
        for index, pipe in enumerate(pipes):
            selector.register(pipe, selectors.EVENT_READ, index)  # type: ignore[arg-type]
        while selector.get_map():
            left = until - time.monotonic()
            if left <= 0:
                return None
            for key, _ in selector.select(left):
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif sizes[key.data] < OUTPUT_LIMIT:
                    parts[key.data].append(chunk)
                    sizes[key.data] += len(chunk)
    return b"".join(parts[0]), b"".join(parts[1])


def _wait(child: Child, deadline: float) -> int | None:
    """The exit status of our own child, or None when it has not ended in time."""
    if not _ended(child, deadline):
        return None
    _, status = os.waitpid(child.pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else errno.EINTR


def _ended(child: Child, deadline: float) -> bool:
    """Poll the pidfd (readable when the process ends), never longer than `deadline` seconds."""
    try:
        descriptor = os.pidfd_open(child.pid)
    except ProcessLookupError:
        return True
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            return bool(selector.select(max(0.0, deadline)))
    finally:
        os.close(descriptor)


def _proc(pid: int, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}", encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
