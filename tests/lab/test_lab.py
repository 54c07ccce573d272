# SPDX-License-Identifier: Apache-2.0
"""The lab shows what the real kernel does; what hotplugctl makes of it is tested elsewhere."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .boot import CommandError, GuestError, Job
from .conftest import Lab
from .guest import Guest
from .qmp import QmpError

pytestmark = pytest.mark.lab
PORT_COUNTERS = {
    "correctable": "aer_rootport_total_err_cor",
    "nonfatal": "aer_rootport_total_err_nonfatal",
    "fatal": "aer_rootport_total_err_fatal",
}


@contextmanager
def uevents(guest: Guest) -> Iterator[Job]:
    """The kernel's own events, as udevadm prints them."""
    monitor = guest.start("exec stdbuf -oL udevadm monitor --kernel --property")
    guest.wait(lambda: "KERNEL" in monitor.peek()[0], 10, "udevadm listens")
    yield monitor
    monitor.signal(signal.SIGTERM)


def seen(guest: Guest, monitor: Job, *keys: str) -> bool:
    """Whether one event with all of these keys comes soon."""
    def look() -> bool:
        return any(all(key in event.splitlines() for key in keys) for event in monitor.peek()[0].split("\n\n"))
    return guest.wait(look, 10, f"the event {keys}")


def pci(address: str, attribute: str) -> str:
    return f"/sys/bus/pci/devices/{address}/{attribute}"


def status(guest: Guest, address: str) -> str:
    return guest.read(pci(address, "status")).strip()


# Commands and files


def test_output_comes_back_byte_for_byte_and_apart(guest: Guest) -> None:
    result = guest.run(r"printf 'a\0\xff\n'; printf 'b\r\n' >&2; exit 3", check=False)
    assert (result.status, result.stdout, result.stderr) == (3, "a\0\udcff\n", "b\r\n")


def test_a_command_that_outlives_its_time_is_killed_and_the_next_one_runs(guest: Guest) -> None:
    with pytest.raises(TimeoutError, match="begun"):
        guest.run("echo begun; sleep 100.25", timeout=1)
    assert guest.run("pgrep -f '[s]leep 100.25'", check=False).status == 1
    with pytest.raises(CommandError, match="gave 1"):
        guest.run("false")


def test_a_process_left_running_is_swept_away(guest: Guest) -> None:
    guest.run("setsid sleep 100.5 & disown")
    assert guest.ask("sweep") == []
    assert guest.run("pgrep -f '[s]leep 100.5'", check=False).status == 1


def test_files_go_in_and_out_whole(guest: Guest) -> None:
    guest.run("head -c 3000000 /dev/urandom > /tmp/random")
    raw = guest.fetch("/tmp/random")
    guest.write("/tmp/copy", raw)
    assert len(raw) == 3_000_000
    guest.run("cmp /tmp/random /tmp/copy")
    with pytest.raises(FileNotFoundError):
        guest.read("/tmp/absent")


def test_what_qemu_refuses_is_an_error_in_its_words(guest: Guest) -> None:
    with pytest.raises(QmpError, match="not a valid device model name"):
        guest.plug(1, "no-such-device")


# Cards come and go


def test_a_plugged_card_gets_its_driver_a_node_and_events(guest: Guest) -> None:
    with uevents(guest) as monitor:
        address = guest.plug(1)
        assert seen(guest, monitor, "ACTION=add", "SUBSYSTEM=accel", "DEVNAME=/dev/accel/accel0")
        assert seen(guest, monitor, "ACTION=bind", f"PCI_SLOT_NAME={address}", "DRIVER=labaccel")
    assert guest.address(1) == address
    assert guest.run("stat -c %t:%T /dev/accel/accel0").stdout == "105:0\n"
    assert status(guest, address) == "operational"


def test_a_pressed_button_takes_the_card_out_in_order(guest: Guest) -> None:
    guest.plug(1)
    began = time.monotonic()
    guest.unplug(1)
    assert time.monotonic() - began > 4
    assert "Slot(1): Button press: will power off in 5 sec" in guest.dmesg()
    assert (guest.addresses(1), guest.cards()) == ([], {})


def test_a_pulled_card_is_a_surprise_and_another_one_comes_up_in_its_place(guest: Guest) -> None:
    guest.plug(2)
    guest.pull(2)
    assert "Slot(2): Card not present" in guest.dmesg()
    address = guest.plug(2, "nvme")
    assert guest.read(pci(address, "vendor")) == "0x1b36\n"


def test_a_ghost_stays_and_hides_the_next_card(guest: Guest) -> None:
    address = guest.in_service(1)
    guest.ghost(1)
    guest.wait_for_log("Slot(1): Already disabled")
    assert guest.addresses(1) == [address]
    guest.plug(1, "nvme", wait=False)
    time.sleep(2)
    assert guest.read(pci(address, "device")) == "0x11e8\n"


