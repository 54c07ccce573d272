# SPDX-License-Identifier: Apache-2.0
"""Real failures on the real kernel, diagnosed live and from a capture of the same guest: same answer, right answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import booted
from .draining import hold, node
from .guest import Guest

pytestmark = pytest.mark.lab


def diagnosed(guest: Guest, *words: str, code: int = 1) -> dict[str, Any]:
    """The diagnosis, live and from its own capture; both must agree."""
    guest.run("rm -f /root/case.tar.gz")
    live = guest.hotplugctl("diagnose", *words, "--capture", "/root/case.tar.gz", "-o", "json", timeout=120)
    assert live.status == code, live.stdout + live.stderr
    data: dict[str, Any] = live.json()["data"]
    again = guest.hotplugctl("diagnose", *words, "--from", "/root/case.tar.gz", "-o", "json", timeout=120)
    assert again.status == code
    assert essence(again.json()["data"]) == essence(data)
    return data


def essence(data: dict[str, Any]) -> tuple[Any, ...]:
    """What a person takes away from a diagnosis."""
    root = data["root_cause"] or {}
    devices = [(each["address"], each["slot"], each["verdict"], (each["root_cause"] or {}).get("id"))
               for each in data["devices"]]
    return (data["verdict"], root.get("id"), root.get("address"), root.get("slot"), root.get("evidence"),
            [finding["id"] for finding in data["findings"]], devices,
            [(layer["layer"], layer["state"]) for layer in data["layers"]], data["checks"])


def checked(data: dict[str, Any]) -> dict[str, str]:
    """The stations of the walk."""
    return {check["name"]: check["state"] for check in data["checks"]}


def at_fault(data: dict[str, Any]) -> list[str]:
    """The layers with a fault."""
    return [layer["layer"] for layer in data["layers"] if layer["state"] == "fault"]


def neighbour_is_well(data: dict[str, Any], address: str) -> None:
    """The other card's row says healthy."""
    verdicts = {each["address"]: each["verdict"] for each in data["devices"]}
    assert verdicts[address] == "healthy", data["devices"]


def test_a_bar_that_does_not_fit_is_no_space_in_the_window(guest: Guest) -> None:
    guest.plug(4, "pci-testdev", membar=64 << 30)
    root = diagnosed(guest)["root_cause"]
    assert (root["id"], root["address"], root["slot"], root["layer"]) == (
        "bar_space_exhausted", guest.address(4), "4", "hardware")
    assert any("can't assign; no space" in line["text"] for line in root["evidence"])
    assert any(line["source"] == "/dev/kmsg" and line["line"] for line in root["evidence"])


def test_missing_firmware_is_named_and_the_failed_probe_follows_from_it(guest: Guest) -> None:
    guest.set_driver(fault="firmware_missing")
    guest.plug(2, "edu")
    guest.wait(lambda: "probe with driver" in guest.dmesg(), 20, "the driver gave up")
    data = diagnosed(guest)
    root = data["root_cause"]
    assert (root["id"], root["address"], root["layer"], root["repair"]) == (
        "firmware_missing", guest.address(2), "driver", "install")
    assert any("Direct firmware load" in line["text"] for line in root["evidence"])
    assert [finding["id"] for finding in data["findings"] if finding["follows_from"] is None] == ["firmware_missing"]


@pytest.mark.parametrize(("fault", "cause", "says"), [
    ("probe_timeout", "device_boot_timeout", "failed with error -110"),
    ("probe_eio", "driver_init_failed", "failed with error -5"),
    ("probe_einval", "driver_init_failed", "failed with error -22"),
    ("unsupported", "driver_init_failed", "error -ENODEV: hardware revision"),
])
def test_a_failing_probe_is_named_by_what_the_driver_answered(guest: Guest, fault: str, cause: str, says: str) -> None:
    guest.set_driver(fault=fault)
    guest.plug(3, "edu")
    guest.wait(lambda: says in guest.dmesg(), 40, "the driver gave up")
    root = diagnosed(guest, "slot:3")["root_cause"]
    assert (root["id"], root["address"]) == (cause, guest.address(3))
    assert any(says in line["text"] for line in root["evidence"])


def test_a_card_that_fell_off_the_bus_is_inaccessible(guest: Guest) -> None:
    guest.in_service(1)
    guest.fall_off_the_bus(1)
    root = diagnosed(guest)["root_cause"]
    assert (root["id"], root["address"]) == ("device_inaccessible", guest.address(1))


