# SPDX-License-Identifier: Apache-2.0
"""drain on the real kernel: out of service without losing work, never past a failed step, and back up to ready."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime

import pytest

from .draining import (
    EXIT,
    RECORDS,
    Background,
    begun,
    bound,
    drain,
    hold,
    node,
    nothing_is_left,
    on_the_bus,
    plugged,
    ready,
    undo,
)
from .guest import Guest

pytestmark = pytest.mark.lab
ROUNDS = int(os.environ.get("HOTPLUGCTL_ROUNDS", "5"))       # make soak: 50

# --- what it does -------------------------------------------------------------------------------------------------


def test_an_idle_card_is_drained_seen_as_such_everywhere_and_taken_back(guest: Guest) -> None:
    address = plugged(guest, 1)
    planned = drain(guest, "slot:1", "--dry-run")
    assert [step["do"] for step in planned["steps"]] == ["record", "announce", "unbind"]
    assert bound(guest, address), "a dry run changes nothing"
    assert guest.find(f"{RECORDS}/*.json") == []
    done = drain(guest, "slot:1", "--yes", "--reason", "ECC errors")
    assert (done["state"], [step["do"] for step in done["done"]]) == ("drained", ["record", "announce", "unbind"])
    assert done["safe_to_pull"]["value"] is False
    assert not bound(guest, address)
    assert guest.find("/dev/accel/*") == []
    [row] = guest.hotplugctl("list", "-o", "json").json()["data"]
    assert (row["state"], row["rung"], row["held"]["reason"]) == ("drained", "mapped", "ECC errors")
    assert guest.hotplugctl("diagnose", "-o", "json").json()["data"]["verdict"] == "healthy", "our own hold is no fault"
    assert drain(guest, "slot:1", "--yes")["done"] == [], "drained already: nothing to do"
    status = drain(guest, "--status")
    assert [(plan["state"], plan["devices"][0]["slot"]) for plan in status] == [("drained", "1")]
    back = undo(guest, 1)
    assert [step["do"] for step in back["done"]] == ["record", "bind", "ready", "forget"]
    assert drain(guest, "slot:1", "--undo")["done"] == [], "nothing is left to take back"


def test_a_held_card_is_refused_and_nothing_has_changed(guest: Guest) -> None:
    address = plugged(guest, 1)
    holder = hold(guest, node(guest, address))
    error = drain(guest, "slot:1", "--yes", code=EXIT["refused"])
    assert f"pid {holder.pid}" in error["what"]
    assert [blocker["lifted_by"] for blocker in error["blockers"]] == ["--timeout D, or --stop-holders"]
    assert "hotplugctl drain slot:1 --timeout" in error["hint"]
    assert bound(guest, address)
    nothing_is_left(guest)


def test_the_work_is_waited_for_and_the_card_goes_when_it_ends(guest: Guest) -> None:
    address = plugged(guest, 1)
    holder = hold(guest, node(guest, address))
    waiting = Background(guest, "slot:1", "--yes", "--timeout", "60s")
    begun(guest)
    time.sleep(2)
    assert waiting.running()
    assert bound(guest, address), "it waits"
    [row] = guest.hotplugctl("list", "-o", "json").json()["data"]
    assert row["state"] == "draining"
    holder.signal(15)
    result = waiting.result()
    assert result.status == 0, result.stderr
    assert "waiting for" in result.stderr
    assert f"pid {holder.pid}" in result.stderr
    assert not bound(guest, address)
    undo(guest, 1)


def test_when_the_time_is_up_it_says_how_to_go_on_and_how_to_go_back(guest: Guest) -> None:
    address = plugged(guest, 1)
    holder = hold(guest, node(guest, address))
    error = drain(guest, "slot:1", "--yes", "--timeout", "2s", code=EXIT["timeout"])
    assert f"pid {holder.pid}" in error["why"]
    assert "hotplugctl drain slot:1 --timeout 2s" in error["hint"]
    assert "hotplugctl drain slot:1 --undo" in error["hint"]
    assert bound(guest, address)
    holder.signal(15)
    assert drain(guest, "slot:1", "--yes", "--timeout", "30s")["state"] == "drained", "the same command goes on"
    undo(guest, 1)


def test_holders_are_asked_then_killed_when_that_is_wanted(guest: Guest) -> None:
    address = plugged(guest, 1)
    gentle = hold(guest, node(guest, address))
    deaf = hold(guest, node(guest, address), "trap '' TERM; while true; do sleep 1; done")
    planned = drain(guest, "slot:1", "--stop-holders", "--dry-run")
    told = [step["target"] for step in planned["steps"] if step["do"] == "stop"]
    assert {word for target in told for word in target.split()} >= {str(gentle.pid), str(deaf.pid)}
    result = guest.hotplugctl("drain", "slot:1", "--yes", "--stop-holders", "--grace", "2s", timeout=120)
    assert result.status == 0, result.stderr
    assert f"sent SIGTERM to pid {gentle.pid}" in result.stderr
    assert f"sent SIGKILL to pid {gentle.pid}" not in result.stderr
    assert f"sent SIGKILL to pid {deaf.pid}" in result.stderr
    assert not bound(guest, address)
    undo(guest, 1)


def test_a_driver_that_hangs_stops_the_drain_and_not_the_machine(guest: Guest) -> None:
    address = plugged(guest, 1)
    guest.set_driver(fault="hang_remove")
    began = time.monotonic()
    error = drain(guest, "slot:1", "--yes", "--power-off", code=EXIT["failed"])
    assert time.monotonic() - began < 60
    assert "unbind" in error["what"]
    assert "hangs in the kernel" in error["what"]
    assert error["stuck"]["pid"] > 0
    assert error["stuck"]["stack"], "where in the kernel it waits"
    assert [step["do"] for step in error["plan"]["steps"]] == ["unbind", "power", "light"], "nothing later was tried"
    assert "--undo" in error["hint"]
    guest.set_driver(fault="none")
    plugged(guest, 2)       # pciehp still works: only unbind hangs, and that holds no lock of others
    refused = drain(guest, "slot:1", "--yes", "--power-off", code=EXIT["failed"])
    assert refused["stuck"]["pid"] == error["stuck"]["pid"], "nothing was written a second time"
    guest.set_driver(release="Y")
    guest.wait(lambda: not bound(guest, address), 30, "the driver let go")
    done = drain(guest, "slot:1", "--yes", "--power-off")
    assert done["safe_to_pull"]["value"] is True
    assert not on_the_bus(guest, address)


def test_two_drains_of_one_card_exclude_each_other(guest: Guest) -> None:
    address = plugged(guest, 1)
    holder = hold(guest, node(guest, address))
    waiting = Background(guest, "slot:1", "--yes", "--timeout", "60s")
    begun(guest)
    error = drain(guest, "slot:1", "--undo", code=EXIT["refused"])
    assert "pid" in error["why"]
    assert "draining it" in error["why"]
    holder.signal(15)
    assert waiting.result().status == 0
    undo(guest, 1)


def test_off_the_bus_and_back_by_a_rescan(guest: Guest) -> None:
    address = plugged(guest, 1)
    done = drain(guest, "slot:1", "--yes", "--remove")
    assert not on_the_bus(guest, address)
    assert done["safe_to_pull"] == {"value": False, "because": "its slot is powered on: --power-off"}
    [row] = guest.hotplugctl("list", "-o", "json").json()["data"]
    assert (row["address"], row["slot"], row["state"]) == (None, "1", "drained")
    assert guest.hotplugctl("probe", address).status == EXIT["unknown"]
    back = drain(guest, address, "--undo")
    assert [step["do"] for step in back["done"]] == ["record", "light", "rescan", "ready", "forget"]
    ready(guest, 1)


def test_a_card_in_no_slot_is_removed_and_found_again(guest: Guest) -> None:
    address = plugged(guest, 1)
    port = guest.port_address(1)
    guest.run(f"echo {port}:pcie004 > /sys/bus/pci_express/drivers/pciehp/unbind")
    drain(guest, address, "--yes", "--remove")
    assert not on_the_bus(guest, address)
    assert len(drain(guest, "--status")) == 1
    back = drain(guest, address, "--undo")
    assert back["state"] == "ready"
    assert bound(guest, address)
    guest.run(f"echo {port}:pcie004 > /sys/bus/pci_express/drivers/pciehp/bind")


def test_a_card_that_is_gone_for_good_is_let_go_when_that_is_said(guest: Guest) -> None:
    plugged(guest, 1)
    drain(guest, "slot:1", "--yes")
    guest.pull(1)
    error = drain(guest, "slot:1", "--undo", code=EXIT["failed"])
    assert "slot 1 is empty" in error["what"]
    assert "--undo --yes" in error["hint"]
    drain(guest, "slot:1", "--undo", "--yes")
    nothing_is_left(guest)


def test_powered_off_it_may_be_pulled_and_an_equal_card_takes_its_place_again(guest: Guest) -> None:
    address = plugged(guest, 1)
    done = drain(guest, "slot:1", "--yes", "--power-off")
    assert done["safe_to_pull"]["value"] is True
    assert not on_the_bus(guest, address)
    assert guest.read("/sys/bus/pci/slots/1/power").strip() == "0"
    error = drain(guest, "slot:1", "--undo", code=EXIT["failed"])
    assert "empty" in error["what"], "QEMU takes the card with the power"
    assert "put the card in" in error["hint"]
    guest.plug(1, "edu")
    undo(guest, 1)


def test_a_service_that_holds_every_card_is_stopped_and_started_again(guest: Guest) -> None:
    """systemd is not in the guest: a script stands in for systemctl, and a process for the service."""
    address = plugged(guest, 1)
    guest.run("mkdir -p /usr/local/sbin; cat > /usr/local/sbin/systemctl; chmod 755 /usr/local/sbin/systemctl", stdin=(
        "#!/bin/sh\ncase $1 in is-active) test -e /run/unit;; stop) rm -f /run/unit;; start) touch /run/unit;; esac\n"))
    profile = "/etc/hotplugctl/vendors.d/lab.yaml"
    before = guest.read(profile)
    guest.write(profile, before.rstrip("\n") + '\nquiesce: [{unit: exporter, why: "reads every card"}]\n')
    guest.run("touch /run/unit")
    done = drain(guest, "slot:1", "--yes")
    assert [step["do"] for step in done["done"]] == ["record", "announce", "quiesce", "unbind"]
    assert not bound(guest, address)
    assert guest.find("/run/unit") == []
    back = undo(guest, 1)
    assert "start" in [step["do"] for step in back["done"]]
    assert guest.find("/run/unit") != []
    guest.write(profile, before)
    guest.run("rm -f /usr/local/sbin/systemctl /run/unit")


def test_who_opens_a_card_while_another_is_unbound_keeps_it(guest: Guest) -> None:
    plugged(guest, 1)
    second = plugged(guest, 2)
    guest.set_driver(fault="hang_remove")
    draining = Background(guest, "slot:1", "slot:2", "--yes")
    begun(guest)
    guest.wait(lambda: guest.find("/run/hotplugctl/writes/*.json"), 40, "the first card is being unbound")
    path = node(guest, second)
    hold(guest, path)
    guest.set_driver(fault="none", release="Y")
    result = draining.result()
    assert result.status == EXIT["refused"], result.stderr
    assert bound(guest, second), "it was looked at again right before"
    assert "--undo" in result.stderr


def test_several_devices_are_one_plan(guest: Guest) -> None:
    addresses = [plugged(guest, 1), plugged(guest, 2)]
    done = drain(guest, "slot:1", "slot:2", "--yes")
    assert done["device"] is None
    assert [device["state"] for device in done["devices"]] == ["drained", "drained"]
    assert [step["do"] for step in done["done"]] == ["record"] * 2 + ["announce"] * 2 + ["unbind"] * 2
    assert not any(bound(guest, address) for address in addresses)
    drain(guest, "all", "--undo")
    ready(guest, 1)
    ready(guest, 2)


def test_hooks_run_and_only_the_check_may_veto(guest: Guest) -> None:
    plugged(guest, 1)
    bodies = {"check": "exit 0", "pre": "cat > /run/seen-pre", "post": "exit 3", "undo": "touch /run/seen-undo"}
    for kind, body in bodies.items():
        guest.run(f"mkdir -p /etc/hotplugctl/hooks.d/drain-{kind} && printf '#!/bin/sh\\n{body}\\n' "
                  f"> /etc/hotplugctl/hooks.d/drain-{kind}/one && chmod +x /etc/hotplugctl/hooks.d/drain-{kind}/one")
    result = guest.hotplugctl("drain", "slot:1", "--yes")
    assert result.status == 0, result.stderr
    assert "drain-post/one: exit 3" in result.stderr
    assert json.loads(guest.read("/run/seen-pre"))["schema"] == "hotplugctl.plan/1"
    undo(guest, 1)
    assert guest.find("/run/seen-undo") != []
    guest.run("printf '#!/bin/sh\\necho the rack is busy >&2; exit 1\\n' > /etc/hotplugctl/hooks.d/drain-check/one")
    error = drain(guest, "slot:1", "--yes", code=EXIT["refused"])
    assert "the rack is busy" in error["why"]
    nothing_is_left(guest)


def test_what_a_drain_adds_to_the_bare_writes_is_measured_from_the_end_of_the_last_holder(guest: Guest) -> None:
    address = plugged(guest, 1)
    device = f"/sys/bus/pci/devices/{address}"
    bare = int(guest.run(
        f"t=$(date +%s%N); echo {address} > {device}/driver/unbind; echo 0 > /sys/bus/pci/slots/1/power; "
        "echo $(($(date +%s%N) - t))").stdout) / 1e9
    plugged(guest, 1)
    holder = hold(guest, node(guest, address))
    draining = Background(guest, "slot:1", "--yes", "--power-off", "--timeout", "60s", "-o", "json")
    begun(guest)
    time.sleep(3)
    ended = int(guest.run(f"t=$(date +%s%N); kill -9 {holder.pid}; echo $t").stdout) / 1e9
    done = draining.result().json()["data"]["done"]
    off = next(step for step in done if step["do"] == "power")
    assert [step["do"] for step in done] == ["record", "announce", "wait", "unbind", "power", "light"]
    whole = datetime.fromisoformat(off["at"]).timestamp() + off["took_s"] - ended
    assert whole > 0
    print(f"\nfrom the end of the last holder to a powered-off slot {whole:.2f} s, the bare writes {bare:.2f} s: "
          f"it adds {whole - bare:.2f} s, {(whole - bare) / bare:.2f} of them (at most 3)")


# --- crashes, and ways back ---------------------------------------------------------------------------------------


# Of the twelve records that a drain off the bus writes: those that fall into the middle of a step (it is recorded, and
# has not acted), and those right after one. make soak takes every one.
WRITES = 12
EVERY = tuple(range(1, WRITES + 1))
MIDDLES, ENDS = (EVERY, EVERY) if ROUNDS > 5 else ((1, 2, 5, 8, 11), (1, 3, 6, 9, 12))


def killed_at(guest: Guest, number: int, *words: str) -> None:
    """Run a drain that is killed right after its record of that number."""
    result = guest.hotplugctl("drain", *words, timeout=60, env={"HOTPLUGCTL_LAB_DIES_AT": str(number)})
    assert result.status == -9, f"record {number}: {result.stderr}"


def test_killed_at_every_step_the_same_command_finishes(guest: Guest) -> None:
    address = plugged(guest, 1)
    words = ("slot:1", "--yes", "--remove")
    for number in MIDDLES:
        killed_at(guest, number, *words)
        done = drain(guest, *words)
        assert done["state"] == "drained", number
        assert not on_the_bus(guest, address), number
        undo(guest, 1)


def test_there_are_so_many_records_to_be_killed_at(guest: Guest) -> None:
    plugged(guest, 1)
    result = guest.hotplugctl("drain", "slot:1", "--yes", "--remove", env={"HOTPLUGCTL_LAB_DIES_AT": str(WRITES + 1)})
    assert result.status == 0, "no step writes a record that the tests above and below know nothing of"


def test_undone_after_every_prefix_of_its_steps_the_card_is_ready_again(guest: Guest) -> None:
    plugged(guest, 1)
    for number in ENDS:
        killed_at(guest, number, "slot:1", "--yes", "--power-off")
        if 1 not in guest.cards():
            guest.plug(1, "edu")
        undo(guest, 1)


def test_rounds_leave_nothing_behind(guest: Guest) -> None:
    address = plugged(guest, 1)
    before = guest.run("ls /run/hotplugctl /var/lib/hotplugctl 2>/dev/null; ls /dev/accel").stdout
    for number in range(ROUNDS):
        drain(guest, "slot:1", "--yes")
        assert not bound(guest, address), number
        undo(guest, 1)
    assert guest.run("ls /dev/accel").stdout in before
    nothing_is_left(guest)


def test_a_reboot_voids_the_kernels_part_and_the_record_says_so(guest: Guest) -> None:
    """The guest's disk does not outlive it: another boot is written into the record."""
    address = plugged(guest, 1)
    drain(guest, "slot:1", "--yes")
    guest.run(f"sed -i 's/\"boot_id\": \"[^\"]*\"/\"boot_id\": \"another\"/' {RECORDS}/*.json")
    back = drain(guest, "slot:1", "--undo")
    assert [step["do"] for step in back["done"]] == ["forget"], "what another kernel did is not taken back in this one"
    assert not bound(guest, address)
    guest.run(f"echo {address} > /sys/bus/pci/drivers/labaccel/bind")
    ready(guest, 1)


