"""What of a live kernel log is about the machine as it is now: cards that left take their verdicts with them."""

from __future__ import annotations

from dataclasses import replace

from hotplugctl import diagnose, probe
from hotplugctl.model import Diagnosis
from hotplugctl.readers import logs
from hotplugctl.rules import load

from .machine import MachineTree

PORT = "pcieport 0000:00:01.0: pciehp: Slot(1):"
PLUGGED = [f"{PORT} Card present", f"{PORT} Link Up"]
ENUMERATED = "pci 0000:01:00.0: [1234:11e8] type 00 class 0x120000 PCIe Endpoint"
FAILED = [ENUMERATED, "labaccel 0000:01:00.0: Direct firmware load for labaccel/fw.bin failed with error -2",
          "labaccel 0000:01:00.0: probe with driver labaccel failed with error -2"]
TIMED_OUT = [ENUMERATED, "labaccel 0000:01:00.0: probe with driver labaccel failed with error -110"]
BUTTON = [f"{PORT} Button press: will power off in 5 sec"]
PULLED = [f"{PORT} Link Down", f"{PORT} Card not present"]


def diagnosed(machine: MachineTree, *lines: str, named: tuple[str, ...] = ()) -> Diagnosis:
    machine.kmsg(*lines)
    seen = machine.look()
    log = logs.kernel(machine.host)
    assert isinstance(log, tuple)
    whole = replace(probe.machine(seen, close=True), logs=log)
    return diagnose.diagnose(whole, load.rules(), load.taxonomy(), machine.profiles, named=named, live=True)


def root(found: Diagnosis) -> str | None:
    return found.root_cause.id if found.root_cause else None


def empty_slot(machine: MachineTree) -> MachineTree:
    machine.port(present=False)
    return machine


def card_without_driver(machine: MachineTree) -> MachineTree:
    machine.port()
    machine.card(driver=None)
    return machine


def test_a_failure_of_a_card_that_was_taken_out_in_order_is_history(machine: MachineTree) -> None:
    assert root(diagnosed(empty_slot(machine), *PLUGGED, *FAILED, *BUTTON)) is None


def test_a_failure_of_a_card_that_left_without_a_line_is_history(machine: MachineTree) -> None:
    assert root(diagnosed(empty_slot(machine), *PLUGGED, *FAILED)) is None


def test_what_a_port_said_of_its_card_s_recovery_leaves_with_the_card(machine: MachineTree) -> None:
    for word in ("AER", "DPC", "EDR"):
        failed = f"pcieport 0000:00:01.0: {word}: device recovery failed"
        assert root(diagnosed(empty_slot(machine), *PLUGGED, ENUMERATED, failed)) is None
        assert "aer_uncorrectable_unrecovered" in {
            found.id for found in diagnosed(machine, *PLUGGED, ENUMERATED, failed, *PULLED).findings
        }, "not with one that fell out of the slot"


def test_a_card_that_is_off_the_bus_and_still_in_its_slot_has_not_left(machine: MachineTree) -> None:
    machine.port(present=True)
    failed = "pcieport 0000:00:01.0: AER: device recovery failed"
    assert root(diagnosed(machine, *PLUGGED, ENUMERATED, failed)) == "aer_uncorrectable_unrecovered"


def test_an_empty_slot_that_was_asked_about_is_empty_whatever_was_in_it(machine: MachineTree) -> None:
    found = diagnosed(empty_slot(machine), *PLUGGED, *FAILED, *BUTTON, named=("slot:1",))
    assert found.root_cause is not None
    assert (found.root_cause.id, found.root_cause.address) == ("slot_empty", "0000:00:01.0")
    assert [f.id for f in found.findings] == ["slot_empty"]


def test_a_card_that_is_gone_can_still_be_asked_about_by_its_address(machine: MachineTree) -> None:
    found = diagnosed(empty_slot(machine), *PLUGGED, *FAILED, *BUTTON, named=("0000:01:00.0",))
    assert "firmware_missing" in [f.id for f in found.findings]


def test_what_counts_of_a_card_is_its_last_coming(machine: MachineTree) -> None:
    assert root(diagnosed(card_without_driver(machine), *PLUGGED, *FAILED, *BUTTON, *PLUGGED, *TIMED_OUT)) == (
        "device_boot_timeout")


def test_naming_a_card_that_is_there_does_not_bring_its_past_back(machine: MachineTree) -> None:
    lines = [*PLUGGED, *FAILED, *BUTTON, *PLUGGED, *TIMED_OUT]
    assert root(diagnosed(card_without_driver(machine), *lines, named=("0000:01:00.0",))) == "device_boot_timeout"


