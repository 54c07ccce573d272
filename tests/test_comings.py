"""What only a close look tells of a card that comes, goes or was exchanged, and what `diagnose` makes of it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hotplugctl import case, probe, select
from hotplugctl.host import Host, OpenFile, Seen, Sought, processes
from hotplugctl.host.recorder import Recorder
from hotplugctl.host.tree import Bundle
from hotplugctl.model import Diagnosis, LogLine, Maybe, Unknown
from hotplugctl.readers import waits

from .configspace import Config
from .machine import MachineTree
from .procs import ROOT, ZERO, ProcTree, node, running

CARD, OTHER, PORT = "0000:01:00.0", "0000:02:00.0", "0000:00:01.0"
HANGING = """[<0>] msleep+0x2b/0x40
[<0>] labaccel_wait_for_users+0x2a/0x60 [labaccel]
[<0>] labaccel_remove+0x7b/0x80 [labaccel]
[<0>] pci_device_remove+0x3d/0xa0
[<0>] device_release_driver_internal+0x161/0x200
[<0>] pciehp_unconfigure_device+0x98/0x160"""
IDLE = "[<0>] irq_thread+0xf5/0x290\n[<0>] kthread+0xcf/0x100"
FOUND = f"pci {CARD}: [1234:11e8] type 00 class 0x120000 conventional PCI endpoint"
BOOTED = 1_700_000_000.0      # seconds since the epoch


class WithProcesses:
    """A machine whose processes have files open; time passes on it and changes its files."""

    def __init__(self, host: Host, files: Sequence[OpenFile] = (), later: Any = None):
        self._host, self._files, self._later = host, tuple(files), later
        self.paused = 0.0
        self.asked: list[Sought] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def pause(self, seconds: float) -> None:
        self.paused += seconds
        if self._later is not None:
            self._later()

    def holders(self, sought: Sought) -> Maybe[Seen]:
        self.asked.append(sought)
        wanted = "gone" if sought.gone else "control" if sought.controls else "fd"
        return Seen(tuple(file for file in self._files if file.via == wanted))


def diagnosed(machine: MachineTree, host: Any = None) -> Diagnosis:
    seen = machine.look()
    if host is not None:
        seen.host = host
    return case.from_machine(seen, (), select.Filters(), None).diagnosis


def facts(machine: MachineTree, host: Any = None) -> dict[str, Any]:
    seen = machine.look()
    if host is not None:
        seen.host = host
    device = probe.details(seen, [machine.device(CARD)])[0]
    assert isinstance(device.runtime, dict)
    return device.runtime


def root(found: Diagnosis) -> tuple[str, str | None] | None:
    return (found.root_cause.id, found.root_cause.address) if found.root_cause is not None else None


@pytest.fixture
def unbound(machine: MachineTree) -> MachineTree:
    """A card whose driver is unbound; the thread of its slot has nothing to do. Another card is well."""
    machine.port()
    machine.card(driver=None, enable="0")
    machine.port("0000:00:02.0", slot="2", bus=2)
    machine.card(OTHER, under="0000:00:02.0")
    machine.put(f"{machine.paths[PORT]}/msi_irqs/24", "msi")
    machine.put(f"{machine.paths['0000:00:02.0']}/msi_irqs/25", "msi")
    machine.put("/proc/2/task/2/children", "10 64 65 66 ")
    threads = {10: "kworker/0:1", 64: "irq/24-aerdrv", 65: "irq/24-pciehp", 66: "irq/25-pciehp"}
    for pid, name in threads.items():
        machine.put(f"/proc/{pid}/comm", name)
        stack(machine, pid, HANGING if pid in (10, 64) else IDLE)
    machine.put("/proc/uptime", "60.00 30.00")
    machine.kmsg("boot", FOUND)
    return machine


def stack(machine: MachineTree, pid: int, text: str) -> None:
    machine.put(f"/proc/{pid}/stack", text)
    machine.put(f"/proc/{pid}/task/{pid}/stack", text)


# A remove that does not return


def test_a_remove_that_waits_is_seen_in_the_thread_of_its_own_slot(unbound: MachineTree) -> None:
    assert "remove_waits_in" not in facts(unbound), "other threads and other interrupts are none of this slot"
    assert root(diagnosed(unbound)) == ("driver_not_loaded", CARD)
    stack(unbound, 66, HANGING)
    assert "remove_waits_in" not in facts(unbound), "nor is another slot's"
    stack(unbound, 65, HANGING)
    found = facts(unbound)
    assert found["remove_waits_in"] == "labaccel_wait_for_users", "the driver's own function, not msleep"
    assert found["remove_waits_as"] == "pid 65 (irq/24-pciehp)"
    verdict = diagnosed(unbound)
    assert root(verdict) == ("driver_hung_on_removal", CARD)
    assert verdict.root_cause is not None
    assert "/proc/65/stack" in {line.source for line in verdict.root_cause.evidence}
    (driver,) = (check for check in verdict.checks if check.name == "driver")
    assert (driver.state, "labaccel_wait_for_users" in driver.because) == ("fault", True)


def test_a_remove_that_is_over_at_the_second_look_does_not_hang(unbound: MachineTree) -> None:
    stack(unbound, 65, HANGING)
    host = WithProcesses(unbound.host, later=lambda: stack(unbound, 65, IDLE))
    assert root(diagnosed(unbound, host)) == ("driver_not_loaded", CARD)
    assert host.paused == case.PATIENCE


def test_both_looks_are_in_the_capture_so_that_it_gives_the_same_answer(unbound: MachineTree, tmp_path: Path) -> None:
    stack(unbound, 65, HANGING)
    for name, later in (("over", lambda: stack(unbound, 65, IDLE)), ("hung", None)):
        stack(unbound, 65, HANGING)
        recorder = Recorder(WithProcesses(unbound.host, later=later), "test")
        live = diagnosed(unbound, recorder)
        recorder.save(str(tmp_path / name), {})
        from hotplugctl.host.files import Directory

        again = diagnosed(unbound, Bundle(Directory(str(tmp_path / name)), name))
        assert root(again) == root(live)
    assert root(live) == ("driver_hung_on_removal", CARD)


def test_the_functions_of_a_card_are_waited_for_together(unbound: MachineTree) -> None:
    unbound.card("0000:01:00.1", driver=None)
    stack(unbound, 65, HANGING)
    host = WithProcesses(unbound.host)
    diagnosed(unbound, host)
    assert host.paused == case.PATIENCE


def test_a_card_with_a_driver_is_not_asked_where_it_waits(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    host = WithProcesses(machine.host)
    facts(machine, host)
    assert all(not sought.controls and not sought.gone for sought in host.asked)


def test_a_remove_that_waits_for_a_holder_is_a_card_in_use(unbound: MachineTree) -> None:
    stack(unbound, 65, HANGING)
    holder = OpenFile(4711, "python3", "ana", "fd", "/dev/accel/accel0", 1.0)
    here = unbound.paths[CARD]
    unbound.put(f"{here}/accel/accel7/dev", "261:7")
    found = diagnosed(unbound, WithProcesses(unbound.host, [holder]))
    assert root(found) == ("device_in_use", CARD)
    assert found.root_cause is not None
    assert "holders.processes: pid 4711 (python3) has /dev/accel/accel0" in [e.text for e in found.root_cause.evidence]
    assert {one.id: one.follows_from for one in found.findings}["driver_hung_on_removal"] == "device_in_use"


@pytest.mark.parametrize(("target", "text", "told"), [
    ("/sys/bus/pci/devices/{card}/driver/unbind", "{card}", True),
    ("/sys/bus/pci/devices/{card}/remove", "1", True),
    ("/sys/bus/pci/devices/0000:00:01.0/remove", "1", True),
    ("/sys/bus/pci/devices/0000:02:00.0/remove", "1", False),
])
def test_a_write_of_ours_that_hangs_tells_whose_remove_it_is(
    unbound: MachineTree, target: str, text: str, told: bool
) -> None:
    record = {"target": target.format(card=CARD), "text": text.format(card=CARD), "pid": 612, "start_time": 4200}
    unbound.put("/run/hotplugctl/writes/x.json", json.dumps(record))
    unbound.put("/proc/612/stat", "612 (hotplugctl) D 1 " + "0 " * 17 + "4200 " + "0 " * 30)
    stack(unbound, 612, HANGING)
    assert ("remove_waits_in" in facts(unbound)) is told
    unbound.put("/proc/612/stat", "612 (other) S 1 " + "0 " * 17 + "9999 " + "0 " * 30)
    assert "remove_waits_in" not in facts(unbound), "a later process of the same number"


def test_anybody_s_write_is_looked_for_where_the_card_is_still_enabled(unbound: MachineTree) -> None:
    writer = OpenFile(613, "tee", "root", "control", "/sys/bus/pci/drivers/labaccel/unbind", 1.0)
    stack(unbound, 613, HANGING)
    assert "remove_waits_in" not in facts(unbound, WithProcesses(unbound.host, [writer]))
    unbound.put(f"{unbound.paths[CARD]}/enable", "1")
    host = WithProcesses(unbound.host, [writer])
    assert facts(unbound, host)["remove_waits_in"] == "labaccel_wait_for_users"
    assert host.asked[-1].controls or host.asked[-2].controls
    stack(unbound, 613, "[<0>] do_wait+0x1/0x2")
    assert "remove_waits_in" not in facts(unbound, WithProcesses(unbound.host, [writer]))


@ROOT
def test_a_process_with_a_control_file_open_is_found_by_its_name() -> None:
    path = "/sys/kernel/uevent_seqnum"
    with running("sh", "-c", f"exec 3<{path}; echo ready; read x") as pid:
        seen = processes.holders(Sought(controls=("*/uevent_seqnum",)))
        assert isinstance(seen, Seen)
        assert [(f.via, f.path) for f in seen.files if f.pid == pid] == [("control", path)]
        seen = processes.holders(Sought(controls=("*/unbind",)))
        assert not isinstance(seen, Seen) or [f for f in seen.files if f.pid == pid] == []


# Exchanged cards


def exchanged(machine: MachineTree, config: bytes) -> MachineTree:
    machine.port()
    machine.card()
    machine.put(f"{machine.paths[CARD]}/config", config)
    return machine


GHOST = ("boot", FOUND, f"pcieport {PORT}: pciehp: Slot(1): Card not present",
         f"pcieport {PORT}: pciehp: Slot(1): Already disabled", f"pcieport {PORT}: pciehp: Slot(1): Link Up")


def test_a_card_of_other_ids_than_the_kernel_s_is_another_card(machine: MachineTree) -> None:
    exchanged(machine, Config(0x8086, 0x10D3, 0x020000).data)
    assert facts(machine)["answers_as"] == "8086:10d3, set up as 1234:11e8"
    machine.kmsg(*GHOST)
    found = diagnosed(machine)
    assert root(found) == ("ghost_device", CARD)
    assert [one.id for one in found.findings if one.follows_from is None] == ["ghost_device"]


def test_an_equal_card_shows_itself_by_the_addresses_it_was_never_given(machine: MachineTree) -> None:
    exchanged(machine, Config(0x1234, 0x11E8, 0x120000, bars=(0xC, 0)).express(0, speed=5, width=16).data)
    assert facts(machine)["addresses_lost"] == 1
    machine.kmsg(*GHOST)
    assert root(diagnosed(machine)) == ("ghost_device", CARD)
    machine.kmsg("boot", FOUND)
    assert root(diagnosed(machine)) != ("ghost_device", CARD), "a reset does that too"


@pytest.mark.parametrize("config", [
    b"\xff" * 4096, Config(0x0001, 0xFFFF, 0x120000).data, b"\x34\x12\xe8\x11",
])
def test_no_answer_a_retry_or_half_a_header_are_no_other_card(machine: MachineTree, config: bytes) -> None:
    found = facts(exchanged(machine, config))
    assert "answers_as" not in found
    assert "addresses_lost" not in found


def test_a_healthy_card_has_its_addresses(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    assert not {"answers_as", "addresses_lost", "stale_handles", "remove_waits_in"} & set(facts(machine))


# Nodes of cards that are gone


def again(machine: MachineTree) -> MachineTree:
    """A card that came twice: 2 s and 5 s after boot, which is 58 s and 55 s ago."""
    machine.port()
    machine.card()
    machine.put("/proc/uptime", "60.00 30.00")
    machine.kmsg("boot", FOUND, "x", "y", FOUND)
    return machine


def left(pid: int, since: float) -> OpenFile:
    return OpenFile(pid, "serve", "ana", "gone", "/dev/accel/accel7", since)


def test_a_process_that_was_there_before_the_card_has_the_node_of_the_one_before(machine: MachineTree) -> None:
    host = WithProcesses(again(machine).host, [left(612, -60.0), left(613, -10.0)])
    assert facts(machine, host)["stale_handles"] == "pid 612 (serve) has /dev/accel/accel7 open, a node that is gone"
    assert [sought.gone for sought in host.asked if sought.gone] == [("/dev/accel/*",)]
    found = diagnosed(machine, host)
    assert root(found) == ("stale_device_handle", CARD)
    assert found.root_cause is not None
    assert found.root_cause.evidence[0].source == "/proc/PID/fd"


class Slow(WithProcesses):
    """A machine on which each file takes a while to read, and the clocks go on."""

    def __init__(self, host: Host, files: Sequence[OpenFile]):
        super().__init__(host, files)
        self._read = 0

    def now(self) -> float:
        return BOOTED + 60.0 + self._read * 0.2

    def text(self, path: str) -> Maybe[str]:
        self._read += 1
        return f"{self.now() - BOOTED:.2f} 30.00" if path == "/proc/uptime" else self._host.text(path)


@pytest.mark.parametrize("recorded", [False, True])
def test_who_was_there_before_does_not_hang_on_how_long_the_look_takes(machine: MachineTree, recorded: bool) -> None:
    slow = Slow(again(machine).host, [left(612, BOOTED + 4.5), left(613, BOOTED + 5.5)])
    host = Recorder(slow, "test") if recorded else slow
    found = facts(machine, host)["stale_handles"]
    assert ("612" in found, "613" in found) == (True, False)
    assert slow.now() > BOOTED + 65, "it took longer than the two are apart"


def test_the_log_s_clock_may_have_strayed_since_boot_by_what_ntp_corrects(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    month = 30 * 86400.0
    machine.put("/proc/uptime", f"{month + 60:.2f} 30.00")
    machine.put("/kmsg", f"6,1,2000000,-;{FOUND}\n6,2,{month * 1e6:.0f},-;{FOUND}\n")
    # The machine's clock was set right by 50 s in that month: by it the card came 10 s ago, and not a minute.
    host = WithProcesses(machine.host, [left(612, -30.0)])
    assert facts(machine, host)["stale_handles"].startswith("pid 612 ")


def test_a_card_that_came_once_is_nobody_s_second(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    machine.put("/proc/uptime", "60.00 30.00")
    machine.kmsg("boot", FOUND)
    host = WithProcesses(machine.host, [left(612, -60.0)])
    assert "stale_handles" not in facts(machine, host)
    assert not any(sought.gone for sought in host.asked), "and nobody is searched"


@ROOT
def test_a_deleted_node_without_a_device_is_a_node_that_is_gone(tmp_path: Path) -> None:
    path = node(tmp_path / "accel7")
    other = node(tmp_path / "zero")
    known = tmp_path / "known"
    known.mkdir()
    want = Sought(gone=(f"{tmp_path}/accel*",))

    def seen() -> list[tuple[str, str]]:
        found = processes.holders(want, known=str(known))
        return [(f.via, f.path) for f in found.files if f.pid == pid] if isinstance(found, Seen) else []

    script = f"exec 3<{path} 4<{other} 5<{tmp_path}/file; rm {other} {tmp_path}/file; echo ready; read x"
    (tmp_path / "file").write_text("of no concern")
    with running("sh", "-c", script) as pid:
        assert seen() == [], "it is still there: not every driver makes a device for its nodes"
        os.unlink(path)
        assert seen() == [("gone", path)]
        (known / f"{ZERO[0]}:{ZERO[1]}").touch()
        assert seen() == [], "its number has a device: only the name went"


def test_what_is_asked_beside_leaves_the_old_question_as_bundles_have_it() -> None:
    assert Sought().key == "[[], [], null, []]"
    assert len(json.loads(Sought(gone=("/dev/accel/*",)).key)) == 6


# The kernel's lines about a slot's thread

OOPS = """BUG: kernel NULL pointer dereference, address: 00000000000000da
#PF: supervisor write access in kernel mode
Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI
CPU: 1 UID: 0 PID: 75 Comm: irq/24-pciehp Not tainted 6.12.117 #1
Call Trace:
 <TASK>
 pciehp_configure_device+0xc1/0x180
 </TASK>
