"""What is read of devices, slots and ports, on built machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hotplugctl import look, probe, rooms
from hotplugctl.model import Errors, Kind, Link, Port, Probed, Severity, State, Unknown

from .configspace import Config
from .machine import POWER_OFF, MachineTree


def test_a_link_is_judged_by_what_both_ends_can_do(machine: MachineTree) -> None:
    machine.port(width=16, speed=5)
    machine.card(width=8, max_width=16, speed=4, max_speed=6)
    assert machine.device().link == Link(16.0, 8, 64.0, 16, 32.0, 16, "port")
    assert [note.id for note in machine.device().notes] == ["link-narrow", "link-slow"]
    assert machine.device().notes[0].text == "link runs x8, card and port can do x16"


def test_a_narrow_card_in_a_wide_slot_is_not_called_narrow(machine: MachineTree) -> None:
    machine.port(width=32, speed=5)
    machine.card(width=1, max_width=1, speed=1, max_speed=1)
    device = machine.device()
    assert device.link == Link(2.5, 1, 2.5, 1, 2.5, 1, "card")
    assert device.notes == ()


def test_an_idle_link_speed_is_a_remark_and_no_warning(machine: MachineTree) -> None:
    machine.port()
    machine.card(speed=1)
    (note,) = machine.device().notes
    assert (note.severity, note.id) == (Severity.INFO, "link-slow")
    assert "normal while idle" in note.text


def test_what_the_kernel_cannot_say_of_a_link_comes_from_config_space(machine: MachineTree) -> None:
    machine.port()
    machine.card(width=8, current_link_width="0", current_link_speed="Unknown speed")
    link = machine.device().link
    assert isinstance(link, Link)
    assert (link.width, link.speed_gts) == (8, 32.0)


def test_a_conventional_card_has_no_link(machine: MachineTree) -> None:
    machine.port()
    machine.function("0000:01:00.0", "1234", "11e8", "00ff00", under="0000:00:01.0", config=Config(0x1234, 0x11E8).data)
    assert machine.device().link is None


def test_error_counters_are_totals_and_worst_first_in_the_notes(machine: MachineTree) -> None:
    machine.port()
    machine.card(
        aer_dev_correctable="RxErr 3\nBadTLP 4\nTOTAL_ERR_COR 7", aer_dev_nonfatal="TOTAL_ERR_NONFATAL 1",
        aer_dev_fatal="<array>_bit[3] 2\nTOTAL_ERR_FATAL 2",
    )
    device = machine.device()
    assert device.errors == Errors(7, 1, 2)
    assert [note.id for note in device.notes] == ["aer-fatal", "aer-nonfatal", "aer-correctable"]


def test_a_device_whose_counters_the_firmware_keeps_has_none(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    assert machine.device().errors is None


def test_the_serial_comes_from_the_kernel_else_from_config_space(machine: MachineTree) -> None:
    machine.port()
    machine.card(serial=0x525400FFFF123456)
    assert machine.device().serial == "52-54-00-ff-ff-12-34-56"
    machine.put(f"{machine.paths['0000:01:00.0']}/serial_number", "SN1")
    assert machine.device().serial == "SN1"


def test_slots_filled_empty_off_and_dead(machine: MachineTree) -> None:
    machine.port("0000:00:01.0", slot="1", bus=1)
    machine.card()
    machine.port("0000:00:02.0", slot="2", bus=2, present=False)
    machine.port("0000:00:03.0", slot="3", bus=3, powered=False)
    machine.port("0000:00:04.0", slot="4", bus=4)
    slots = machine.slots()
    assert list(slots) == ["1", "2", "3", "4"]
    assert slots["1"].addresses == ("0000:01:00.0",)
    assert [(s.presence, s.power) for s in slots.values()] == [
        (True, "on"), (False, "on"), (True, "off"), (True, "on")]
    assert slots["1"].hotplug.driver == "pciehp"
    assert slots["1"].hotplug.surprise is True
    assert sorted(machine.devices()) == ["0000:01:00.0", "slot:3", "slot:4"]
    assert machine.devices()["slot:3"].state is State.DETECTED


def test_a_slot_is_named_by_its_path_and_keeps_it_when_buses_are_renumbered(machine: MachineTree) -> None:
    machine.port("0000:00:01.0", slot=None, bus=1, last_bus=9)
    machine.port("0000:01:00.0", slot=None, bus=2, last_bus=9, under="0000:00:01.0")
    machine.port("0000:02:05.0", slot="7", bus=3, under="0000:01:00.0")
    assert machine.slots()["7"].path == "0000:00:01.0/00.0/05.0"


def test_a_card_behind_its_own_switch_sits_in_the_slot_above_it(machine: MachineTree) -> None:
    machine.port("0000:00:01.0", slot="1", bus=1, last_bus=9)
    machine.port("0000:01:00.0", slot=None, bus=2, last_bus=9, under="0000:00:01.0")
    machine.card("0000:02:00.0", under="0000:01:00.0")
    assert machine.device("0000:02:00.0").slot == "1"


def test_an_empty_slot_probes_as_absent_with_its_port(machine: MachineTree) -> None:
    machine.port(present=False)
    seen = machine.look()
    (device,) = probe.details(seen, (), ("1",))
    assert (device.state, device.address, device.missing) == (State.ABSENT, None, "a card")
    assert isinstance(device.upstream, tuple)
    assert [port.address for port in device.upstream] == ["0000:00:01.0"]


def test_a_probe_shows_the_way_from_the_root_port_down(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    seen = machine.look()
    (device,) = probe.details(seen, probe.machine(seen).devices)
    assert isinstance(device, Probed)
    assert isinstance(device.upstream, tuple)
    port = device.upstream[0]
    assert isinstance(port, Port)
    assert (port.kind, port.secondary_bus, port.answering) == ("root port", 1, True)
    assert isinstance(device.holders, Unknown)
    assert device.holders.kind is Kind.NOT_CAPTURED


def test_without_privilege_capabilities_are_unknown_and_not_half_a_list(machine: MachineTree) -> None:
    machine.port()
    here = machine.card()
    config = machine.root / here.lstrip("/") / "config"
    config.write_bytes(config.read_bytes()[:64])
    seen = machine.look()
    (device,) = probe.details(seen, probe.machine(seen).devices)
    assert isinstance(device.capabilities, Unknown)
    assert device.capabilities.kind is Kind.DENIED
    assert isinstance(device.serial, Unknown)


def test_room_is_the_largest_free_range_and_a_larger_card_is_not_promised(machine: MachineTree) -> None:
    machine.port(window=(0x20000000000, 64 << 20), last_bus=4)
    machine.card()  # 16 MiB at the start of the window
    seen = machine.look()
    port = seen.port("0000:00:01.0")
    assert port is not None
    room = rooms.room(seen, port, (32 << 20, 64 << 20))
    assert (room.prefetchable, room.buses) == (48 << 20, 3)
    assert room.fits[str(32 << 20)] is True
    assert isinstance(room.fits[str(64 << 20)], Unknown)


@pytest.mark.parametrize("content", ["what 0x is this", "-1", "0x1 0x2", "0x1 0x2 zz"])
def test_a_damaged_file_leaves_what_else_is_known_of_a_device_and_the_list(machine: MachineTree, content: str) -> None:
    machine.port()
    here = machine.card()
    machine.put(f"{here}/resource", content)
    machine.port("0000:00:02.0", slot="2", bus=2)
    machine.card("0000:02:00.0", under="0000:00:02.0")
    devices = machine.devices()
    assert devices["0000:01:00.0"].bars == Unknown("its resource file is damaged", Kind.IO)
    assert devices["0000:01:00.0"].vendor_id == devices["0000:02:00.0"].vendor_id == "1234"
    assert isinstance(devices["0000:02:00.0"].bars, tuple)


def test_labels_and_printed_slots_come_from_the_configuration(machine: MachineTree) -> None:
    from hotplugctl.config import LabelRule

    machine.port()
    machine.card()
    rule = LabelRule({"vendor": "lab", "model": "ED*"}, {"pool": "training"})
    device = machine.device(labels=(rule,), slots={"0000:00:01.0": "riser 2, slot 5"})
    assert device.labels == {"pool": "training"}
    assert device.slot_printed == "riser 2, slot 5"


def test_five_hundred_cards_are_read_without_opening_a_file_twice_too_often(machine: MachineTree) -> None:
    for n in range(1, 60):
        machine.port(f"0000:00:{n % 32:02x}.{n // 32}", slot=str(n), bus=n)
        machine.card(f"0000:{n:02x}:00.0", under=f"0000:00:{n % 32:02x}.{n // 32}")
    host = machine.host
    asked: list[str] = []
    data = host.data
    host.data = lambda path, limit=4096: asked.append(path) or data(path, limit)  # type: ignore[method-assign, func-returns-value]
    found = probe.machine(look.look(host, machine.look().settings, machine.profiles))
    assert len(found.devices) == 59
    assert len(asked) / 59 < 100, "reads a card, with its port and slot"


def test_a_powered_off_slot_says_so_even_if_its_card_is_seated(machine: MachineTree) -> None:
    machine.port(powered=False, control=POWER_OFF)
    assert "power is off" in str(machine.devices()["slot:1"].missing)


def test_a_probe_that_has_not_returned_is_seen_in_the_slot_s_own_thread(machine: MachineTree) -> None:
    machine.port()
    machine.card(status="booting", node=False)
    machine.put(f"{machine.paths['0000:00:01.0']}/msi_irqs/24", "msi")
    machine.put("/proc/2/task/2/children", "10 11 12 ")
    for pid, name in ((10, "kworker/0:1"), (11, "irq/25-pciehp"), (12, "irq/24-pciehp")):
        machine.put(f"/proc/{pid}/comm", name)
        machine.put(f"/proc/{pid}/stack", "[<0>] msleep+0x2d/0x40\n[<0>] local_pci_probe+0x42/0x80")
    machine.put("/proc/12/stack", "[<0>] labaccel_wait_for_device+0x1c/0x30\n[<0>] local_pci_probe+0x42/0x80")
    machine.put("/proc/uptime", "6.50 3.00")
    machine.kmsg("boot", "pci 0000:01:00.0: [1234:11e8] type 00 class 0x120000 conventional PCI endpoint")
    runtime = _runtime(machine)
    assert (runtime["probe_waits_in"], runtime["probe_s"]) == ("labaccel_wait_for_device", 4)
    machine.put("/proc/12/stack", "[<0>] irq_thread+0x1c/0x30")
    assert "probe_waits_in" not in _runtime(machine)


def _runtime(machine: MachineTree) -> Mapping[str, Any]:
    seen = machine.look()
    (device,) = probe.details(seen, probe.machine(seen).devices)
    assert isinstance(device.runtime, dict)
    return device.runtime


def system_slot(name: str, bus: int, device: int = 0, segment: int = 0) -> bytes:
    """A structure of type 9 as firmware writes it (SMBIOS 2.6): handle, name, what it is, where it is, and the text."""
    head = bytes([9, 0x11]) + b"\x2a\x00" + bytes([1, 0xB6, 0x0D, 4, 4, 5, 0, 0x0C, 1])
    return head + segment.to_bytes(2, "little") + bytes([bus, device << 3]) + name.encode() + b"\0\0"


def test_what_is_printed_beside_a_slot_is_read_from_the_firmware(machine: MachineTree) -> None:
    machine.port("0000:00:01.0", slot="1", bus=1)
    machine.port("0000:00:02.0", slot="2", bus=2)
    machine.port("0000:00:03.0", slot="3", bus=3)
    machine.put("/sys/firmware/dmi/entries/9-0/raw", system_slot("PCIE SLOT 5 (RISER 2)", bus=1))
    machine.put("/sys/firmware/dmi/entries/9-1/raw", system_slot("by its port", bus=0, device=2))
    machine.put("/sys/firmware/dmi/entries/9-2/raw", system_slot("nowhere", bus=0xFF))
    machine.put("/sys/firmware/dmi/entries/9-3/raw", b"\x09\x11\x00")
    assert [slot.printed for slot in machine.slots().values()] == ["PCIE SLOT 5 (RISER 2)", "by its port", None]
    own = machine.look(slots={"0000:00:01.0": "riser 2, slot 5"})
    assert own.slots[0].printed == "riser 2, slot 5", "the configuration knows better"
