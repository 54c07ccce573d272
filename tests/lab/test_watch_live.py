# SPDX-License-Identifier: Apache-2.0
"""watch on the real kernel: every transition once and in order, its times, and why a card is stuck or gone."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .application import Application
from .boot import Job
from .guest import Guest

pytestmark = pytest.mark.lab
CYCLES = int(os.environ.get("HOTPLUGCTL_CYCLES", "12"))      # make soak: 100
SLOTS = (1, 2, 3, 4)


class Watching:
    """A `hotplugctl watch -o jsonl` that runs in the guest."""

    def __init__(self, guest: Guest, *words: str) -> None:
        self.guest = guest
        self.job: Job = guest.start(guest.command("watch", "-o", "jsonl", *words))
        guest.wait(lambda: bool(self.changes()) or not self.job.running(), 60, "the snapshot")

    def changes(self, *kinds: str) -> list[dict[str, Any]]:
        """What was said so far, all or of these kinds; a line that is still being written is left for later."""
        lines = self.job.peek()[0].split("\n")[:-1]
        found = [json.loads(line) for line in lines]
        return [change for change in found if not kinds or change["kind"] in kinds]

    def until(
        self, ready: Callable[[list[dict[str, Any]]], bool], what: str, timeout: float = 40
    ) -> list[dict[str, Any]]:
        """Wait until the changes satisfy `ready`."""
        self.guest.wait(lambda: ready(self.changes()), timeout, what)
        return self.changes()

    def said(self, slot: int, kind: str, times: int = 1) -> dict[str, Any]:
        """Wait for the change of that kind in that slot; the last one."""
        def mine(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [c for c in changes if c["slot"] == str(slot) and c["kind"] == kind]
        self.until(lambda changes: len(mine(changes)) >= times, f"slot {slot} {kind}")
        return mine(self.changes())[-1]

    def kinds(self, slot: int) -> list[str]:
        return [change["kind"] for change in self.changes() if change["slot"] == str(slot)]


@pytest.fixture
def watching(guest: Guest) -> Iterator[Watching]:
    watch = Watching(guest)
    yield watch
    watch.job.signal(15)


def test_a_script_waits_for_ready_and_gets_every_stage(guest: Guest) -> None:
    watch = Watching(guest, "slot:3", "--until", "ready", "--timeout", "20s")
    assert [change["kind"] for change in watch.changes()] == ["snapshot"]
    assert watch.changes()[0]["devices"] == 0
    guest.plug(3, "edu")
    result = watch.job.wait(40)
    assert result.status == 0, result.stderr
    changes = [json.loads(line) for line in result.stdout.splitlines()]
    assert [change["kind"] for change in changes] == ["snapshot", "added", "progress", "ready"]
    timings = changes[-1]["timings"]
    assert list(timings) == [name for name in (
        "queued", "detected", "identified", "mapped", "bound", "initialised", "ready") if name in timings]
    assert timings["ready"] >= timings["bound"] > 0
    assert changes[-1]["budget"]["met"] is True


def test_a_device_that_is_ready_already_ends_the_wait_at_once_and_time_up_is_six(guest: Guest) -> None:
    guest.plug(3, "edu")
    guest.wait(lambda: guest.run("ls /dev/accel/*", check=False).status == 0, 20, "the node is there")
    assert guest.run(guest.command("watch", "slot:3", "--until", "ready", "--timeout", "20s"), check=False).status == 0
    assert guest.run(guest.command("watch", "slot:4", "--until", "ready", "--timeout", "1s"), check=False).status == 6


def test_missing_firmware_ends_the_wait_with_its_cause(guest: Guest) -> None:
    guest.set_driver(fault="firmware_missing")
    watch = Watching(guest, "slot:2", "--until", "ready", "--timeout", "30s")
    guest.plug(2, "edu")
    result = watch.job.wait(60)
    assert result.status == 1, result.stdout + result.stderr
    failed = json.loads(result.stdout.splitlines()[-1])
    assert (failed["kind"], failed["diagnosis"]["id"]) == ("failed", "firmware_missing")
    assert "Direct firmware load" in failed["because"][0]


def test_a_slow_boot_is_late_with_its_diagnosis_and_still_becomes_ready(guest: Guest, watching: Watching) -> None:
    guest.set_driver(fault="late_boot", boot_ms=6000)
    guest.plug(1, "edu")
    late = watching.said(1, "late")
    assert late["budget"]["met"] is None
    assert "booting" in late["missing"]
    ready = watching.said(1, "ready")
    assert ready["budget"]["met"] is False
    assert watching.kinds(1) == ["added", "progress", "late", "ready"] or watching.kinds(1).count("late") == 1


def test_a_driver_whose_probe_hangs_is_late_with_where_it_waits(guest: Guest, watching: Watching) -> None:
    guest.set_driver(fault="hang_probe")
    guest.plug(1, "edu")
    late = watching.said(1, "late")
    assert (late["diagnosis"]["id"], late["diagnosis"]["address"]) == ("device_boot_timeout", guest.address(1))
    assert "labaccel_wait_for_device" in late["diagnosis"]["title"]
    guest.set_driver(release=True)
    assert watching.said(1, "ready")["budget"]["met"] is False


def test_cycles_over_four_slots_are_told_completely_and_in_time(guest: Guest, watching: Watching) -> None:
    rounds = -(-CYCLES // len(SLOTS))
    app = Application(guest, seconds=3600)
    for n in range(1, rounds + 1):
        for slot in SLOTS:
            guest.plug(slot, "edu")
        for slot in SLOTS:
            watching.said(slot, "ready", n)
        for slot in SLOTS:
            guest.run(f"echo 0 > /sys/bus/pci/slots/{slot}/power", timeout=30)
        for slot in SLOTS:
            watching.said(slot, "removed", n)
    for slot in SLOTS:
        kinds = [kind for kind in watching.kinds(slot) if kind != "progress"]
        assert kinds == ["added", "ready", "removed"] * rounds
    changes = watching.changes()
    assert len({change["id"] for change in changes}) == len(changes)
    ready = [change["budget"]["took_s"] for change in changes if change["kind"] == "ready"]
    removed = [change["budget"]["took_s"] for change in changes if change["kind"] == "removed"]
    told = [began + restored for kind, _, restored, began in app.stop()["timings"] if kind == "removed"]
    assert len(told) == rounds * len(SLOTS)
    print(f"\n{rounds * len(SLOTS)} cycles: enumeration to ready p95 {p95(ready):.2f} s (budget 3 s), "
          f"removal p95 {p95(removed):.2f} s, to the last callback p95 {p95(told):.2f} s (budget 1 s)")
    for stage in ("queued", "mapped", "bound", "initialised", "ready"):
        times_of = [c["timings"][stage] for c in changes if c["kind"] == "ready" and stage in c["timings"]]
        if times_of:
            print(f"  {stage:<12} median {statistics.median(times_of):.2f} s")
    # The kernel and the card are done with the last event of the rung below; what follows is the tool's own.
    own = [c["budget"]["took_s"] - c["timings"]["initialised"] for c in changes if c["kind"] == "ready"]
    shares = [mine / max(took, 0.001) for mine, took in zip(own, ready, strict=True)]
    print(f"  the tool itself: median {statistics.median(own):.3f} s, {statistics.median(shares):.0%} of the whole")


def test_an_orderly_removal_is_announced_and_expected(guest: Guest, watching: Watching) -> None:
    guest.plug(1, "edu")
    watching.said(1, "ready")
    guest.unplug(1)
    removed = watching.said(1, "removed")
    assert removed["expected"] is True
    assert [kind for kind in watching.kinds(1) if kind != "progress"] == ["added", "ready", "draining", "removed"]
    draining = watching.said(1, "draining")
    assert 4.0 < draining["deadline_s"] <= 5.0


def p95(values: list[float]) -> float:
    return sorted(values)[max(0, round(0.95 * len(values)) - 1)]


def test_four_cards_at_once_are_one_batch_and_none_is_late(guest: Guest, watching: Watching) -> None:
    guest.set_driver(fault="slow_boot", boot_ms=1500)
    for slot in SLOTS:
        guest.plug(slot, "edu", wait=False)
    for slot in SLOTS:
        watching.said(slot, "ready")
    assert not watching.changes("late", "failed")
    added = watching.changes("added")
    assert len(added) == len(SLOTS)
    queued = [change["timings"].get("queued", 0.0) for change in watching.changes("ready")]
    assert max(queued) > 1.0, "the kernel brings up one slot after the other, and waiting is not the card's time"


def test_errors_degrade_and_recovery_recovers(guest: Guest, watching: Watching) -> None:
    guest.plug(3, "e1000e", mac="52:54:00:12:34:56")
    watching.said(3, "ready")
    guest.run("modprobe aer_inject")
    guest.aer(guest.address(3), "nonfatal")
    degraded = watching.said(3, "degraded")
    assert any("PCIe Bus Error" in line or "AER" in line for line in degraded["because"])
    watching.said(3, "recovered")
    guest.aer(guest.address(3), "fatal")
    watching.said(3, "recovered", 2)


def test_a_pulled_card_is_a_surprise_and_another_one_says_whom_it_replaces(guest: Guest, watching: Watching) -> None:
    guest.plug(3, "e1000e", mac="52:54:00:12:34:56")
    watching.said(3, "ready")
    guest.pull(3)
    gone = watching.said(3, "surprise_removed")
    assert gone["expected"] is False
    assert any("Card not present" in line for line in gone["because"])
    guest.plug(3, "e1000e", mac="52:54:00:12:34:57")
    watching.said(3, "ready", 2)
    told = [c["replaces"] for c in watching.changes("added", "replaced", "progress") if c["replaces"]]
    assert told, "the serial tells that it is another card"
    assert told[-1]["serial"].endswith("34-56")


def test_a_card_that_falls_off_the_bus_has_failed(guest: Guest, watching: Watching) -> None:
    guest.plug(1, "edu")
    watching.said(1, "ready")
    guest.fall_off_the_bus(1)
    failed = watching.until(lambda changes: any(c["kind"] == "failed" for c in changes), "failed", 60)[-1]
    assert failed["after"] == "failed"
    assert failed["diagnosis"]["id"] == "device_inaccessible"


def test_an_acpi_detach_leaves_no_line_and_is_removed_not_a_surprise(acpi_guest: Guest) -> None:
    acpi_guest.plug(1, "edu")
    watch = Watching(acpi_guest)
    acpi_guest.unplug(1)
    removed = watch.until(lambda changes: any(c["kind"] == "removed" for c in changes), "removed")[-1]
    assert removed["expected"] is False
    assert not watch.changes("surprise_removed")
    watch.job.signal(15)


def test_an_interrupted_watch_ends_cleanly(guest: Guest) -> None:
    watch = Watching(guest)
    time.sleep(0.5)
    watch.job.signal(2)
    result = watch.job.wait(20)
    assert result.status == 130
    assert "Traceback" not in result.stderr
