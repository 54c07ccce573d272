# SPDX-License-Identifier: Apache-2.0
"""An application on the real kernel: told in order, one pool for many cards, and nobody harmed by a bad callback."""

from __future__ import annotations

import json
import shlex

import pytest

from .application import Application
from .guest import Guest

pytestmark = pytest.mark.lab


def test_four_cards_at_once_are_one_pool_and_a_removal_is_restored_in_time(guest: Guest) -> None:
    app = Application(guest, seconds=25)
    for slot in (1, 2, 3, 4):
        guest.plug(slot, "edu", wait=False)
    app.wait("ready", 4)
    guest.wait(lambda: any(len(pool["slots"]) == 4 for pool in app.told("pool")), 20, "a pool of four")
    guest.run("echo 0 > /sys/bus/pci/slots/2/power", timeout=30)
    app.wait("removed", 1)
    guest.wait(lambda: sorted(app.told("pool")[-1]["slots"]) == ["1", "3", "4"], 20, "a pool of three")
    end = app.end()
    assert end["errors"] == []
    assert sum(len(pool["slots"]) == 4 for pool in app.told("pool")) == 1
    removed = [times for times in end["timings"] if times[0] == "removed"]
    assert len(removed) == 1
    _, pool, restored, _ = removed[0]
    assert restored >= pool > 0
    print(f"\nremoval: pool told after {pool:.2f} s, last callback done after {restored:.2f} s (budget 1 s)")


def test_a_callback_that_raises_harms_nobody(guest: Guest) -> None:
    app = Application(guest, "raises", seconds=12)
    guest.plug(1, "edu")
    app.wait("ready", 1)
    end = app.end()
    assert end["errors"] == [["on_added", "no room for it"]]
    assert app.told("added") == []


def test_a_slow_callback_of_one_card_holds_up_no_other(guest: Guest) -> None:
    app = Application(guest, "slow", seconds=20)
    guest.plug(1, "edu")
    guest.plug(2, "edu")
    ready = app.wait("ready", 2)
    assert [one["slot"] for one in ready] == ["2", "1"]


def test_a_warm_up_runs_once_and_before_the_first_pool(guest: Guest) -> None:
    argv = ["/bin/sh", "-c", 'sleep 2; echo "$0" >> /run/warmed', "{address}"]
    settings_text = shlex.quote(json.dumps({'warmup': {'argv': argv}}))
    guest.run(f"umask 022; printf '%s' {settings_text} > /run/warm.yaml")
    settings = {"HOTPLUGCTL_CONFIG": "/run/warm.yaml"}
    app = Application(guest, seconds=10, env=settings)
    guest.plug(1, "edu")
    guest.wait(lambda: any(pool["slots"] == ["1"] for pool in app.told("pool")), 20, "a pool of one")
    assert guest.read("/run/warmed").split() == [guest.address(1)]
    assert app.end()["errors"] == []
    again = Application(guest, seconds=5, env=settings)
    again.wait("pool", 1)
    assert again.end()["errors"] == []
    assert guest.read("/run/warmed").split() == [guest.address(1)]


def test_lazy_readiness_does_not_wait_for_the_firmware(guest: Guest) -> None:
    guest.load_driver(lazy="Y")
    job = guest.start(guest.command("watch", "slot:3", "--until", "ready", "--timeout", "30s", "-o", "jsonl"),
                      env={"HOTPLUGCTL_READINESS": "lazy"})
    guest.wait(lambda: "snapshot" in job.peek()[0], 30, "the snapshot")
    guest.plug(3, "edu")
    result = job.wait(40)
    assert result.status == 0, result.stdout + result.stderr
    ready = json.loads(result.stdout.splitlines()[-1])
    print(f"\nlazy: ready {ready['budget']['took_s']:.2f} s after enumeration (0.5 s is wanted)")
    loaded = "firmware labaccel/fw.bin loaded"
    assert loaded not in guest.dmesg(), "ready came before the firmware"
    guest.run("exec 3< /dev/accel/accel0")
    guest.wait(lambda: loaded in guest.dmesg(), 20, "the first open loads the firmware")