# --- last: QEMU lets no card out of this slot, and the guest is not used again -------------------------------------


def test_a_port_without_a_power_controller_is_taken_off_the_bus_instead(guest: Guest) -> None:
    address = plugged(guest, 5)
    planned = drain(guest, "slot:5", "--power-off", "--dry-run")
    assert [step["do"] for step in planned["steps"]][:4] == ["record", "announce", "unbind", "remove"]
    assert any("no power controller" in warning for warning in planned["warnings"])
    done = drain(guest, "slot:5", "--yes", "--power-off")
    assert not on_the_bus(guest, address)
    assert guest.read("/sys/bus/pci/slots/5/power").strip() == "1", "which is no proof of anything"
    assert done["safe_to_pull"]["value"] is True
    assert "surprise" in done["safe_to_pull"]["because"]
    undo(guest, 5)


def test_a_slot_of_the_firmware_is_switched_off_and_on(acpi_guest: Guest) -> None:
    address = acpi_guest.plug(1, "edu")
    acpi_guest.wait(lambda: bound(acpi_guest, address), 30, "it is bound")
    name = acpi_guest.hotplugctl("list", "-o", "json").json()["data"][0]["slot"]
    done = drain(acpi_guest, f"slot:{name}", "--yes", "--power-off")
    assert not on_the_bus(acpi_guest, address)
    assert done["safe_to_pull"]["value"] is True
    acpi_guest.plug(1, "edu")
    drain(acpi_guest, f"slot:{name}", "--undo")
    acpi_guest.wait(lambda: bound(acpi_guest, address), 30, "it is back")