def test_a_card_that_fell_off_the_bus_reads_all_ones_and_stays_present(guest: Guest) -> None:
    address = guest.in_service(1)
    guest.fall_off_the_bus(1)
    assert guest.fetch(pci(address, "config"))[:64] == b"\xff" * 64
    assert guest.read("/sys/bus/pci/slots/1/adapter") == "1\n"
    assert status(guest, address) == "failed"


def test_an_open_node_outlives_its_card_and_the_next_node_has_another_name(guest: Guest) -> None:
    guest.in_service(1)
    holder = guest.start("exec 3< /dev/accel/accel0; echo open; exec sleep 100")
    guest.wait(lambda: "open" in holder.peek()[0], 10, "the node is open")
    guest.pull(1)
    assert holder.running()
    guest.plug(1)
    guest.wait(lambda: guest.find("/dev/accel/*"), 10, "a node")
    assert guest.find("/dev/accel/*") == ["/dev/accel/accel1"]


def test_slots_empty_by_power_file_and_refill(guest: Guest) -> None:
    guest.plug(3)
    guest.run("echo 0 > /sys/bus/pci/slots/3/power")
    assert (guest.addresses(3), guest.cards()) == ([], {})
    assert guest.run("echo 1 > /sys/bus/pci/slots/3/power", check=False).status != 0
    guest.plug(3)


# Faults of the card


@pytest.mark.parametrize(("kind", "line"), [
    ("correctable", "AER: Correctable error message received"),
    ("nonfatal", "AER: device recovery successful"),
    ("fatal", "AER: device recovery successful"),
])
def test_a_pcie_error_is_counted_and_recovered(guest: Guest, kind: str, line: str) -> None:
    address = guest.plug(3, "e1000e")
    guest.wait(lambda: guest.find(pci(address, "driver")), 20, "e1000e is bound")
    port = pci(guest.port_address(3), PORT_COUNTERS[kind])
    before = int(guest.read(port))      # since boot, of the cards before too
    with uevents(guest) as monitor:
        guest.aer(address, kind)
        guest.wait_for_log(line)
        if kind != "correctable":
            assert seen(guest, monitor, "ERROR_EVENT=SUCCESSFUL_RECOVERY", f"PCI_SLOT_NAME={address}")
    # A fatal error leaves its card unreadable ("type=Inaccessible"): the port alone counts it.
    counted = guest.read(pci(address, f"aer_dev_{kind}")).splitlines()[-1].split()[-1]
    assert (counted, int(guest.read(port)) - before) == ("0" if kind == "fatal" else "1", 1)


def test_an_accelerator_driver_may_refuse_to_recover(guest: Guest) -> None:
    address = guest.plug(3, "e1000e")
    guest.bind(address, "labaccel")
    guest.set_driver(fault="aer_disconnect")
    guest.aer(address, "nonfatal")
    guest.wait_for_log("device recovery failed")
    guest.set_driver(fault="none")
    guest.aer(address, "fatal")
    guest.wait_for_log(f"labaccel {address}: slot was reset")
    guest.wait_for_log("device recovery successful")


# Faults of the machine


def test_a_bar_of_64_gib_has_no_space(guest: Guest) -> None:
    guest.plug(1, "pci-testdev", membar="64G")
    guest.wait_for_log("can't assign; no space")


def test_a_switch_finds_no_bus_number_but_in_the_slot_with_room(guest: Guest) -> None:
    guest.plug(1, "x3130-upstream")
    guest.wait_for_log("No bus number available for hot-added bridge")
    guest.run("dmesg -C")
    address = guest.plug(6, "x3130-upstream")
    guest.wait(lambda: guest.find(pci(address, "driver")), 5, "the switch is bound")
    assert "No bus number" not in guest.dmesg()


# Faults of the driver


@pytest.mark.parametrize(("params", "line"), [
    ({"fault": "firmware_missing"}, "Direct firmware load for labaccel/missing.bin failed with error -2"),
    ({"fault": "firmware_missing"}, "probe with driver labaccel failed with error -2"),
    ({"fault": "probe_timeout", "boot_ms": 500}, "probe with driver labaccel failed with error -110"),
    ({"fault": "probe_eio"}, "probe with driver labaccel failed with error -5"),
])
def test_a_probe_that_fails_says_why_and_leaves_the_card_unbound(guest: Guest, params: dict[str, object],
                                                                 line: str) -> None:
    guest.set_driver(**params)
    address = guest.plug(1)
    guest.wait_for_log(f"labaccel {address}: {line}")
    guest.wait(lambda: not guest.find(pci(address, "driver")), 5, "the card is unbound")