def test_a_card_whose_driver_is_not_loaded_says_so(guest: Guest) -> None:
    guest.unload_driver()
    guest.plug(1, "edu")
    root = diagnosed(guest)["root_cause"]
    assert (root["id"], root["address"], root["layer"]) == ("driver_not_loaded", guest.address(1), "driver")


def test_an_empty_slot_is_a_finding_only_when_it_was_asked_about(guest: Guest) -> None:
    root = diagnosed(guest, "slot:2")["root_cause"]
    assert (root["id"], root["address"], root["slot"]) == ("slot_empty", guest.port_address(2), "2")
    assert diagnosed(guest, code=3)["root_cause"] is None, "no card, nothing named: nothing to say"


def test_a_healthy_machine_is_healthy_and_its_own_kernel_log_raises_no_alarm(guest: Guest) -> None:
    guest.plug(1, "edu")
    guest.plug(3, "e1000e", mac="52:54:00:12:34:56")
    ready = ("list", "--state", "ready", "-o", "tsv")
    guest.wait(lambda: guest.hotplugctl(*ready).stdout.count("\n") == 3, 30, "both are ready")
    data = diagnosed(guest, code=0)
    assert (data["verdict"], data["root_cause"]) == ("healthy", None)


def test_a_card_pulled_while_its_driver_ran_is_a_surprise_removal(guest: Guest) -> None:
    address = guest.in_service(1)
    guest.pull(1)
    root = diagnosed(guest)["root_cause"]
    assert root["id"] == "surprise_removal"
    assert root["address"] in (address, guest.port_address(1))


def test_a_bridge_without_a_bus_number_is_told_at_its_own_address(guest: Guest) -> None:
    well = guest.in_service(1)
    address = guest.plug(4, "x3130-upstream")
    guest.wait_for_log("No bus number available")
    data = diagnosed(guest)
    root = data["root_cause"]
    assert (root["id"], root["address"], root["slot"]) == ("bus_numbers_exhausted", address, "4")
    assert at_fault(data) == ["hardware"]
    neighbour_is_well(data, well)


def test_a_card_with_another_driver_says_which(guest: Guest) -> None:
    well = guest.in_service(1)
    address = guest.in_service(2)
    guest.run("modprobe pci-stub")
    guest.bind(address, "pci-stub")
    data = diagnosed(guest)
    root = data["root_cause"]
    assert (root["id"], root["address"], root["layer"]) == ("wrong_driver_bound", address, "driver")
    assert "pci-stub" in root["title"]
    assert (checked(data)["bars"], checked(data)["driver"]) == ("ok", "fault")
    assert at_fault(data) == ["driver"]
    neighbour_is_well(data, well)


def test_a_fatal_error_that_the_driver_gives_up_on_is_unrecovered(guest: Guest) -> None:
    well = guest.in_service(1)
    address = guest.plug(3, "e1000e", mac="52:54:00:12:34:57")
    guest.bind(address, "labaccel")
    guest.set_driver(fault="aer_disconnect")
    guest.aer(address, "fatal")
    guest.wait_for_log("device recovery failed")
    data = diagnosed(guest)
    root = data["root_cause"]
    assert (root["id"], root["address"], root["slot"]) == ("aer_uncorrectable_unrecovered", address, "3")
    assert any("device recovery failed" in line["text"] for line in root["evidence"])
    assert at_fault(data) == ["hardware"]
    neighbour_is_well(data, well)


def test_a_remove_that_hangs_is_told_by_its_stack_and_then_by_the_kernel(guest: Guest) -> None:
    well = guest.in_service(1)
    address = guest.in_service(3)
    guest.set_driver(fault="hang_remove")
    guest.start("echo 0 > /sys/bus/pci/slots/3/power")
    guest.wait_for_log("waiting for the device to finish its work")
    data = diagnosed(guest)
    root = data["root_cause"]
    assert (root["id"], root["address"], root["slot"]) == ("driver_hung_on_removal", address, "3")
    evidence = {line["text"]: line["source"] for line in root["evidence"]}
    assert evidence["runtime.remove_waits_in: labaccel_wait_for_device"].endswith("/stack")
    assert any("-pciehp)" in text for text in evidence)
    assert [found["id"] for found in data["findings"] if found["follows_from"] is None] == ["driver_hung_on_removal"]
    assert "labaccel_wait_for_device" in {c["name"]: c["because"] for c in data["checks"]}["driver"]
    assert at_fault(data) == ["driver"]
    neighbour_is_well(data, well)
    before = guest.read("/proc/sys/kernel/hung_task_timeout_secs").strip()
    guest.write("/proc/sys/kernel/hung_task_timeout_secs", "1")
    try:
        guest.wait_for_log("-pciehp:", 60)
    finally:
        guest.write("/proc/sys/kernel/hung_task_timeout_secs", before)
    data = diagnosed(guest)
    root = data["root_cause"]
    assert (root["id"], root["address"], root["confidence"]) == ("driver_hung_on_removal", address, "certain")
    assert any("blocked for more than" in line["text"] for line in root["evidence"])
    neighbour_is_well(data, well)


