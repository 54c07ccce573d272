"""Config-space bytes: what is decoded, what is Unknown, and that no bytes whatever can upset it."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hotplugctl.model import Dpc, Kind, Link, Unknown
from hotplugctl.readers import capabilities as caps
from hotplugctl.readers.hexdump import hex_dump, parse_hex_dump
from hotplugctl.readers.registers import EXTENDED_NAMES, STANDARD_NAMES

from .configspace import Config

READERS = (
    caps.capabilities, caps.identity, caps.answering, caps.link, caps.link_flags, caps.slot_control, caps.dpc,
    caps.serial, caps.aer_status, caps.sriov, caps.rebar, caps.bar_registers, caps.port_type, caps.short,
    caps.without_serial, hex_dump,
)
BEYOND_HEADER = (
    caps.link, caps.link_flags, caps.slot_control, caps.dpc, caps.serial, caps.aer_status, caps.sriov, caps.rebar,
    caps.port_type,
)

HOTPLUG_SLOT = 0x7F | 75 << 7 | 7 << 19      # all hardware there, 75 W, slot number 7
SWITCH_OFF, PRESENT, FAULT, LATCH_OPEN = 1 << 10, 1 << 6, 1 << 1, 1 << 5
REPORTS_ACTIVE, ACTIVE, TRAINING = 1 << 20, 1 << 13, 1 << 11


def full() -> Config:
    """A function with one of everything."""
    return (
        Config(bars=(0xC, 0x2000, 0xF0000000, 0xE001, 0, 0)).standard(0x01, (0x04, 3, 2), length=8)
        .standard(0x11, (0x02, 0x8000 | 15, 2), length=0x10).express(slot=(HOTPLUG_SLOT, 0, PRESENT))
        .extended(0x01, (0x04, 1 << 14 | 1 << 18, 4), (0x0C, 1 << 18, 4), (0x10, 1 << 6, 4))
        .serial(0x00112233_FFFE4455)
        .extended(0x10, (0x08, 1, 2), (0x0E, 16, 2), (0x10, 4, 2), (0x14, 8, 2), (0x16, 1, 2), (0x1A, 0x2331, 2))
        .extended(0x15, (0x04, 0b111 << 12, 4), (0x08, 1 << 5 | 10 << 8, 4))
        .extended(0x1D, (0x06, 1, 2), (0x08, 1 | 3 << 1 | 1 << 5, 2))
        .extended(0xFFFE)
    )


def port(*, status: int = 0, slot: tuple[int, int, int] | None = (HOTPLUG_SLOT, 0, PRESENT), width: int = 16) -> bytes:
    return (
        Config(header=1, class_=0x060400, buses=(0, 0x17, 0x1A))
        .express(4, slot=slot, capable=REPORTS_ACTIVE, status=status, width=width).data
    )


def test_identity_comes_out_of_the_header_alone():
    identity = caps.identity(full().data[:64])
    assert (identity.vendor_id, identity.device_id, identity.class_) == ("10de", "2330", "030200")
    assert (identity.header_type, identity.multi_function, identity.secondary_bus) == (0, False, None)


def test_a_bridge_tells_its_buses():
    identity = caps.identity(Config(header=0x81, buses=(0, 0x17, 0x1A)).data)
    assert (identity.header_type, identity.multi_function) == (1, True)
    assert (identity.primary_bus, identity.secondary_bus, identity.subordinate_bus) == (0, 0x17, 0x1A)


def test_all_ones_is_no_answer_and_decodes_to_nothing():
    dead = b"\xff" * 4096
    assert not caps.answering(dead)
    assert not caps.answering(dead[:4])
    assert caps.capabilities(dead) == ()
    assert all(reader(dead).kind is Kind.IO for reader in (*BEYOND_HEADER, caps.identity, caps.bar_registers))


def test_a_virtual_function_answers_although_its_ids_read_ones():
    assert caps.answering(Config(0xFFFF, 0xFFFF).data)


def test_bars_come_out_of_the_header():
    bars = caps.bar_registers(full().data[:64])
    assert [(b.index, b.kind, b.address) for b in bars] == [
        (0, "mem64pref", 0x2000 << 32), (2, "mem32", 0xF0000000), (3, "io", 0xE000),
    ]


def test_a_bar_that_holds_no_address_says_so():
    assert [(b.kind, b.address) for b in caps.bar_registers(Config(bars=(0xC, 0, 0x4, 0, 0x1)).data)] == [
        ("mem64pref", None), ("mem64", None), ("io", None),
    ]


def test_a_bridge_has_two_bars_and_no_more():
    bridge = Config(header=1, bars=(0xF0000000, 0xE0000000, 0x1A1700)).data
    assert [b.index for b in caps.bar_registers(bridge)] == [0, 1]


def test_capabilities_are_listed_with_names_offsets_and_fields():
    found = {(c.extended, c.id): c for c in caps.capabilities(full().data)}
    assert caps.short(full().data) is None
    assert [c.name for c in found.values()][:4] == [
        "Power Management", "MSI-X", "PCI Express", "Advanced Error Reporting",
    ]
    assert found[False, 0x01].fields["state"] == "D3hot"
    assert found[False, 0x11].fields | {"vectors": 16, "enabled": True} == found[False, 0x11].fields
    assert found[False, 0x10].fields["type"] == "endpoint"
    assert found[False, 0x10].offset == 0x58
    assert found[True, 0xFFFE].name == "unknown (fffe)"


def test_all_zeros_and_all_ones_decode_in_every_register():
    for config in (b"\xff" * 4096, bytes(4096)):
        for extended, names in ((False, STANDARD_NAMES), (True, EXTENDED_NAMES)):
            for id in names:
                built = Config()
                built.space[0x40:] = config[0x40:]
                if extended:
                    built.standard(0x10).put(0x42, 2, 2).extended(id)
                else:
                    built.standard(id)
                assert id in [c.id for c in caps.capabilities(built.data) if c.extended is extended]


def test_the_link_tells_speed_and_width_now_and_at_best():
    link = caps.link(Config().express(speed=3, width=8, max_speed=5, max_width=16).data)
    assert link == Link(speed_gts=8.0, width=8, max_speed_gts=32.0, max_width=16)


def test_the_supported_speeds_win_over_the_best_speed():
    config = Config().express(max_speed=5).put(0x40 + 0x2C, 0b1110, 4)
    assert caps.link(config.data).max_speed_gts == 8.0


def test_a_first_version_capability_has_no_second_registers():
    link = caps.link(Config().express(version=1, speed=1, max_speed=2).put(0x40 + 0x2C, 0xFF, 4).data)
    assert link.max_speed_gts == 5.0


def test_a_speed_nobody_knows_is_unknown_and_not_a_number():
    assert isinstance(caps.link(Config().express(version=1, speed=9).data).speed_gts, Unknown)


def test_a_link_that_is_down_has_neither_speed_nor_width():
    for config in (port(status=0), port(width=0, status=ACTIVE)):
        link = caps.link(config)
        assert (link.speed_gts, link.width, link.max_width) == (None, None, 16)


def test_integrated_and_conventional_functions_have_no_link():
    assert caps.link(Config().express(9).data) is None
    assert caps.link(Config().standard(0x01).data) is None
    assert caps.link(Config().express(max_width=0, width=0).data) is None
    assert caps.link(Config(size=256).data) is None


def test_link_flags_tell_disabled_training_and_active():
    flags = caps.link_flags(port(status=ACTIVE | TRAINING))
    assert (flags.disabled, flags.training, flags.active, flags.reports_active) == (False, True, True, True)
    assert caps.link_flags(Config().express(4, control=1 << 4).data).disabled
    assert caps.link_flags(Config().express(4).data).active is None


def test_slot_registers_are_read():
    slot = caps.slot_control(port(slot=(HOTPLUG_SLOT, SWITCH_OFF, FAULT | LATCH_OPEN)))
    assert (slot.number, slot.hotplug_capable, slot.surprise, slot.power_limit_w) == (7, True, True, 75.0)
    assert (slot.power_off, slot.presence, slot.power_fault, slot.latch_open) == (True, False, True, True)


def test_a_slot_without_the_hardware_says_not_there_instead_of_no():
    slot = caps.slot_control(port(slot=(1 << 5 | 1 << 6, SWITCH_OFF, FAULT | LATCH_OPEN | PRESENT)))
    assert (slot.power_off, slot.power_fault, slot.latch_open, slot.power_limit_w) == (None, None, None, None)
    assert slot.presence


@pytest.mark.parametrize(
    ("value", "scale", "watts"), [(75, 0, 75), (250, 1, 25), (0xF0, 0, 250), (0xF2, 0, 300), (0xF0, 1, 24)]
)
def test_the_power_limit_follows_its_scale(value, scale, watts):
    assert caps.slot_control(port(slot=(value << 7 | scale << 15, 0, 0))).power_limit_w == watts


def test_a_port_without_a_slot_has_no_slot_registers():
    assert caps.slot_control(port(slot=None)) is None


def test_containment_tells_its_reason_only_when_triggered():
    assert caps.dpc(full().data) == Dpc(enabled=True, triggered=True, reason="software trigger")
    quiet = Config().express(4).extended(0x1D, (0x06, 2, 2), (0x08, 2 << 1, 2)).data
    assert caps.dpc(quiet) == Dpc(enabled=True, triggered=False, reason=None)
    assert caps.dpc(Config().express(4).extended(0x01).data) is None


def test_the_serial_number_reads_as_lspci_prints_it():
    assert caps.serial(full().data) == "00-11-22-33-ff-fe-44-55"
    assert caps.serial(Config().express().serial(0).data) is None
    assert caps.serial(Config().express().extended(0x01).data) is None


def test_zeroing_the_serial_changes_nothing_else():
    before = full().data
    after = caps.without_serial(before)
    assert caps.serial(after) is None
    changed = [at for at, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    assert changed == [at for at in range(0x154, 0x15C) if before[at]]
    assert caps.without_serial(after) == after


def test_a_config_cut_inside_the_serial_is_redacted_as_far_as_it_goes():
    before = full().data
    for length in range(0x150, 0x160):
        after = caps.without_serial(before[:length])
        assert len(after) == length
        assert not any(after[0x154:0x15C])


def test_standing_errors_carry_the_kernels_names():
    status = caps.aer_status(full().data)
    assert (status.uncorrectable, status.fatal) == (("CmpltTO", "MalfTLP"), ("MalfTLP",))
    assert status.correctable == ("BadTLP",)


def test_virtual_functions_are_counted():
    sriov = caps.sriov(full().data)
    assert (sriov.enabled, sriov.total, sriov.number, sriov.vf_device_id) == (True, 16, 4, "2331")


def test_resizable_bars_offer_their_sizes():
    (bar,) = caps.rebar(full().data)
    assert (bar.index, bar.size, bar.sizes) == (0, 1 << 30, (1 << 28, 1 << 29, 1 << 30))


def test_sixty_four_bytes_mean_denied_and_not_absent():
    unprivileged = full().data[:64]
    assert caps.capabilities(unprivileged) == ()
    assert caps.short(unprivileged).kind is Kind.DENIED
    for reader in BEYOND_HEADER:
        assert reader(unprivileged).kind is Kind.DENIED, reader.__name__


def test_sixty_four_bytes_without_a_list_are_all_there_is_to_know():
    assert caps.short(Config(size=64).data) is None
    assert caps.link(Config(size=64).data) is None


def test_without_extended_space_only_what_lies_there_is_unknown():
    config = full().data[:256]
    assert caps.link(config).width == 16
    assert caps.serial(config).kind is Kind.NOT_CAPTURED
    assert caps.short(config).kind is Kind.NOT_CAPTURED


def test_conventional_functions_have_no_extended_capabilities():
    assert caps.serial(Config(size=256).standard(0x01).data) is None


@pytest.mark.parametrize("target", [0x40, 0x44, 0xFC])
def test_a_looping_list_ends(target):
    config = bytearray(Config().standard(0x01).standard(0x10).data)
    config[0x81] = target
    assert [c.id for c in caps.capabilities(bytes(config)) if not c.extended][:2] == [0x01, 0x10]


def test_a_looping_extended_list_ends():
    config = Config().express().extended(0x01).extended(0x03)
    data = bytearray(config.data)
    data[0x150:0x154] = (0x03 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    assert [c.id for c in caps.capabilities(bytes(data)) if c.extended] == [0x01, 0x03]


def test_a_list_that_points_into_ones_ends_there():
    config = bytearray(Config().standard(0x01).data)
    config[0x41], config[0x80:0x84] = 0x80, b"\xff" * 4
    assert [c.id for c in caps.capabilities(bytes(config))] == [0x01]


def test_no_length_upsets_a_reader_and_a_longer_reading_never_knows_less():
    config, known = full().data, 0
    for length in range(len(config)):
        part = config[:length]
        for reader in READERS:
            reader(part)
        found = len(caps.capabilities(part))
        assert found >= known
        known = found


def test_no_random_bytes_upset_a_reader():
    dice = random.Random(20261129)
    valid = full().data
    for round_ in range(600):
        config = bytearray(dice.randbytes(dice.choice((64, 128, 256, 4096))) if round_ % 2 else valid)
        for _ in range(dice.randrange(40)):
            config[dice.randrange(len(config))] = dice.choice((0, 0x10, 0x40, 0xFF, dice.randrange(256)))
        config[0x06] |= 0x10
        for reader in READERS:
            reader(bytes(config))


def test_a_dump_reads_back_as_it_was():
    config = full().data
    text = f"0000:17:00.0 3D controller: NVIDIA Corporation\n{hex_dump(config)}\n3b:00.0 Other\n{hex_dump(config[:64])}"
    assert parse_hex_dump(text) == {"0000:17:00.0": config, "0000:3b:00.0": config[:64]}


def test_a_dump_has_the_form_of_lspci():
    lines = hex_dump(full().data).splitlines()
    assert lines[0] == "00: de 10 30 23 00 00 10 00 00 00 02 03 00 00 00 00"
    assert (lines[16][:8], lines[-1][:5], len(lines)) == ("100: 01 ", "ff0: ", 256)


def test_verbose_text_between_the_lines_and_a_hole_do_no_harm():
    text = (
        "10000:e1:00.0 Processing accelerators: Device\r\n\tControl: I/O- Mem+\r\n00: 01 02 03 04\r\n"
        "04: 05 06\r\n10: 07\r\nnonsense\r\n"
    )
    assert parse_hex_dump(text) == {"10000:e1:00.0": bytes((1, 2, 3, 4, 5, 6))}
    assert parse_hex_dump("00: 01 02\n") == {}


# Two roads: the same functions, read by lspci.

DEVICES = sorted(Path("/sys/bus/pci/devices").glob("*")) if Path("/sys/bus/pci/devices").is_dir() else []
LSPCI_CAPABILITY = re.compile(r"^\tCapabilities: \[(?P<at>[0-9a-f]+)(?: v\d+)?\] (?P<name>.*)", re.MULTILINE)
LSPCI_WORDS = {   # how lspci begins the line of a capability, where that is not our name for it
    "Vital Product Data": "Vital Product Data", "Vendor Specific": "Vendor Specific Information",
    "PCI Express": "Express", "Subsystem ID": "Subsystem", "Access Control Services": "Access Control Services",
    "Alternative Routing-ID": "Alternative Routing-ID Interpretation", "Address Translation Services": "Address Tr",
    "SR-IOV": "Single Root I/O Virtualization", "Resizable BAR": "Physical Resizable BAR",
    "Device Serial Number": "Device Serial Number", "Downstream Port Containment": "Downstream Port Containment",
}


@pytest.mark.skipif(shutil.which("lspci") is None, reason="lspci is not installed")
@pytest.mark.parametrize("device", DEVICES or [None], ids=[d.name for d in DEVICES] or ["none"])
def test_lspci_sees_the_same_capabilities_and_link(device):
    if device is None:
        pytest.skip("this machine has no PCI devices")
    config = (device / "config").read_bytes()
    if caps.short(config) is not None and caps.short(config).kind is Kind.DENIED:
        pytest.skip("reading beyond 64 bytes of config space needs CAP_SYS_ADMIN")
    run = subprocess.run(["lspci", "-D", "-vvv", "-s", device.name], capture_output=True, text=True, check=True)
    theirs = [(int(m["at"], 16), m["name"]) for m in LSPCI_CAPABILITY.finditer(run.stdout)]
    ours = caps.capabilities(config)
    assert [c.offset for c in ours] == [at for at, _ in theirs]
    for capability, (_, name) in zip(ours, theirs, strict=True):
        assert name.startswith(LSPCI_WORDS.get(capability.name, capability.name)), (capability, name)
    link, said = caps.link(config), re.search(r"LnkSta:\tSpeed ([\d.]+)GT/s.*Width x(\d+)", run.stdout)
    if isinstance(link, Link) and link.width is not None and said:
        assert (link.speed_gts, link.width) == (float(said[1]), int(said[2]))
    dumped = subprocess.run(["lspci", "-D", "-xxxx", "-s", device.name], capture_output=True, text=True, check=True)
    assert hex_dump(config) in dumped.stdout
    assert list(parse_hex_dump(dumped.stdout)) == [device.name]


@pytest.mark.parametrize("device", DEVICES or [None], ids=[d.name for d in DEVICES] or ["none"])
def test_sysfs_agrees_about_ids_and_assigned_bars(device):
    if device is None:
        pytest.skip("this machine has no PCI devices")
    config = (device / "config").read_bytes()
    identity = caps.identity(config)
    if identity.vendor_id != "ffff":
        assert f"0x{identity.vendor_id}" == (device / "vendor").read_text().strip()
        assert f"0x{identity.class_}" == (device / "class").read_text().strip()
    regions = [int(line.split()[0], 16) for line in (device / "resource").read_text().splitlines()]
    for bar in caps.bar_registers(config):
        assert bar.address is None or regions[bar.index] == bar.address


@pytest.mark.skipif(shutil.which("lspci") is None, reason="lspci is not installed")
def test_lspci_decodes_hand_built_registers_as_we_do(tmp_path):
    def said(config: bytes) -> str:
        dump = tmp_path / "dump"
        dump.write_text(f"17:00.0 x\n{hex_dump(config)}\n")
        return subprocess.run(["lspci", "-vvv", "-F", str(dump)], capture_output=True, text=True, check=True).stdout

    config = full().data
    text = said(config)
    assert [int(m["at"], 16) for m in LSPCI_CAPABILITY.finditer(text)] == [c.offset for c in caps.capabilities(config)]
    assert f"Device Serial Number {caps.serial(config)}" in text
    assert re.findall(r"(\w+)\+", re.search("UESta:(.*)", text)[1]) == list(caps.aer_status(config).uncorrectable)
    assert re.findall(r"(\w+)\+", re.search("CESta:(.*)", text)[1]) == list(caps.aer_status(config).correctable)
    assert "Total VFs: 16, Number of VFs: 4" in text
    assert "VF offset: 8, stride: 1, Device ID: 2331" in text
    assert "BAR 0: current size: 1GB, supported: 256MB 512MB 1GB" in text
    assert "DpcSta:\tTrigger+ Reason:03" in text
    assert "Region 0: Memory at 200000000000 (64-bit, prefetchable)" in text
    for speed, width in ((1, 1), (2, 4), (3, 8), (4, 16), (5, 32)):
        config = Config().express(speed=speed, width=width, max_speed=5, max_width=32).data
        link = caps.link(config)
        assert f"LnkSta:\tSpeed {link.speed_gts:g}GT/s" in said(config)
        assert f"Width x{link.width}" in re.search("LnkSta:.*", said(config))[0]
    for bits in range(7):
        config = port(slot=(1 << bits | 75 << 7 | bits + 1 << 19, 0, PRESENT))
        slot, line = caps.slot_control(config), re.search(r"SltCap:(.*)\n.*Slot #(\d+), PowerLimit (\d+)", said(config))
        assert (slot.number, slot.power_limit_w) == (int(line[2]), int(line[3]))
        ours = (
            slot.attention_button, slot.power_controller, slot.latch_sensor, slot.attention_indicator,
            slot.power_indicator, slot.hotplug_capable, slot.surprise,
        )
        assert ours == tuple(sign == "+" for sign in re.findall(r"[+-]", line[1]))