Modules linked in: labaccel(OE)
genirq: exiting task "irq/24-pciehp" (75) is an active IRQ thread (irq 24)""".splitlines()


def located(*texts: str) -> list[str | None]:
    lines = [LogLine("k", n, text) for n, text in enumerate(texts)]
    return [line.address for line in waits.of_threads(lines, {"24": PORT})]


def test_a_trace_belongs_to_the_port_whose_thread_it_names() -> None:
    assert located("before", *OOPS, "after") == [None, *[PORT] * 8, None, PORT, None]
    assert located(*(line.replace("irq/24", "irq/77") for line in OOPS)) == [None] * len(OOPS)
    assert located("INFO: task bash:372 blocked for more than 2 seconds.", " <TASK>", " vfs_write+0x1/0x2", " </TASK>",
                   "INFO: task irq/24-pciehp:69 blocked for more than 2 seconds.") == [None] * 4 + [PORT]


def test_an_oops_in_one_slot_s_thread_leaves_the_other_card_alone(unbound: MachineTree) -> None:
    unbound.card(CARD, driver="labaccel", node=False)
    unbound.kmsg(FOUND, FOUND.replace(CARD, OTHER), *(line.replace("irq/24", "irq/25") for line in OOPS))
    found = diagnosed(unbound)
    assert root(found) == ("hotplug_thread_dead", OTHER)


def test_a_proc_of_our_own_without_nodes_holds_nothing(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path)
    tree.process(5_000_001, "serve", {3: "/dev/null"})
    found = processes.holders(Sought(gone=("/dev/accel/*",)), str(tmp_path))
    assert isinstance(found, (Seen, Unknown))
    assert not isinstance(found, Seen) or found.files == ()


def test_a_remove_that_hung_is_history_once_its_device_has_gone(unbound: MachineTree) -> None:
    hung = "INFO: task irq/24-pciehp:65 blocked for more than 120 seconds."
    unbound.kmsg(FOUND, hung)
    assert root(diagnosed(unbound)) == ("driver_hung_on_removal", CARD)
    (unbound.root / f"sys/bus/pci/devices/{CARD}").unlink()
    assert root(diagnosed(unbound)) is None
