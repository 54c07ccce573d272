"""The ladder, walked on built machines: each rung, and every way to be stuck on one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hotplugctl.lifecycle import Facts, HealthRecord, human_size, human_time, kernel_says, stand
from hotplugctl.model import Held, Kind, LogLine, Profile, State, Unknown

from .machine import LATCH_OPEN, POWER_FAULT, MachineTree


def healthy(machine: MachineTree, *, age: float = 0.0, passed: bool = True, boot: str | None = None) -> None:
    """Remember a health check of the card at 0000:01:00.0."""
    machine.put("/run/hotplugctl/handshake/0000:01:00.0.json", json.dumps({
        "address": "0000:01:00.0", "serial": None, "driver": "labaccel", "time": -age, "passed": passed,
        "boot_id": boot or "11111111-2222-3333-4444-555555555555", "said": "passed" if passed else "HBM is bad",
    }))


def test_a_card_with_everything_is_ready_and_lacks_nothing(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    healthy(machine)
    device = machine.device()
    assert (device.state, device.missing, device.sure) == (State.READY, None, True)


def test_without_a_health_check_a_card_is_initialised_and_nobody_is_sure(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    device = machine.device()
    assert (device.state, device.sure) == (State.INITIALISED, False)
    assert device.missing == "ready: its health check has not run since it came up"


@pytest.mark.parametrize(("record", "missing", "sure"), [
    ({"age": 720.0}, "ready: its last health check is 12 min old", False),
    ({"boot": "99999999-0000-0000-0000-000000000000"}, "ready: its health check has not run since it came up", False),
    ({"passed": False}, "ready: its health check failed: HBM is bad", True),
])
def test_a_health_record_counts_only_while_it_is_young_current_and_passed(
    machine: MachineTree, record: dict[str, object], missing: str, sure: bool
) -> None:
    machine.port()
    machine.card()
    healthy(machine, **record)  # type: ignore[arg-type]
    device = machine.device()
    assert (device.state, device.missing, device.sure) == (State.INITIALISED, missing, sure)


@pytest.mark.parametrize(("card", "state", "missing"), [
    ({"lost_bar": True}, State.IDENTIFIED, "mapped: BAR 0 has no address"),
    ({"driver": None}, State.MAPPED, "bound: no driver is bound (expected labaccel)"),
    ({"driver": "nouveau"}, State.MAPPED, "bound: nouveau has it, expected labaccel"),
    ({"status": "booting"}, State.BOUND, "initialised: status is 'booting', not 'operational'"),
    ({"node": False}, State.BOUND, "initialised: it has no device node"),
    ({"group": "root"}, State.BOUND, "initialised: /dev/accel/accel0 belongs to group root, expected render"),
    ({"driver": "vfio-pci"}, State.BOUND, "initialised: handed to a VM"),
])
def test_a_card_that_lacks_a_rung_stands_on_the_one_before_and_says_what_is_missing(
    machine: MachineTree, card: dict[str, object], state: State, missing: str
) -> None:
    machine.port()
    machine.card(**card)  # type: ignore[arg-type]
    device = machine.device()
    assert (device.state, device.missing, device.sure) == (state, missing, True)


def test_a_node_open_to_everybody_needs_no_group(machine: MachineTree) -> None:
    machine.port()
    machine.card(group="root", mode="0666")
    assert machine.device().state is State.INITIALISED


def test_lazy_readiness_waives_the_firmware_but_not_the_nodes(machine: MachineTree) -> None:
    machine.port()
    machine.card(status="booting")
    assert machine.device(readiness="lazy").state is State.INITIALISED
    machine.port("0000:00:02.0", slot="2", bus=2)
    machine.card("0000:02:00.0", under="0000:00:02.0", status="booting", node=False)
    assert machine.device("0000:02:00.0", readiness="lazy").state is State.BOUND


def test_a_card_that_reads_all_ones_has_failed(machine: MachineTree) -> None:
    machine.port()
    machine.card(dead=True)
    device = machine.device()
    assert (device.state, device.rung) == (State.FAILED, State.FAILED)
    assert device.missing == "it has fallen off the bus: config space reads all ones"


def test_a_sleeping_card_is_not_taken_for_a_dead_one(machine: MachineTree) -> None:
    machine.port()
    machine.card(dead=True, power_state="D3cold")
    device = machine.device()
    assert device.state is not State.FAILED
    assert isinstance(device.link, Unknown)
    assert device.link.kind is Kind.ASLEEP


def test_a_virtual_function_reads_all_ones_by_design_and_has_not_failed(machine: MachineTree) -> None:
    from hotplugctl import probe

    machine.port()
    here = machine.card(dead=True)
    machine.link(f"{here}/physfn", "../0000:01:00.1")
    assert machine.devices() == {}, "virtual functions fold under their physical one"
    (device,) = probe.machine(machine.look(), wide=True).devices
    assert device.state is not State.FAILED


@pytest.mark.parametrize(("port", "why"), [
    ({"status": POWER_FAULT}, "the slot reports a power fault"),
    ({"status": LATCH_OPEN}, "the slot's latch is open"),
    ({"powered": False}, "the slot's power is off"),
    ({}, "the link is up and nothing answers at it"),
])
def test_a_card_that_only_the_slot_sees_is_a_row_with_the_port_s_reason(
    machine: MachineTree, port: dict[str, object], why: str
) -> None:
    machine.port(**port)  # type: ignore[arg-type]
    device = machine.devices()["slot:1"]
    assert (device.address, device.state) == (None, State.DETECTED)
    assert device.missing == f"identified: the slot has a card that the bus does not show; {why}"


def test_a_port_whose_registers_cannot_be_read_gives_no_reason(machine: MachineTree) -> None:
    machine.port()
    config = machine.root / machine.paths["0000:00:01.0"].lstrip("/") / "config"
    config.write_bytes(config.read_bytes()[:64])  # what anybody may read
    assert "needs root" in str(machine.devices()["slot:1"].missing)


def test_the_kernel_s_reason_is_the_last_one_since_the_card_was_enumerated(machine: MachineTree) -> None:
    machine.port()
    machine.card(driver=None)
    machine.kmsg(
        "labaccel 0000:01:00.0: probe with driver labaccel failed with error -110",
        "pci 0000:01:00.0: [1234:11e8] type 00 class 0x00ff00 conventional PCI endpoint",
        "labaccel 0000:01:00.0: Direct firmware load for labaccel/fw.bin failed with error -2",
        "labaccel 0000:01:00.0: probe with driver labaccel failed with error -2",
        "labaccel 0000:02:00.0: probe with driver labaccel failed with error -5",
    )
    assert machine.device().missing == (
        "bound: no driver is bound (expected labaccel); "
        "kernel: Direct firmware load for labaccel/fw.bin failed with error -2"
    )


def test_a_lost_bar_has_the_size_that_only_the_log_knows(machine: MachineTree) -> None:
    machine.port()
    machine.card(lost_bar=True, driver=None)
    machine.kmsg("pci 0000:01:00.0: BAR 0 [mem size 0x1000000000 64bit pref]: can't assign; no space")
    device = machine.device()
    assert isinstance(device.bars, tuple)
    assert device.bars[0].size == 64 << 30
    assert device.missing == (
        "mapped: BAR 0 (64 GiB) has no address; "
        "kernel: BAR 0 [mem size 0x1000000000 64bit pref]: can't assign; no space"
    )


def test_a_hold_hides_the_state_and_keeps_the_rung(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    facts = Facts(device=machine.device(), profile=machine.profiles[0], held=Held("drain", "2026-11-29T00:00:00Z", ""))
    facts = replace(facts, firmware="operational", health=HealthRecord(True, 1.0, True))
    assert (stand(facts).state, stand(facts).rung) == (State.DRAINING, State.READY)
    assert stand(replace(facts, hold_complete=True)).state is State.DRAINED


def test_what_could_not_be_looked_at_stops_the_climb_and_is_said(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    profile: Profile = machine.profiles[0]
    denied = Unknown("permission denied", Kind.DENIED)
    for name, rung in (("bars", State.IDENTIFIED), ("driver", State.MAPPED), ("nodes", State.BOUND)):
        device = replace(machine.device(), **{name: denied})
        standing = stand(Facts(device=device, profile=profile, firmware="operational"))
        assert (standing.rung, standing.sure) == (rung, False)
        assert "permission denied" in str(standing.missing)


def test_lines_about_another_device_say_nothing_of_this_one() -> None:
    line = LogLine("k", 1, "labaccel 0000:02:00.0: probe with driver labaccel failed with error -5",
                   address="0000:02:00.0")
    assert kernel_says([line], "0000:01:00.0") == {}


def test_sizes_and_ages_read_as_people_say_them() -> None:
    assert [human_size(n) for n in (0, 512, 1 << 20, 64 << 30)] == ["0 B", "512 B", "1 MiB", "64 GiB"]
    assert [human_time(s) for s in (5, 720, 7200, 200_000)] == ["5 s", "12 min", "2 h", "2 days"]