def test_a_card_pulled_by_surprise_is_a_finding_while_its_slot_is_empty(machine: MachineTree) -> None:
    assert root(diagnosed(empty_slot(machine), *PLUGGED, ENUMERATED, *PULLED)) == "surprise_removal"


def test_a_surprise_is_history_once_another_card_came_up_in_the_slot(machine: MachineTree) -> None:
    found = diagnosed(card_without_driver(machine), *PLUGGED, ENUMERATED, *PULLED, *PLUGGED, *TIMED_OUT)
    assert root(found) == "device_boot_timeout"
    assert "surprise_removal" not in [f.id for f in found.findings]


def test_a_button_at_a_slot_whose_card_left_unsaid_starts_a_new_life(machine: MachineTree) -> None:
    button = [f"{PORT} Button press: will power on in 5 sec", f"{PORT} Card not present"]
    before = [*PLUGGED, *FAILED, "pcieport 0000:00:01.0: AER: device recovery failed"]
    found = diagnosed(empty_slot(machine), *before, *button)
    assert [(one.id, one.severity.value) for one in found.findings] == [("slot_empty", "warning")]


def test_a_card_that_fell_out_before_its_button_was_pressed_fell_out(machine: MachineTree) -> None:
    button = [f"{PORT} Button press: will power on in 5 sec", f"{PORT} Card not present"]
    found = diagnosed(empty_slot(machine), *PLUGGED, ENUMERATED, *PULLED, *button)
    assert root(found) == "surprise_removal"


def test_a_loop_of_surprises_is_the_slot_s_and_stays(machine: MachineTree) -> None:
    loop = [*PLUGGED, ENUMERATED, *PULLED] * 5
    assert root(diagnosed(card_without_driver(machine), *loop, *PLUGGED, ENUMERATED)) == "presence_flapping"


def test_an_insertion_that_never_reached_the_bus_is_a_finding(machine: MachineTree) -> None:
    lines = [*PLUGGED, *FAILED, *BUTTON, f"{PORT} Card present", f"{PORT} Power fault"]
    assert root(diagnosed(empty_slot(machine), *lines)) == "slot_power_fault"


def test_an_archive_knows_no_now_and_keeps_all_its_lines(machine: MachineTree) -> None:
    machine.kmsg(*PLUGGED, *FAILED, *BUTTON)
    log = logs.kernel(machine.host)
    assert isinstance(log, tuple)
    whole = replace(probe.machine(empty_slot(machine).look()), devices=(), slots=(), ports=(), logs=log)
    found = diagnose.diagnose(whole, load.rules(), load.taxonomy(), machine.profiles, live=False)
    assert "firmware_missing" in [f.id for f in found.findings]


def test_a_bridge_that_was_taken_out_takes_its_failure_along(machine: MachineTree) -> None:
    bridge = ["pci 0000:01:00.0: [104c:8232] type 01 class 0x060400 PCIe Switch Upstream Port",
              "pci 0000:01:00.0: No bus number available for hot-added bridge"]
    assert root(diagnosed(empty_slot(machine), *PLUGGED, *bridge)) is None
    machine.port()
    machine.function("0000:01:00.0", "104c", "8232", "060400", under="0000:00:01.0")
    assert root(diagnosed(machine, *PLUGGED, *bridge)) == "bus_numbers_exhausted"


def test_a_card_where_a_bridge_was_before_is_no_bridge(machine: MachineTree) -> None:
    bridge = ["pci 0000:01:00.0: [104c:8232] type 01 class 0x060400 PCIe Switch Upstream Port"]
    found = diagnosed(card_without_driver(machine), *PLUGGED, *bridge, *BUTTON, *PLUGGED, *TIMED_OUT)
    assert found.root_cause is not None
    assert (found.root_cause.id, found.root_cause.address) == ("device_boot_timeout", "0000:01:00.0")


def test_a_card_behind_a_switch_keeps_what_the_log_says_of_it(machine: MachineTree) -> None:
    machine.port(last_bus=3)
    machine.port("0000:01:00.0", under="0000:00:01.0", slot=None, bus=2, last_bus=3)
    machine.port("0000:02:00.0", under="0000:01:00.0", slot=None, bus=3)
    machine.card("0000:03:00.0", under="0000:02:00.0", driver=None)
    switch = ["pci 0000:01:00.0: [104c:8232] type 01 class 0x060400 PCIe Switch Upstream Port",
              "pci 0000:02:00.0: [104c:8233] type 01 class 0x060400 PCIe Switch Downstream Port"]
    card = [line.replace("0000:01", "0000:03") for line in FAILED]
    found = diagnosed(machine, *PLUGGED, *switch, *card)
    assert found.root_cause is not None
    assert (found.root_cause.id, found.root_cause.address) == ("firmware_missing", "0000:03:00.0")
