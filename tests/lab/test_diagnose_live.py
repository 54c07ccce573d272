# SPDX-License-Identifier: Apache-2.0
"""Real failures on the real kernel, diagnosed live and from a capture of the same guest: same answer, right answer."""

from __future__ import annotations

from typing import Any

import pytest

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
    return (data["verdict"], root.get("id"), root.get("address"), root.get("slot"), root.get("evidence"),
            [finding["id"] for finding in data["findings"]])


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
])
def test_a_failing_probe_is_named_by_what_the_driver_answered(guest: Guest, fault: str, cause: str, says: str) -> None:
    guest.set_driver(fault=fault)
    guest.plug(3, "edu")
    guest.wait(lambda: says in guest.dmesg(), 40, "the driver gave up")
    root = diagnosed(guest, "slot:3")["root_cause"]
    assert (root["id"], root["address"]) == (cause, guest.address(3))
    assert any(says in line["text"] for line in root["evidence"])


def test_a_card_that_fell_off_the_bus_is_inaccessible(guest: Guest) -> None:
    guest.plug(1, "edu")
    guest.wait(lambda: "/dev/accel/accel0" in guest.run("ls /dev/accel/*", check=False).stdout, 20, "the node is there")
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
    address = guest.plug(1, "edu")
    guest.wait(lambda: "/dev/accel/accel0" in guest.run("ls /dev/accel/*", check=False).stdout, 20, "the node is there")
    guest.pull(1)
    root = diagnosed(guest)["root_cause"]
    assert root["id"] == "surprise_removal"
    assert root["address"] in (address, guest.port_address(1))
