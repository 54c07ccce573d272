"""Waiting for processes and signalling them: never another one of the same number, and never one that must live."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotplugctl.host import Sought, pidfds, procfs
from hotplugctl.model import Kind, Unknown

from .procs import LIBC, ROOT, ZERO, node, running

HANGS = ("sh", "-c", "echo ready; read x")


def taken(pid: int) -> pidfds.Handle:
    handle = pidfds.take(pid)
    assert isinstance(handle, pidfds.Handle)
    return handle


def test_a_handle_is_had_on_the_process_that_was_seen_and_on_no_other() -> None:
    with running(*HANGS) as pid:
        began = procfs.since(procfs.stat(pid).start_time)
        with taken(pid) as handle:
            assert handle.process.pid == pid
            assert not handle.ended
        same = pidfds.take(pid, began)
        assert isinstance(same, pidfds.Handle)
        same.close()
        assert pidfds.take(pid, began - 60) is None
    assert pidfds.take(pid) is None


def test_the_first_of_several_to_end_is_told_at_once() -> None:
    with running(*HANGS) as one, running(*HANGS) as other, taken(one) as first, taken(other) as second:
        started = time.monotonic()
        assert pidfds.wait([first, second], 0.1) == ()
        assert 0.09 <= time.monotonic() - started < 1
        os.kill(other, signal.SIGKILL)
        started = time.monotonic()
        assert pidfds.wait([first, second], 10) == (second,)
        assert time.monotonic() - started < 0.3
        assert second.ended


def test_a_signal_reaches_the_process_and_afterwards_nobody() -> None:
    with running(*HANGS) as pid, taken(pid) as handle:
        assert pidfds.send(handle, signal.SIGTERM) is True
        assert pidfds.wait([handle], 10) == (handle,)
        os.waitpid(pid, 0)
        assert pidfds.send(handle, signal.SIGKILL) is False
        assert pidfds.still_has(handle, Sought((("/dev/x", 1, 5),))) is False


@ROOT
def test_a_process_that_let_go_is_seen_to_have_let_go(tmp_path: Path) -> None:
    path = node(tmp_path / "card0")
    sought = Sought(((path, *ZERO),))
    code = ("fd = os.open(sys.argv[1], os.O_RDONLY); ready(); sys.stdin.readline(); os.close(fd); ready()\n"
            "sys.stdin.readline()")
    process = subprocess.Popen(
        [sys.executable, "-c", LIBC + code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process, taken(process.pid) as handle:
        process.stdout.readline()
        assert pidfds.still_has(handle, sought) is True
        process.send_signal(signal.SIGSTOP)
        assert pidfds.still_has(handle, sought) is True, "a stopped process holds on"
        process.send_signal(signal.SIGCONT)
        process.stdin.write("let go\n")
        process.stdin.flush()
        process.stdout.readline()
        assert pidfds.still_has(handle, sought) is False
        assert not handle.ended
        process.kill()


@pytest.mark.parametrize(("pid", "why"), [
    (0, "the kernel's own"), (-1, "the kernel's own"), (1, "init"), (os.getpid(), "this command itself"),
    (os.getppid(), "runs this command"),
], ids=("none", "all", "init", "itself", "its parent"))
def test_some_processes_must_live(pid: int, why: str) -> None:
    assert why in str(pidfds.untouchable(pid))


def test_kernel_threads_must_live() -> None:
    threads = [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if of_kernel(pid)]
    if not threads:
        pytest.skip("no kernel threads are seen in this pid namespace")
    assert all("kernel thread" in str(pidfds.untouchable(pid)) for pid in threads[:20])


def of_kernel(pid: int) -> bool:
    try:
        return procfs.stat(pid).of_kernel
    except OSError:
        return False


def test_any_other_process_may_be_signalled_also_one_that_is_gone() -> None:
    with running(*HANGS) as pid:
        assert pidfds.untouchable(pid) is None
    assert pidfds.untouchable(pid) is None


@ROOT
def test_an_init_of_another_pid_namespace_may_be_signalled() -> None:
    with running("unshare", "-pf", *HANGS) as pid:
        child = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
        assert pidfds.untouchable(child) is None
        with taken(child) as handle:
            assert pidfds.send(handle, signal.SIGKILL) is True
            assert pidfds.wait([handle], 10) == (handle,)


def test_what_must_live_is_not_signalled_even_when_asked() -> None:
    with taken(os.getpid()) as handle:
        answer = pidfds.send(handle, signal.SIGKILL)
    assert isinstance(answer, Unknown)
    assert answer.kind is Kind.DENIED
