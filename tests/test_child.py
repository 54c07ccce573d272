"""A write with a deadline: opening a pipe that nobody reads hangs in the kernel, as a sysfs write can.

The same three traps on a real hung driver: tests/lab/test_hung_write.py.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotplugctl import act, records
from hotplugctl.errors import Exit, HotplugError
from hotplugctl.host import child
from hotplugctl.host.live import Live
from hotplugctl.model import Kind, Unknown


@pytest.fixture(autouse=True)
def _own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "RUN", str(tmp_path / "run"))


@pytest.fixture
def hangs(tmp_path: Path) -> str:
    """A file whose writer hangs until somebody reads it."""
    os.mkfifo(tmp_path / "hangs")
    return str(tmp_path / "hangs")


def end(process: child.Child) -> None:
    os.kill(process.pid, signal.SIGKILL)
    os.waitpid(process.pid, 0)


def test_a_write_that_returns_says_what_the_kernel_said(tmp_path: Path) -> None:
    (tmp_path / "power").write_text("1")
    assert child.write(str(tmp_path / "power"), "0", 5, lambda _: None) == child.Written(0)
    assert (tmp_path / "power").read_text() == "0"
    assert child.write(str(tmp_path / "none"), "0", 5, lambda _: None) == child.Written(errno.ENOENT)


def test_a_write_that_hangs_ends_in_time_and_names_its_child(hangs: str) -> None:
    started = time.monotonic()
    result = child.write(hangs, "1", 0.3, lambda _: None)
    assert time.monotonic() - started < 2
    assert isinstance(result, child.Stuck)
    assert child.alive(result.child)
    end(result.child)
    assert not child.alive(result.child)


def test_the_child_is_recorded_before_it_acts(tmp_path: Path) -> None:
    (tmp_path / "power").write_text("1")
    seen = []
    child.write(str(tmp_path / "power"), "0", 5, lambda _: seen.append((tmp_path / "power").read_text()))
    assert seen == ["1"]


def test_what_cannot_be_recorded_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "power").write_text("1")

    def refuse(_: child.Child) -> None:
        raise HotplugError("no room for the record")

    with pytest.raises(HotplugError, match="no room"):
        child.write(str(tmp_path / "power"), "0", 5, refuse)
    assert (tmp_path / "power").read_text() == "1"


def test_another_process_of_the_same_pid_is_not_taken_for_the_child() -> None:
    assert not child.alive(child.Child(os.getpid(), 1))


def test_a_hung_write_does_not_hold_the_output_of_the_command_that_began_it(hangs: str) -> None:
    code = (
        "from hotplugctl.host import child\n"
        f"result = child.write({hangs!r}, '1', 0.2, lambda c: None)\nprint(result.child.pid)"
    )
    started = time.monotonic()
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20).stdout
    assert time.monotonic() - started < 10, "x=$(command) returns although the child still hangs"
    os.kill(int(output), 0)
    os.kill(int(output), signal.SIGKILL)


def test_a_hung_write_does_not_hold_the_lock_and_the_next_run_finds_it_alive(hangs: str) -> None:
    live = Live()
    with pytest.raises(HotplugError, match="hangs in the kernel") as caught, records.lock("slot:1", "test"):
        act.write(live, "slot:1", hangs, "1", took=lambda: False, deadline=0.2)
    assert caught.value.exit is Exit.FAILED
    found = records.unfinished_write(live, "slot:1")
    assert found is not None
    what, process = found
    assert what == str(hangs)
    with records.lock("slot:1", "test"), pytest.raises(HotplugError, match="an earlier write to"):
        act.write(live, "slot:1", hangs, "0", took=lambda: True, deadline=0.2)
    end(process)
    assert records.unfinished_write(live, "slot:1") is None


def test_a_held_lock_names_its_owner() -> None:
    with records.lock("slot:1", "draining it"), pytest.raises(HotplugError) as caught, records.lock("slot:1", "test"):
        pass
    assert caught.value.exit is Exit.REFUSED
    assert f"pid {os.getpid()} (draining it) has it" in str(caught.value)


def test_a_write_without_effect_is_an_error_even_if_the_kernel_accepted_it(tmp_path: Path) -> None:
    (tmp_path / "power").write_text("1")
    with pytest.raises(HotplugError, match="had no effect: accepted"):
        act.write(Live(), "slot:1", str(tmp_path / "power"), "0", took=lambda: False)
    assert records.unfinished_write(Live(), "slot:1") is None


def test_a_tool_that_hangs_is_an_answer_not_a_wait() -> None:
    started = time.monotonic()
    answer = child.run(("sh", "-c", "sleep 60 & sleep 60"), 0.3)
    assert time.monotonic() - started < 3
    assert isinstance(answer, Unknown)
    assert "did not answer within 0.3 s" in answer.why


def test_a_tool_that_is_not_there_is_not_there_and_one_that_may_not_run_is_denied(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    assert child.run(("no-such-tool-anywhere",), 5) is None
    answer = child.run((str(tmp_path / "tool"),), 5)
    assert isinstance(answer, Unknown)
    assert answer.kind is Kind.DENIED


def test_a_tool_gets_a_fixed_environment_no_input_and_bounded_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("SECRET", "x")
    answer = child.run(("sh", "-c", "env; cat; head -c 9000000 /dev/zero | tr '\\0' x; echo err >&2; exit 3"), 30)
    assert not isinstance(answer, Unknown)
    assert answer is not None
    assert answer.status == 3
    assert answer.stderr == "err\n"
    assert "SECRET" not in answer.stdout
    assert f"PATH={child.PATH}" in answer.stdout
    assert len(answer.stdout) < child.OUTPUT_LIMIT + 70_000


def test_a_lock_is_roots_alone_and_names_nobody_once_it_is_free() -> None:
    with records.lock("test:lock", "test"):
        path = Path(records.RUN) / "lock" / "test:lock"
        assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
        assert f"pid {os.getpid()}" in path.read_text()
    assert path.read_text() == ""
    path.unlink()


def test_a_record_can_be_read_by_everybody_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        records.save(str(tmp_path / "lib" / "drain" / "one.json"), {"a": 1})
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("lib", "lib/drain", "lib/drain/one.json")]
    assert modes == [0o755, 0o755, 0o644]