def test_a_slow_boot_blocks_probe_and_a_late_one_does_not(guest: Guest) -> None:
    guest.set_driver(fault="slow_boot", boot_ms=2000)
    slow = guest.plug(1)
    guest.wait(lambda: guest.find(pci(slow, "status")), 5, "a status")
    assert status(guest, slow) == "booting"
    assert guest.find("/dev/accel/*") == []
    guest.wait(lambda: status(guest, slow) == "operational", 10, "the slow card is operational")

    guest.set_driver(fault="late_boot", online_event=True)
    with uevents(guest) as monitor:
        late = guest.plug(2)
        guest.wait(lambda: guest.find("/dev/accel/accel1"), 5, "a node")
        assert status(guest, late) == "booting"
        assert seen(guest, monitor, "ACTION=online", "SUBSYSTEM=accel", "DEVNAME=/dev/accel/accel1")
    assert status(guest, late) == "operational"


def test_a_boot_that_fails_leaves_a_bound_card_failed(guest: Guest) -> None:
    guest.set_driver(fault="boot_fails", boot_ms=100)
    address = guest.plug(1)
    guest.wait_for_log("firmware did not boot")
    assert status(guest, address) == "failed"
    assert guest.find(pci(address, "driver"))


def test_lazy_firmware_waits_for_the_first_open(guest: Guest) -> None:
    guest.set_driver(lazy=True, firmware="labaccel/none.bin")
    guest.plug(1)
    guest.wait(lambda: guest.find("/dev/accel/accel0"), 5, "a node")
    assert "firmware" not in guest.dmesg()
    assert "No such file" in guest.run(": < /dev/accel/accel0", check=False).stderr
    guest.set_driver(firmware="labaccel/fw.bin")
    guest.run(": < /dev/accel/accel0")
    assert "firmware labaccel/fw.bin loaded" in guest.dmesg()


def test_without_its_driver_a_card_stays_unbound(guest: Guest) -> None:
    guest.unload_driver()
    address = guest.plug(1)
    assert not guest.find(pci(address, "driver"))
    guest.load_driver()
    assert status(guest, address) == "operational"


@pytest.mark.parametrize("file", ["driver/unbind", "remove"])
def test_a_hanging_remove_holds_its_writer_until_released(guest: Guest, file: str) -> None:
    address = guest.in_service(1)
    guest.set_driver(fault="hang_remove")
    path = pci(address, file)
    writer = guest.start(f"echo $BASHPID; echo {address if file.endswith('unbind') else 1} > {path}")
    guest.wait_for_log("waiting for the device to finish its work")
    writer.signal(signal.SIGKILL)
    time.sleep(0.5)
    assert writer.running()
    pid = writer.peek()[0].strip()
    assert guest.read(f"/proc/{pid}/stat").split()[2] == "D"
    assert guest.read(f"/proc/{pid}/wchan") == "labaccel_wait_for_device"
    guest.set_driver(release=True)
    assert writer.wait(10).status == -signal.SIGKILL


def test_a_hanging_probe_holds_the_slot_until_released(guest: Guest) -> None:
    guest.set_driver(fault="hang_probe")
    address = guest.plug(1)
    guest.wait(lambda: guest.find(pci(address, "status")), 5, "probe to begin")
    time.sleep(0.5)
    assert status(guest, address) == "booting"
    guest.set_driver(release=True)
    guest.wait(lambda: status(guest, address) == "operational", 5, "the card is operational")


def test_a_guest_past_use_is_replaced(lab: Lab) -> None:
    crashed = lab.guest()
    crashed.start("echo c > /proc/sysrq-trigger")
    with pytest.raises(GuestError, match="Kernel panic"):
        crashed.run("sleep 30")
    lab.clean()
    assert lab.guest() is not crashed


# Other machines


def test_a_slot_without_power_controller_reads_powered_with_its_card_off(guest: Guest) -> None:
    guest.plug(5)
    guest.run("echo 0 > /sys/bus/pci/slots/5/power")
    assert guest.addresses(5) == []
    assert guest.read("/sys/bus/pci/slots/5/power") == "1\n"
    guest.run("echo 1 > /sys/bus/pci/slots/5/power")
    assert guest.addresses(5)
    with pytest.raises(ValueError, match="slot 5"):
        guest.pull(5)


def test_firmware_slots_have_no_kernel_lines_and_refuse_attention(acpi_guest: Guest) -> None:
    acpi_guest.plug(1)
    assert acpi_guest.find("/sys/bus/pci/slots/*")[:2] == ["/sys/bus/pci/slots/0", "/sys/bus/pci/slots/0-2"]
    with pytest.raises(OSError, match="Invalid argument"):
        acpi_guest.read("/sys/bus/pci/slots/0/attention")
    acpi_guest.run("dmesg -C")
    acpi_guest.unplug(1)
    assert acpi_guest.dmesg() == ""
    with pytest.raises(ValueError, match="unplug"):
        acpi_guest.pull(1)
