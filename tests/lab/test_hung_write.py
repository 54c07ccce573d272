# SPDX-License-Identifier: Apache-2.0
"""The three traps of a write that hangs in the kernel, on a driver whose remove really does."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from hotplugctl.errors import Exit

from .boot import Result
from .guest import Guest

pytestmark = pytest.mark.lab
SCRIPT = Path(__file__).with_name("hung_write.py")


def unbind(guest: Guest, address: str, deadline: float, timeout: float = 60) -> Result:
    """As a shell script does it: the output goes into a variable, so whoever inherits stdout is waited for."""
    command = f"x=$({sys.executable} {SCRIPT} {address} {deadline}); code=$?; printf '%s\\n' \"$x\"; exit $code"
    return guest.run(command, timeout=timeout, check=False)


def test_a_write_that_hangs_ends_the_command_in_time_and_is_found_by_the_next(guest: Guest) -> None:
    address = guest.in_service(1)
    guest.set_driver(fault="hang_remove")
    started = time.monotonic()
    first = unbind(guest, address, 2.0)
    took = time.monotonic() - started
    assert first.status == Exit.FAILED, first.stdout + first.stderr
    assert "hangs in the kernel" in first.stdout
    assert "cannot be killed" in first.stdout
    assert took < 15, f"{took:.1f} s: the deadline is 2 s, starting Python here takes the rest"
    pid = guest.run("pgrep -f '[h]ung_write.py'").stdout.split()[0]
    assert guest.run(f"cut -d' ' -f3 /proc/{pid}/stat").stdout.strip() == "D", "the child still sleeps in the kernel"
    assert guest.run(f"readlink /proc/{pid}/fd/1").stdout.strip() == "/dev/null", "and does not hold the output"
    assert guest.run(f"ls /proc/{pid}/fd").stdout.split() != [], "it has only what it needs"
    assert "lock" not in guest.run(f"ls -l /proc/{pid}/fd").stdout, "nor the lock"
    second = unbind(guest, address, 1.0)
    assert second.status == Exit.FAILED
    assert "an earlier write to" in second.stdout
    assert f"pid {pid}" in second.stdout
    assert guest.run("pgrep -c -f '[h]ung_write.py'").stdout.strip() == "1", "nothing was written a second time"
    guest.set_driver(release="Y")
    guest.wait(lambda: guest.run(f"test -d /proc/{pid}", check=False).status != 0, 20, "the driver let go")
    third = unbind(guest, address, 10.0)
    assert third.status in (Exit.OK, Exit.FAILED), third.stdout
    assert "an earlier write" not in third.stdout
