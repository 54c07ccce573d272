"""Waiting on real descriptors, threads and signals; the kernel's log followed where it may be read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotplugctl.host.kmsg import KernelLog
from hotplugctl.host.waiting import Waiting
from hotplugctl.model import Kind, Unknown

ROOT = Path(__file__).parent.parent


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    waiting = Waiting()
    yield waiting
    waiting.close()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


def took(waiting: Waiting, timeout: float) -> float:
    started = waiting.now()
    assert waiting.wait(timeout) == set()
    return waiting.now() - started


def test_a_wait_without_a_word_ends_at_its_timeout(waiting: Waiting) -> None:
    assert 0.05 <= took(waiting, 0.05) < 0.5
    assert took(waiting, 0) < 0.1
    assert took(waiting, -5) < 0.1


def test_a_wait_for_ever_is_a_long_one_and_can_be_woken(waiting: Waiting) -> None:
    waiting.wake()
    assert took(waiting, float("inf")) < 0.5


def test_a_source_with_something_to_read_ends_the_wait_by_name(waiting: Waiting, pipe: tuple[int, int]) -> None:
    other, silent = os.pipe()
    waiting.add("speaks", pipe[0])
    waiting.add("silent", other)
    os.write(pipe[1], b"x")
    assert waiting.wait(5) == {"speaks"}
    assert waiting.wait(5) == {"speaks"}, "as long as it is not read"
    os.read(pipe[0], 1)
    assert waiting.wait(0) == set()
    os.close(silent)
    assert waiting.wait(5) == {"silent"}, "its end is something to read"
    os.close(other)


def test_what_was_removed_is_not_waited_for(waiting: Waiting, pipe: tuple[int, int]) -> None:
    waiting.add("source", pipe[0])
    os.write(pipe[1], b"x")
    waiting.remove("source")
    waiting.remove("source")
    waiting.remove("never there")
    assert waiting.wait(0) == set()


def test_a_name_moves_to_a_new_descriptor(waiting: Waiting, pipe: tuple[int, int]) -> None:
    old, end = os.pipe()
    waiting.add("source", old)
    waiting.add("source", pipe[0])
    os.write(end, b"x")
    assert waiting.wait(0) == set()
    os.write(pipe[1], b"x")
    assert waiting.wait(5) == {"source"}
    os.close(old)
    os.close(end)


def test_a_descriptor_that_was_closed_and_given_out_again_is_the_new_source(waiting: Waiting) -> None:
    old, end = os.pipe()
    waiting.add("old", old)
    os.close(old)
    os.close(end)
    new, end = os.pipe()
    assert new == old
    waiting.add("new", new)
    os.write(end, b"x")
    assert waiting.wait(5) == {"new"}
    os.close(new)
    os.close(end)


def test_a_file_that_cannot_be_waited_for_is_refused_and_forgotten(waiting: Waiting, tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        with pytest.raises(PermissionError):
            waiting.add("file", file.fileno())
        assert waiting.wait(0) == set()


def test_a_wake_from_another_thread_ends_the_wait(waiting: Waiting) -> None:
    timer = threading.Timer(0.05, waiting.wake)
    timer.start()
    assert 0.02 < took(waiting, 10) < 2
    timer.join()
    assert took(waiting, 0.05) >= 0.05, "one wake ends one wait"


def test_wakes_before_the_wait_are_not_forgotten_and_count_as_one(waiting: Waiting, pipe: tuple[int, int]) -> None:
    threads = [threading.Thread(target=waiting.wake) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waiting.add("source", pipe[0])
    os.write(pipe[1], b"x")
    assert waiting.wait(5) == {"source"}, "with what else there is"
    os.read(pipe[0], 1)
    assert took(waiting, 0.05) >= 0.05


def test_a_wake_from_a_signal_handler_ends_the_wait(waiting: Waiting) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: waiting.wake())
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        assert took(waiting, 10) < 2
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_that_wakes_nobody_does_not_shorten_the_wait(waiting: Waiting) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        assert 0.2 <= took(waiting, 0.2) < 1
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


# ---- the kernel's log

WRITABLE = os.access("/dev/kmsg", os.W_OK)
writes_log = pytest.mark.skipif(not WRITABLE, reason="needs root, to write a line to the kernel's log")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give it up or for a namespace")


def log(text: str) -> None:
    """One line at level info. Without its newline the kernel would wait for the rest of it."""
    descriptor = os.open("/dev/kmsg", os.O_WRONLY)
    os.write(descriptor, f"<14>hotplugctl: {text}\n".encode())
    os.close(descriptor)


@pytest.fixture
def following() -> Iterator[KernelLog]:
    following = KernelLog.open()
    assert isinstance(following, KernelLog)
    yield following
    following.close()


@writes_log
def test_a_line_of_the_log_wakes_and_is_read_as_the_kernel_records_it(waiting: Waiting) -> None:
    log("before it was followed")
    following = KernelLog.open()
    assert isinstance(following, KernelLog)
    waiting.add("log", following.fileno())
    log("a test \u6607")
    assert waiting.wait(5) == {"log"}
    text, lost = following.read()
    assert text.endswith(";hotplugctl: a test \\xe6\\x98\\x87\n")
    assert "before it was followed" not in text
    assert lost == 0
    assert following.read() == ("", 0)
    following.close()


@writes_log
def test_a_read_of_the_log_ends_at_its_limit(following: KernelLog) -> None:
    for number in range(3):
        log(f"line {number}")
    assert following.read(limit=2)[0].count("\n") == 2
    assert "line 2" in following.read()[0]


@writes_log
def test_the_offset_leads_from_a_records_stamp_to_our_clock(following: KernelLog) -> None:
    assert following.offset is None
    before = time.monotonic()
    log("what time is it")
    time.sleep(0.3)
    log("and now")
    text, _ = following.read()
    after = time.monotonic()
    stamp = next(int(line.split(",")[2]) / 1e6 for line in text.splitlines() if "what time" in line)
    assert following.offset is not None
    assert before - 0.001 <= stamp + following.offset <= after, "the promptest record decides"
    assert stamp + following.offset - before < 0.25


def answer(*command: str, first: str = "") -> str:
    script = f"import os\nfrom hotplugctl.host.kmsg import KernelLog\n{first}\nprint(KernelLog.open())"
    whole = [*command, sys.executable, "-c", script]
    done = subprocess.run(whole, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@as_root
@pytest.mark.skipif(Path("/proc/sys/kernel/dmesg_restrict").read_text().strip() == "0", reason="everybody may read it")
def test_a_log_that_may_not_be_read_is_unknown_because_denied() -> None:
    assert answer(first="os.setuid(65534)") == repr(Unknown("/dev/kmsg: Operation not permitted", Kind.DENIED))


@as_root
@pytest.mark.parametrize("cover", ["mount --bind /dev/null /dev/kmsg", "mount -t tmpfs tmpfs /dev"])
def test_what_a_container_has_in_its_place_is_unknown(cover: str) -> None:
    said = answer("unshare", "-m", "--propagation", "private", "sh", "-c", f'{cover} && exec "$@"', "sh")
    assert said.startswith("Unknown(why='/dev/kmsg is not ")
    assert "container" in said
