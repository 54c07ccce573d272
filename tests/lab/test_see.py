# SPDX-License-Identifier: Apache-2.0
"""list and probe on the real kernel: each way a card can stand, live and from a bundle captured at that moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hotplugctl.host.opening import open_host

from .guest import Guest

pytestmark = pytest.mark.lab

EDU = "0000:01:00.0"


def listed(guest: Guest, slot: int) -> dict[str, Any]:
    """The row of `list` for a slot."""
    rows = guest.hotplugctl("list", "-o", "json").json()["data"]
    return next(row for row in rows if row["slot"] == str(slot))


def slots(guest: Guest) -> dict[str, dict[str, Any]]:
    """`list --slots` by name."""
    return {row["name"]: row for row in guest.hotplugctl("list", "--slots", "-o", "json").json()["data"]}


def without_time(document: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on the second in which it was asked."""
    return {key: value for key, value in document.items() if key not in ("taken_at", "tool")}


@pytest.fixture
def same_from_a_bundle(guest: Guest, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Probe live with --redact and --capture, then the bundle; both must say the same. Returns what they say."""

    def check(word: str) -> dict[str, Any]:
        guest.run("rm -rf /root/bundle.tar.gz")
        live = guest.hotplugctl("probe", word, "--redact", "--capture", "/root/bundle.tar.gz", "-o", "json").json()
        bundle = tmp_path / "bundle.tar.gz"
        bundle.write_bytes(guest.fetch("/root/bundle.tar.gz"))
        inside = guest.hotplugctl("probe", word, "--root", "/root/bundle.tar.gz", "-o", "json").json()
        assert without_time(inside) == without_time(live)
        host = open_host(str(bundle))
        assert host.redacted
        assert host.name == live["host"] != guest.run("hostname").stdout.strip()
        data: dict[str, Any] = live["data"]
        return data

    return check


def test_a_card_with_its_driver_is_ready(guest: Guest, same_from_a_bundle: Callable[..., dict[str, Any]]) -> None:
    guest.plug(1, "edu")
    guest.wait(lambda: listed(guest, 1)["state"] == "ready", 20, "the card is ready")
    row = listed(guest, 1)
    assert (row["profile"], row["address"], row["missing"], row["sure"]) == ("lab", guest.address(1), None, True)
    assert row["driver"]["name"] == "labaccel"
    (node,) = row["nodes"]
    assert (node["path"], node["major"], node["owner"]) == ("/dev/accel/accel0", 261, "root")
    assert [bar["size"] for bar in row["bars"]] == [1 << 20]
    assert row["link"] is None, "edu is conventional PCI"
    probed = same_from_a_bundle("slot:1")
    assert probed["state"] == "ready"
    assert probed["upstream"][-1]["address"] == guest.port_address(1)


def test_missing_firmware_keeps_a_card_below_bound_with_the_kernel_s_reason(
    guest: Guest, same_from_a_bundle: Callable[..., dict[str, Any]]
) -> None:
    guest.set_driver(fault="firmware_missing")
    guest.plug(2, "edu")
    guest.wait(lambda: "firmware load" in str(listed(guest, 2)["missing"]), 20, "the driver gave up")
    row = listed(guest, 2)
    assert (row["state"], row["rung"], row["driver"], row["sure"]) == ("mapped", "mapped", None, True)
    assert row["missing"].startswith("bound: no driver is bound (expected labaccel); kernel: Direct firmware load for")
    assert row["missing"].endswith("failed with error -2")
    assert same_from_a_bundle("slot:2")["missing"] == row["missing"]


def test_an_empty_slot_and_one_that_is_off(
    guest: Guest, same_from_a_bundle: Callable[..., dict[str, Any]]
) -> None:
    guest.plug(1, "edu")
    guest.run("echo 0 > /sys/bus/pci/slots/1/power", timeout=30)
    seen = slots(guest)
    assert [(seen[name]["presence"], seen[name]["addresses"]) for name in ("1", "2")] == [(False, []), (False, [])]
    assert seen["1"]["power"] == "off"
    assert seen["1"]["hotplug"]["driver"] == "pciehp"
    assert seen["1"]["port"] == guest.port_address(1)
    assert guest.hotplugctl("list", "-o", "json").json()["data"] == []
    probed = same_from_a_bundle("slot:2")
    assert (probed["state"], probed["address"], probed["upstream"][-1]["address"]) == (
        "absent", None, guest.port_address(2))


def test_a_port_without_a_power_controller_says_that_it_has_none(guest: Guest) -> None:
    seen = slots(guest)
    assert [seen[name]["hotplug"]["power_controller"] for name in ("1", "5")] == [True, False]


def test_a_card_that_fell_off_the_bus_has_failed(
    guest: Guest, same_from_a_bundle: Callable[..., dict[str, Any]]
) -> None:
    guest.plug(1, "edu")
    guest.wait(lambda: listed(guest, 1)["state"] == "ready", 20, "the card is ready")
    guest.fall_off_the_bus(1)
    row = listed(guest, 1)
    assert (row["state"], row["rung"]) == ("failed", "failed")
    assert "all ones" in row["missing"]
    assert same_from_a_bundle("slot:1")["state"] == "failed"


def test_an_e1000e_shows_link_limit_counters_and_serial_and_is_not_called_narrow(
    guest: Guest, same_from_a_bundle: Callable[..., dict[str, Any]]
) -> None:
    guest.plug(3, "e1000e", mac="52:54:00:12:34:56")
    guest.wait(lambda: listed(guest, 3)["state"] == "ready", 20, "the card is ready")
    row = listed(guest, 3)
    assert row["link"] == {
        "speed_gts": 2.5, "width": 1, "max_speed_gts": 2.5, "max_width": 1, "limit_speed_gts": 2.5, "limit_width": 1,
        "limited_by": "card",
    }
    assert row["errors"] == {"correctable": 0, "nonfatal": 0, "fatal": 0}
    assert row["serial"].startswith("52-54-00")
    assert row["notes"] == []
    guest.run("modprobe aer_inject")
    guest.aer(guest.address(3), "correctable")
    guest.wait(lambda: listed(guest, 3)["errors"]["correctable"] == 1, 20, "the counter moved")
    assert [note["id"] for note in listed(guest, 3)["notes"]] == ["aer-correctable"]
    probed = same_from_a_bundle("slot:3")
    assert probed["serial"] == {"unknown": "zeroed by redaction", "kind": "not_captured"}
    names = {capability["name"] for capability in probed["capabilities"]}
    assert {"PCI Express", "Advanced Error Reporting", "Device Serial Number"} <= names


def test_a_bar_that_does_not_fit_leaves_the_card_identified_with_mapped_missing(
    guest: Guest, same_from_a_bundle: Callable[..., dict[str, Any]]
) -> None:
    guest.plug(4, "pci-testdev", membar=64 << 30)
    row = listed(guest, 4)
    assert (row["state"], row["sure"]) == ("identified", True)
    assert row["missing"].startswith("mapped: BAR 2 (64 GiB) has no address; kernel: BAR 2 [mem size 0x1000000000")
    lost = next(bar for bar in row["bars"] if bar["index"] == 2)
    assert (lost["size"], lost["address"], lost["assigned"]) == (64 << 30, None, False)
    assert same_from_a_bundle("slot:4")["missing"] == row["missing"]
    room = guest.hotplugctl("probe", "slot:4", "--fits", "1M,64G", "-o", "json").json()["data"]["room"]
    assert room["fits"][str(1 << 20)] is True
    assert room["fits"][str(64 << 30)]["kind"] == "io"


def test_a_held_node_names_its_holder(guest: Guest) -> None:
    guest.plug(1, "edu")
    guest.wait(lambda: listed(guest, 1)["state"] == "ready", 20, "the card is ready")
    job = guest.start("exec sleep 600 < /dev/accel/accel0")
    data = guest.wait(
        lambda: guest.hotplugctl("probe", "slot:1", "-o", "json").json()["data"]["holders"], 20, "a holder is seen")
    holder = data[0]
    assert (holder["command"], holder["user"], holder["via"], holder["node"]) == (
        "sleep", "root", "fd", "/dev/accel/accel0")
    assert str(holder["pid"]) in holder["release"]
    job.signal(9)


def test_the_locate_light_blinks_and_goes_out(guest: Guest) -> None:
    attention = "/sys/bus/pci/slots/1/attention"
    for word, value in (("on", "2"), ("off", "0")):
        assert guest.hotplugctl("probe", "slot:1", "--locate", word).status == 0
        assert guest.read(attention).strip() == value


def test_a_slot_without_hot_plug_lines_is_seen_under_acpi_too(acpi_guest: Guest) -> None:
    acpi_guest.plug(1, "edu")
    acpi_guest.wait(lambda: bool(acpi_guest.hotplugctl("list", "-o", "json").json()["data"]), 20, "the card is there")
    (row,) = acpi_guest.hotplugctl("list", "-o", "json").json()["data"]
    assert row["state"] == "ready"
    assert row["slot"] is not None
    seen = slots(acpi_guest)[row["slot"]]
    assert (seen["hotplug"]["driver"], seen["addresses"]) == ("acpiphp", [row["address"]])
    located = acpi_guest.hotplugctl("probe", f"slot:{row['slot']}", "--locate", "on")
    assert located.status in (3, 7), "ACPI slots have no light to blink"


def test_a_person_reads_the_same_in_a_table(guest: Guest) -> None:
    guest.plug(4, "pci-testdev", membar=64 << 30)
    guest.plug(1, "edu")
    guest.wait(lambda: listed(guest, 1)["state"] == "ready", 20, "the card is ready")
    text = guest.hotplugctl("list").stdout
    for part in (guest.address(1), "edu", "ready", "labaccel", "/dev/accel/accel0", "identified", "has no address"):
        assert part in text
    assert json.loads(guest.hotplugctl("list", "-o", "jsonl").stdout.splitlines()[0])["schema"] == "hotplugctl.device/1"