def test_a_drain_whose_unbind_hangs_leaves_a_write_that_tells_where(guest: Guest) -> None:
    address = guest.in_service(2)
    guest.set_driver(fault="hang_remove")
    script = Path(__file__).with_name("hung_write.py")
    guest.run(f"{sys.executable} {script} {address} 1", check=False)
    root = diagnosed(guest)["root_cause"]
    assert (root["id"], root["address"]) == ("driver_hung_on_removal", address)
    assert any("python" in line["text"] and "pid " in line["text"] for line in root["evidence"])


def test_a_remove_that_waits_for_users_names_them(guest: Guest) -> None:
    well = guest.in_service(1)
    address = guest.in_service(3)
    holder = hold(guest, node(guest, address))
    guest.set_driver(fault="busy_remove")
    guest.start("echo 0 > /sys/bus/pci/slots/3/power")
    guest.wait_for_log("still open")
    data = diagnosed(guest)
    root = data["root_cause"]
    assert (root["id"], root["address"], root["repair"]) == ("device_in_use", address, "release")
    assert any(f"pid {holder.pid} (sleep)" in line["text"] for line in root["evidence"])
    assert at_fault(data) == ["driver"]
    neighbour_is_well(data, well)


def test_a_process_with_the_node_of_the_card_before_has_a_stale_handle(guest: Guest) -> None:
    well = guest.in_service(1)
    address = guest.in_service(3)
    holder = hold(guest, node(guest, address))
    guest.run("echo 0 > /sys/bus/pci/slots/3/power")
    guest.wait(lambda: 3 not in guest.cards(), 20, "the card is out")
    assert guest.in_service(3) == address
    guest.start("touch /tmp/held; exec 7</tmp/held; rm /tmp/held; exec sleep 600")
    data = diagnosed(guest)
    root = data["root_cause"]
    assert (root["id"], root["address"], root["layer"]) == ("stale_device_handle", address, "application")
    assert [found["id"] for found in data["findings"]] == ["stale_device_handle"]
    assert f"pid {holder.pid} (sleep) has /dev/accel/accel1 open" in root["title"]
    assert at_fault(data) == ["application"]
    assert checked(data)["runtime"] == "ok", "the new card itself is well"
    neighbour_is_well(data, well)


def test_cards_that_come_after_ghosts_are_hidden_by_them_be_they_others_or_equal(guest: Guest) -> None:
    well = guest.in_service(1)
    ghosts = {slot: guest.in_service(slot) for slot in (2, 4)}
    for slot in ghosts:
        guest.ghost(slot)
        guest.wait_for_log(f"Slot({slot}): Already disabled")
    root = diagnosed(guest, "slot:2")["root_cause"]
    assert (root["id"], root["address"]) == ("ghost_device", ghosts[2])
    guest.run("dmesg -C")
    for slot, card in ((2, "e1000e"), (4, "edu")):
        guest.plug(slot, card, wait=False)
        guest.wait_for_log(f"Slot({slot}): Link Up")
    data = diagnosed(guest)
    root = data["root_cause"]
    standing = [(found["id"], found["address"], found["slot"])
                for found in data["findings"] if found["follows_from"] is None]
    assert sorted(standing) == [("ghost_device", address, str(slot)) for slot, address in ghosts.items()]
    assert (root["id"], root["address"], root["slot"]) == standing[0]
    assert at_fault(data) == ["hardware"]
    neighbour_is_well(data, well)
    guest.clean()
    for slot in ghosts:     # a new life, without which the next test finds these slots pulled
        guest.in_service(slot)


def test_an_oops_in_a_slot_s_thread_is_that_slot_s_and_no_other_card_s() -> None:
    with booted(Guest(shpchp=True)) as guest:
        well = guest.in_service(1)
        guest.plug(4, "pcie-pci-bridge", wait=False)
        guest.wait_for_log("exiting task", 30)
        data = diagnosed(guest)
        root = data["root_cause"]
        assert (root["id"], root["slot"]) == ("hotplug_thread_dead", "4")
        assert root["address"] in (guest.port_address(4), guest.address(4))
        assert at_fault(data) == ["hardware", "driver"], "it also has no bus number, which the crash came with"
        neighbour_is_well(data, well)
