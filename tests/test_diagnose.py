"""From evidence to one root cause: every cause on realistic text, ranking, attribution, verdicts, hostile input."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hotplugctl import probe
from hotplugctl.diagnose import Explanation, diagnose, explain, scene
from hotplugctl.errors import Exit, HotplugError
from hotplugctl.model import (
    Device,
    Diagnosis,
    Driver,
    Gap,
    Held,
    Machine,
    Port,
    Probed,
    Severity,
    Slot,
    SlotControl,
    State,
)
from hotplugctl.readers import logs
from hotplugctl.readers.logs import read_log
from hotplugctl.readers.lspci import read_lspci
from hotplugctl.rules import load

from .machine import LATCH_OPEN, POWER_FAULT, MachineTree

RULES = load.load_rules(load.rule_files())
TAXONOMY = load.taxonomy()
PROFILES = load.profiles()


def of_texts(*texts: str, lspci: str = "", named: tuple[str, ...] = ()) -> Diagnosis:
    """The diagnosis of logs (dmesg first, then others) and an lspci text."""
    lines = tuple(line for i, text in enumerate(texts) for line in read_log(text.strip("\n"), f"log{i}"))
    listing = read_lspci(lspci, "lspci.txt")
    machine = Machine(host="", devices=listing.devices, ports=listing.ports, logs=lines)
    return diagnose(machine, RULES, TAXONOMY, PROFILES, named=named, live=False)


def answer(found: Diagnosis) -> tuple[str | None, str | None]:
    root = found.root_cause
    return (root.id, root.address) if root is not None else (None, None)


UP = """\
[ 100.1] pcieport 0000:3a:00.0: pciehp: Slot(3): Card present
[ 100.2] pcieport 0000:3a:00.0: pciehp: Slot(3): Link Up
"""
FOUND = UP + "[ 100.4] pci 0000:3b:00.0: [10de:2330] type 00 class 0x030200 PCIe Endpoint\n"
GPU, PORT = "0000:3b:00.0", "0000:3a:00.0"

FAULTS = [
    ("bar_space_exhausted", GPU, FOUND + """
[ 100.5] pci 0000:3b:00.0: BAR 1 [mem size 0x2000000000 64bit pref]: can't assign; no space
[ 100.5] pci 0000:3b:00.0: BAR 1 [mem size 0x2000000000 64bit pref]: failed to assign
[ 100.5] pci 0000:3b:00.0: BAR 0 [mem 0x82000000-0x82ffffff]: assigned
[ 100.6] nvidia 0000:3b:00.0: probe with driver nvidia failed with error -1"""),
    ("bar_space_exhausted", GPU, FOUND + """
[ 100.5] pci 0000:3b:00.0: BAR 1: no space for [mem size 0x2000000000 64bit pref]
[ 100.5] pci 0000:3b:00.0: BAR 1: failed to assign [mem size 0x2000000000 64bit pref]"""),
    ("bar_space_exhausted", "0000:01:00.0", """
[ 10.2] pci 0000:01:00.0: BAR 2 [mem size 0x1000000000 64bit pref]: can't assign; no space
[ 10.2] pci 0000:01:00.0: BAR 2 [mem size 0x1000000000 64bit pref]: failed to assign"""),
    ("bus_numbers_exhausted", GPU, UP + """
[ 100.4] pci 0000:3b:00.0: [8086:15da] type 01 class 0x060400
[ 100.4] pci 0000:3b:00.0: No bus number available for hot-added bridge"""),
    ("no_free_hotplug_slot", "0000:65:00.0", """
(qemu) device_add vfio-pci,host=0000:65:00.0,id=acc0
Error: Bus 'pcie.0' does not support hotplugging"""),
    ("link_training_failed", PORT,
     UP + "[ 101.5] pcieport 0000:3a:00.0: pciehp: Slot(3): Cannot train link: status 0x0001"),
    ("link_training_failed", PORT, UP + "[ 101.5] pcieport 0000:3a:00.0: pciehp: Slot(3): No link"),
    ("link_lost", GPU, FOUND + "[ 900.0] pcieport 0000:3a:00.0: pciehp: Slot(3): Link Down"),
    ("link_lost", "0000:09:00.0", """
[Tue Sep 19 08:41:11 2023] pciehp 0000:04:05.0:pcie24: slot(6): Link Down event
[Tue Sep 19 08:41:11 2023] pciehp 0000:04:05.0:pcie24: pciehp_unconfigure_device: domain:bus:dev = 0000:09:00
[Tue Sep 19 08:41:12 2023] pciehp 0000:04:05.0:pcie24: Timeout on hotplug command 0x1431 (issued 1000 msec ago)"""),
    ("link_downtrained", GPU, FOUND + (
        "[ 100.5] pci 0000:3b:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at "
        "0000:3a:00.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)")),
    ("slot_power_fault", PORT, UP + """
[ 101.1] pcieport 0000:3a:00.0: pciehp: Slot(3): Power fault
[ 102.2] pcieport 0000:3a:00.0: pciehp: Slot(3): Cannot train link: status 0x0001"""),
    ("presence_flapping", GPU, FOUND + "".join(
        f"[ {110 + 5 * i}.0] pcieport 0000:3a:00.0: pciehp: Slot(3): Card {'' if i % 2 else 'not '}present\n"
        for i in range(5))),
    ("hotplug_command_timeout", PORT, """
[ 100.1] pcieport 0000:3a:00.0: pciehp: Slot(3): Button press: will power on in 5 sec
[ 106.1] pcieport 0000:3a:00.0: pciehp: Timeout on hotplug command 0x01f1 (issued 1016 msec ago)"""),
    ("surprise_removal", GPU, FOUND + """
[ 900.0] pcieport 0000:3a:00.0: pciehp: Slot(3): Link Down
[ 900.0] pcieport 0000:3a:00.0: pciehp: Slot(3): Card not present
[ 900.1] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."""),
    ("aer_uncorrectable_unrecovered", "0000:2f:00.0", """
[ 4410.60] pcieport 0000:00:07.0: AER: Uncorrectable (Non-Fatal) error message received from 0000:2f:00.0
[ 4410.60] nvidia 0000:2f:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer
[ 4410.61] nvidia 0000:2f:00.0: AER: can't recover (no error_detected callback)
[ 4410.61] pcieport 0000:00:07.0: AER: device recovery failed"""),
    ("dpc_containment", "0000:9d:00.0", """
[ 51200.1] pcieport 0000:9c:01.0: DPC: containment event, status:0x1f05, ERR_FATAL received from 0000:9d:00.0
[ 51201.4] pcieport 0000:9c:01.0: AER: device recovery failed"""),
    ("dpc_containment", GPU, FOUND + """
[ 900.1] pcieport 0000:3a:00.0: DPC: containment event, status:0x1f01 source:0x0000
[ 900.1] pcieport 0000:3a:00.0: DPC: unmasked uncorrectable error detected
[ 901.4] pcieport 0000:3a:00.0: AER: device recovery failed"""),
    ("device_inaccessible", "0000:9f:00.0", """
[ 84112.0] vfio-pci 0000:9f:00.0: not ready 1023ms after FLR; waiting
[ 84177.8] vfio-pci 0000:9f:00.0: not ready 65535ms after FLR; giving up"""),
    ("device_inaccessible", "0000:c1:00.0", """
[221010.1] NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."""),
    ("driver_not_loaded", "0000:c1:00.0", """
[ 211.0] [ascend] [drv_pcie] [drv_pcie_probe 2122] <kworker/0:2:871:871> Probe driver IN. (bdf=c1:00.0)
[ 211.1] [ascend] [drv_pcie] [devdrv_probe 2081] <kworker/0:2:871:871> Probe driver ends, waiting. (devid=0)
[ 337.2] [ascend] [ERROR] [drv_pcie] [devdrv_check 1261] <kworker/u256:4> Wait depend modules timeout. (dev_id=0)
[ 337.2] [ascend] [ERROR] [drv_pcie] [devdrv_show 1236] <kworker> Depend unprobed module. (dev_id=0; name=asdrv)"""),
    ("module_signature_rejected", GPU, FOUND + "[ 103.2] Loading of module with unavailable key is rejected"),
    ("module_abi_mismatch", GPU, FOUND + "[ 103.2] nvidia: disagrees about version of symbol module_layout"),
    ("driver_lib_version_mismatch", GPU, FOUND + """
[ 999.1] NVRM: API mismatch: the client has the version 550.90.07, but
               NVRM: this kernel module has the version 550.54.15."""),
    ("wrong_driver_bound", GPU, FOUND + """
[ 3100.1] NVRM: GPU 0000:3b:00.0 is already bound to nouveau.
[ 3100.1] NVRM: The NVIDIA probe routine was not called for 1 device(s)."""),
    ("vfio_group_not_viable", "0000:00:1d.2", """
qemu-system-x86_64: -device vfio-pci,host=0000:00:1d.2: vfio 0000:00:1d.2: group 8 is not viable"""),
    ("iommu_disabled", "0001:01:00.0", """
[ 1.1] pci 0001:01:00.0: [8086:1521] type 00 class 0x020000
[ 221.0] vfio-pci 0001:01:00.0: probe with driver vfio-pci failed with error -22"""),
    ("iommu_dma_fault", "0000:00:02.0", """
[ 312.44] DMAR: [DMA Read] Request device [00:02.0] fault addr 9c000000 [fault reason 06] PTE Read access is not set
[ 312.45] DMAR: [DMA Read] Request device [00:02.0] fault addr 9c040000 [fault reason 06] PTE Read access is not set
"""),
    ("bar_claimed_by_other", GPU, FOUND + """
[ 101.0] nvidia 0000:3b:00.0: BAR 0 [mem 0x82000000-0x82ffffff]: can't reserve
[ 101.1] nvidia: probe of 0000:3b:00.0 failed with error -16"""),
    ("rebar_failed", GPU, FOUND + """
[ 101.0] pci 0000:3b:00.0: BAR 1 [mem 0x6000000000-0x600fffffff 64bit pref]: assigned
[ 102.4] NVRM: No address space to allocate resized BAR1.
[ 102.4] NVRM: Fatal Error while attempting to resize PCIe BARs.
[ 102.5] nvidia 0000:3b:00.0: probe with driver nvidia failed with error -1"""),
    ("irq_vectors_unavailable", "0000:41:00.0", """
[ 4411.26] [ascend] [drv_pcie] [drv_pcie_probe 2122] <irq/51-pciehp:488:488> Probe driver IN. (bdf=41:00.0)
[ 4411.27] [ascend] [ERROR] [drv_pcie] [init 535] <irq/51-pciehp:488:488> vector_num is error. (dev_id=7)
[ 4411.28] devdrv_device_driver: probe of 0000:41:00.0 failed with error -22"""),
    ("firmware_missing", "0000:01:00.0", """
[ 10.2] labaccel 0000:01:00.0: Direct firmware load for labaccel/fw-missing.bin failed with error -2
[ 10.2] labaccel 0000:01:00.0: probe with driver labaccel failed with error -2"""),
    ("firmware_missing", "0000:01:00.0", """
[ 10.2] labaccel 0000:01:00.0: Direct firmware load for labaccel/fw-missing.bin failed with error -2
[ 10.2] labaccel: probe of 0000:01:00.0 failed with error -2"""),
    ("firmware_incompatible", "0000:c7:00.1", """
[ 6.4] amdxdna 0000:c7:00.1: [drm] *ERROR* aie2_check_protocol: Incompatible firmware protocol major 7 minor 3
[ 6.4] amdxdna 0000:c7:00.1: probe with driver amdxdna failed with error -22"""),
    ("device_boot_timeout", "0000:01:00.0",
     "[ 10.2] labaccel 0000:01:00.0: probe with driver labaccel failed with error -110"),
    ("device_boot_timeout", "0000:01:00.0", "[ 10.2] labaccel: probe of 0000:01:00.0 failed with error -110"),
    ("driver_init_failed", "0000:01:00.0",
     "[ 10.2] labaccel 0000:01:00.0: probe with driver labaccel failed with error -5"),
    ("driver_init_failed", GPU, FOUND + "[ 338.1] NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0xffff:2477)"),
    ("device_in_use", GPU, FOUND + """
[ 1811.1] NVRM: Attempting to remove device 0000:3b:00.0 with non-zero usage count!
[ 1932.1] INFO: task tee:6120 blocked for more than 120 seconds."""),
    ("driver_hung_on_removal", GPU, FOUND + """
[ 8101.1] pcieport 0000:3a:00.0: pciehp: Slot(3): Card not present
[ 8224.4] INFO: task irq/77-pciehp:611 blocked for more than 122 seconds."""),
    ("hotplug_request_ignored", PORT, """
[ 4501.1] pcieport 0000:3a:00.0: pciehp: Slot(3): Button press: will power on in 5 sec
[ 4503.6] pcieport 0000:3a:00.0: pciehp: Slot(3): Button press: ignoring invalid state 0x5"""),
    ("hotplug_thread_dead", GPU, FOUND + """
[ 100.5] BUG: kernel NULL pointer dereference, address: 0000000000000028
[ 100.5] CPU: 12 PID: 611 Comm: irq/77-pciehp Tainted: P           OE     5.15.0-91-generic
[ 100.6] genirq: exiting task "irq/77-pciehp" (611) is an active IRQ thread (irq 77)"""),
    ("latch_open", PORT, "[ 105.1] pcieport 0000:3a:00.0: pciehp: Slot(3): Latch open"),
    ("ghost_device", GPU, UP + """
[ 100.4] pcieport 0000:3a:00.0: pciehp: Device 0000:3b:00.0 already exists at 0000:3b:00, cannot hot-add"""),
    ("reset_hotplug_race", "0000:c1:00.0", """
[ 9001.1] [ascend] [drv_pcie] [devdrv_unbind 5805] <npu-smi:41220:41220> Pcie hotreset, unbind driver. (bdf=c1:00.0)
[ 9002.0] [ascend] [drv_pcie] [devdrv_hot 6385] <npu-smi:41220:41220> Device hot reset begin. (dev_id=4)
[ 9002.6] [ascend] [ERROR] [drv_pcie] [hot 6578] <plugin:3310:41260> Pcie hotreset, but device on process. (index_id=4)
"""),
]


@pytest.mark.parametrize(("cause", "address", "log"), FAULTS, ids=lambda value: str(value)[:40])
def test_a_cause_is_told_from_its_log(cause: str, address: str, log: str) -> None:
    found = of_texts(log)
    assert (found.verdict, *answer(found)) == ("fault", cause, address)
    assert found.root_cause is not None
    assert found.root_cause.action
    assert found.root_cause.evidence
    states = {state.layer: state.state for state in found.layers}
    assert states[found.root_cause.layer] == "fault"


HEALTHY = [
    ("a card came up", FOUND + """
[ 100.5] pci 0000:3b:00.0: BAR 0 [mem 0x82000000-0x82ffffff]: assigned
[ 100.6] nvidia 0000:3b:00.0: enabling device (0000 -> 0002)
[ 101.6] nvidia: module license 'NVIDIA' taints kernel.
[ 103.6] [drm] Initialized nvidia-drm 0.0.0 for 0000:3b:00.0 on minor 1"""),
    ("the second pass found room", FOUND + """
[ 100.5] pci 0000:3b:00.0: BAR 1: no space for [mem size 0x200000000 64bit pref]
[ 100.5] pci 0000:3b:00.0: BAR 1: failed to assign [mem size 0x200000000 64bit pref]
[ 100.6] pci 0000:3b:00.0: BAR 1: assigned [mem 0x21000000000-0x211ffffffff 64bit pref]"""),
    ("I/O windows are optional", """
[ 0.8] pci 0000:00:1c.0: BAR 13: no space for [io  size 0x1000]
[ 0.8] pcieport 0000:00:1c.4: bridge window [io  size 0x1000]: can't assign; no space"""),
    ("corrected errors", """
[ 60.1] pcieport 0000:3a:00.0: AER: Corrected error message received from 0000:3b:00.0
[ 60.2] nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)
[ 60.2] nvidia 0000:3b:00.0:   device [10de:2330] error status/mask=00000001/0000a000"""),
    ("a recovered error", """
[ 60.1] pcieport 0000:3a:00.0: AER: Uncorrectable (Non-Fatal) error message received from 0000:3b:00.0
[ 60.2] nvme 0000:3b:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer
[ 60.4] pcieport 0000:3a:00.0: AER: device recovery successful"""),
    ("a recovered containment", """
[ 60.1] pcieport 0000:3a:00.0: DPC: containment event, status:0x1f01 source:0x0000
[ 60.1] pcieport 0000:3a:00.0: DPC: unmasked uncorrectable error detected
[ 60.5] pcieport 0000:3a:00.0: AER: device recovery successful"""),
    ("a removal by the button", """
[ 60.1] pcieport 0000:3a:00.0: pciehp: Slot(3): Button press: will power off in 5 sec
[ 65.2] pcieport 0000:3a:00.0: pciehp: Slot(3): Link Down
[ 65.3] nvme 0000:3b:00.0: Removing from iommu group 12"""),
    ("a reset that took its time", """
[ 5.1] vfio-pci 0000:9f:00.0: not ready 1023ms after FLR; waiting
[ 7.1] vfio-pci 0000:9f:00.0: ready 2047ms after FLR"""),
    ("a small BAR will do", """
[ 5.1] amdgpu 0000:03:00.0: amdgpu: Not enough PCI address space for a large BAR.
[ 6.1] [drm] Initialized amdgpu 3.61.0 for 0000:03:00.0 on minor 0"""),
    ("firmware that is optional", """
[ 5.1] i915 0000:00:02.0: Direct firmware load for i915/adlp_dmc.bin failed with error -2
[ 6.1] [drm] Initialized i915 1.6.0 20230929 for 0000:00:02.0 on minor 0"""),
]


@pytest.mark.parametrize(("claim", "log"), HEALTHY, ids=[claim for claim, _ in HEALTHY])
def test_a_healthy_log_raises_no_alarm(claim: str, log: str) -> None:
    found = of_texts(log)
    assert (found.verdict, found.root_cause, found.findings) == ("healthy", None, ()), claim


def test_a_card_that_works_with_a_small_bar_is_a_warning():
    found = of_texts("""
[ 5.1] xe 0000:03:00.0: [drm] Failed to resize BAR2 to 16384M (-ENOSPC). Consider enabling 'Resizable BAR' support
[ 6.1] [drm] Initialized xe 1.1.0 for 0000:03:00.0 on minor 0""")
    assert found.root_cause is not None
    assert (found.root_cause.id, found.root_cause.severity) == ("rebar_failed", Severity.WARNING)


def test_half_of_what_a_rule_needs_does_not_make_a_failure_known():
    found = of_texts("""
[ 5.1] pci 0000:03:00.0: BAR 1 [mem 0x38000000000-0x380ffffffff 64bit pref]: assigned""",
                     "trainer: ioctl on the card failed: No such device (ENODEV)")
    assert found.verdict == "unknown"


NIC = "0000:17:00.0"
NEIGHBOUR = """
[ 1.1] pci 0000:3b:00.0: [10de:2330] type 00 class 0x030200 PCIe Endpoint
[ 6.1] [drm] Initialized nvidia-drm 0.0.0 for 0000:3b:00.0 on minor 0"""
NO_ACCELERATORS = [
    ("a wireless card's firmware of many names", """
[ 4.1] iwlwifi 0000:00:14.3: firmware: failed to load iwl-debug-yoyo.bin (-2)"""),
    ("a network card's firmware", """
[ 4.1] r8169 0000:17:00.0: Direct firmware load for rtl_nic/rtl8125b-2.fw failed with error -2"""),
    ("a device that is on no PCI bus", """
[ 4.1] bluetooth hci0: firmware: failed to load intel/ibt-0180-0041.sfi (-2)
[ 4.2] Bluetooth: hci0: Direct firmware load for intel/ibt-0180-0041.sfi failed with error -2
[ 4.3] platform regulatory.0: Direct firmware load for regulatory.db failed with error -2"""),
    ("virtual functions without room, told by the driver", """
[ 4.1] mlx5_core 0000:17:00.0: not enough MMIO resources for SR-IOV"""),
    ("virtual functions without room, told by their BARs", """
[ 0.9] pci 0000:17:00.0: [15b3:101d] type 00 class 0x020000
[ 1.1] pci 0000:17:00.0: BAR 7: no space for [mem size 0x02000000 64bit pref]
[ 1.1] pci 0000:17:00.0: BAR 9: failed to assign [mem size 0x02000000 64bit pref]
[ 1.1] pci 0000:17:00.0: VF BAR 0 [mem size 0x02000000 64bit pref]: can't assign; no space"""),
    ("a network card in a narrower slot, told by its driver", """
[ 4.1] ixgbe 0000:17:00.0: 16.000 Gb/s available PCIe bandwidth, limited by 5.0 GT/s PCIe x4 link at 0000:16:00.0 \
(capable of 32.000 Gb/s with 5.0 GT/s PCIe x8 link)"""),
    ("a network card in a narrower slot, told by its class", """
[ 0.9] pci 0000:17:00.0: [8086:1528] type 00 class 0x020000
[ 1.1] pci 0000:17:00.0: 16.000 Gb/s available PCIe bandwidth, limited by 5.0 GT/s PCIe x4 link at 0000:16:00.0 \
(capable of 32.000 Gb/s with 5.0 GT/s PCIe x8 link)"""),
    ("a disk that gave up", """
[ 9.1] pci 0000:17:00.0: [144d:a80a] type 00 class 0x010802
[ 9.3] nvme 0000:17:00.0: Unable to change power state from D3cold to D0, device inaccessible"""),
]


@pytest.mark.parametrize(("claim", "log"), NO_ACCELERATORS, ids=[claim for claim, _ in NO_ACCELERATORS])
def test_what_ails_a_device_that_is_plainly_no_accelerator_is_no_fault(claim: str, log: str) -> None:
    beside = of_texts(NEIGHBOUR + log)
    assert (beside.verdict, beside.root_cause, beside.findings) == ("healthy", None, ()), claim
    alone = of_texts(log)
    assert (alone.verdict, alone.root_cause, alone.findings) == ("unknown", None, ()), "and proves nothing healthy"


def test_what_ails_a_network_card_is_ruled_out_with_the_reason_and_said_when_it_was_named() -> None:
    log = NO_ACCELERATORS[5][1]
    (out,) = of_texts(log).ruled_out
    assert (out.root_cause, out.address) == ("link_downtrained", NIC)
    assert "a network card" in out.because
    assert answer(of_texts(log, named=(NIC,))) == ("link_downtrained", NIC)


@pytest.mark.parametrize("line", [
    "labaccel 0000:17:00.0: Direct firmware load for labaccel/fw.bin failed with error -2",
    "snd_hda_intel 0000:17:00.1: Unable to change power state from D3cold to D0, device inaccessible",
])
def test_what_may_be_an_accelerator_stays_one(line: str) -> None:
    assert of_texts(f"[ 4.1] {line}").verdict == "fault"


ASLEEP = "[ 800.1] PM: suspend entry (deep)\n{}\n[ 803.0] PM: suspend exit"


@pytest.mark.parametrize("class_", ["0x010802", "0x0c0330"])
def test_what_is_unplugged_while_the_machine_sleeps_is_no_surprise(class_: str) -> None:
    found = of_texts(UP + f"[ 100.4] pci 0000:3b:00.0: [144d:a80a] type 00 class {class_}\n" + NEIGHBOUR.replace(
        "3b:00", "c1:00") + "\n" + ASLEEP.format(
        "[ 801.0] pcieport 0000:3a:00.0: pciehp: Slot(3): Link Down\n"
        "[ 801.0] pcieport 0000:3a:00.0: pciehp: Slot(3): Card not present"))
    assert (found.verdict, found.findings) == ("healthy", ())


@pytest.mark.parametrize(("cause", "line"), [
    ("device_inaccessible", "nvidia 0000:3b:00.0: Unable to change power state from D3cold to D0, device inaccessible"),
    ("link_lost", "pcieport 0000:3a:00.0: pciehp: Slot(3): Link Down"),
])
def test_a_card_that_does_not_wake_with_the_machine_is_a_fault(cause: str, line: str) -> None:
    assert answer(of_texts(FOUND + ASLEEP.format(f"[ 802.0] {line}"))) == (cause, GPU)


def test_an_empty_slot_has_no_link_to_lose() -> None:
    boot = "[ 2.1] pcieport 0000:3a:00.0: pciehp: Slot #3 AttnBtn+ PwrCtrl+ MRL- AttnInd+ PwrInd+ HotPlug+ Surprise-\n"
    down = "[ 2.3] pcieport 0000:3a:00.0: pciehp: Slot(3): Link Down\n"
    assert of_texts(boot + down + NEIGHBOUR.replace("3b:00", "c1:00")).findings == ()
    assert answer(of_texts(boot + FOUND + down.replace("2.3", "900.0"))) == ("link_lost", GPU)
    assert answer(of_texts(boot + UP + down.replace("2.3", "900.0")))[0] == "link_lost", "it was announced"


@pytest.mark.parametrize("cancel", [
    "Button press: canceling request to power on", "Action canceled due to button press",
])
def test_taking_a_request_back_is_no_fault_unless_it_leaves_a_card_without_power(cancel: str) -> None:
    log = f"""
[ 4501.1] pcieport 0000:3a:00.0: pciehp: Slot(3): Button press: will power on in 5 sec
[ 4503.6] pcieport 0000:3a:00.0: pciehp: Slot(3): {cancel}"""
    assert (of_texts(log).verdict, of_texts(log).findings) == ("healthy", ())
    lspci = """\
3a:00.0 PCI bridge: Intel Corporation Device 352a (rev 04) (prog-if 00 [Normal decode])
\t\tSltCap:\tAttnBtn+ PwrCtrl+ MRL- AttnInd+ PwrInd+ HotPlug+ Surprise-
\t\tSltSta:\tStatus: AttnBtn- PowerFlt- MRL- CmdCplt- PresDet+ Interlock-
"""
    assert answer(of_texts(log, lspci=lspci)) == ("hotplug_request_ignored", PORT)


@pytest.mark.parametrize("text", [
    "If the log says `NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus`, reseat the card.",
    "Look for `GPU is lost` and `pcieport 0000:3a:00.0: pciehp: Slot(3): Power fault`.",
    '\tpci_err(dev, "Unable to change power state from %s to D0, device inaccessible\\n",',
    '\tdev_err(dev, "device lost from bus!\\n");',
])
def test_what_only_speaks_of_a_failure_reports_none(text: str) -> None:
    found = of_texts(text)
    assert (found.verdict, found.findings) == ("unknown", ())


def test_a_log_line_in_backticks_is_a_log_line() -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
    assert answer(of_texts(f"`{line}`")) == answer(of_texts(line)) == ("device_inaccessible", GPU)


@pytest.mark.parametrize("tail", [" and so on", ",x"])
def test_what_is_shown_of_a_line_is_cut_with_a_mark(tail: str) -> None:
    line = "[ 9.1] nvidia 0000:3b:00.0: Direct firmware load for a failed with error -2" + tail * 200_000
    odd = "[ 9.2] nvidia 0000:3b:00.0: failed as never before" + tail * 200_000
    found = of_texts(f"{line}\n{odd}")
    assert found.root_cause is not None
    (proof,) = found.root_cause.evidence
    assert proof.text.endswith(f"({len(line) - len('[ 9.1] ') - 2000:,} characters left out)")
    shown = [proof.text, found.root_cause.title, *(m.text for m in found.timeline), *(s.because for s in found.layers)]
    assert max(map(len, shown)) < 2200


# --- what time alone ties -----------------------------------------------------------------------------------------

CAME = """
[ {}.0] pci 0000:c1:00.0: [1002:74a1] type 00 class 0x120000
[ {}.1] pci 0000:c1:00.0: BAR 0 [mem 0x6000000000-0x600fffffff 64bit pref]: assigned
[ {}.2] amdgpu 0000:c1:00.0: enabling device (0000 -> 0002)
[ {}.9] [drm] Initialized amdgpu 3.61.0 for 0000:c1:00.0 on minor 1"""
FAR, FAR_PORT = "0000:c1:00.0", "0000:16:02.0"


def came(second: int) -> str:
    return CAME.format(*[second] * 4)


def slot_says(*lines: str, at: int = 100) -> str:
    return "".join(f"\n[ {at}.{i}] pcieport {FAR_PORT}: pciehp: Slot(3): {line}" for i, line in enumerate(lines))


@pytest.mark.parametrize(("cause", "lines"), [
    ("slot_power_fault", ["Power fault"]),
    ("slot_power_fault", ["Card present", "Power fault"]),
    ("slot_power_fault", ["Power fault", "Card present", "Link Up"]),
    ("link_training_failed", ["Card present", "Link Up", "Cannot train link: status 0x0001"]),
    ("link_training_failed", ["No link"]),
    ("link_training_failed", ["Link Up", "No device found"]),
    ("surprise_removal", ["Card not present"]),
    ("link_lost", ["Link Down"]),
    ("latch_open", ["Latch open"]),
])
def test_a_card_that_comes_soon_after_clears_no_failure_of_a_slot(cause: str, lines: list[str]) -> None:
    found = of_texts(slot_says(*lines) + came(101))
    assert found.verdict == "fault"
    assert found.root_cause is not None
    assert (found.root_cause.id, found.root_cause.slot) == (cause, "3")


@pytest.mark.parametrize("lines", [["Power fault"], ["No link"], ["Card not present"], ["Link Down"]])
def test_a_card_that_comes_is_not_put_where_one_went_or_never_came(lines: list[str]) -> None:
    found = of_texts(slot_says(*lines) + came(101))
    assert answer(found)[1] == FAR_PORT
    assert [(one.slot, one.verdict) for one in found.devices if one.address == FAR] == [(None, "healthy")]


def test_a_card_that_comes_right_after_a_slot_announced_one_is_in_it() -> None:
    found = of_texts(slot_says("Card present", "Link Up") + came(101))
    assert (found.verdict, [(one.address, one.slot) for one in found.devices]) == ("healthy", [(FAR, "3")])


def test_a_card_that_goes_right_after_a_slot_lost_one_was_in_it() -> None:
    found = of_texts(slot_says("Card not present") + f"\n[ 101.0] nvme {FAR}: Removing from iommu group 12")
    assert answer(found) == ("surprise_removal", FAR)


def test_what_only_time_put_into_a_slot_gives_way_to_the_card_right_below_it() -> None:
    below = "\n[ 101.5] pci 0000:17:00.0: [10de:2330] type 00 class 0x030200"
    found = of_texts(slot_says("Card present", "Link Up") + came(101) + below + slot_says("Link Down", at=900))
    assert answer(found) == ("link_lost", "0000:17:00.0")


# --- what began and did not end -----------------------------------------------------------------------------------

HUNG = """
[ 242.7] INFO: task kworker/0:2:871 blocked for more than 120 seconds.
[ 242.7]       Tainted: G           OE      6.8.0 #1
[ 242.7] Call Trace:
[ 242.7]  <TASK>
[ 242.7]  __schedule+0x2e4/0x8c0
[ 242.7]  {}
[ 242.7]  </TASK>"""


@pytest.mark.parametrize("lines", [
    ["Card present"], ["Link Up"], ["Card present", "Link Up"], ["Button press: will power on in 5 sec"],
    ["Powering on due to button press"],
])
def test_a_card_that_was_announced_and_never_came_leaves_nothing_healthy(lines: list[str]) -> None:
    found = of_texts(came(50) + slot_says(*lines))
    assert (found.verdict, found.root_cause) == ("unknown", None)
    assert {(one.address, one.slot, one.verdict) for one in found.devices} == {
        (FAR, None, "healthy"), (None, "3", "unknown"),
    }
    assert "slot 3 announced a card" in next(one.because for one in found.layers if one.layer.value == "hardware")
    assert found.collect_next


def test_a_card_switched_off_again_in_order_is_no_open_end() -> None:
    off = slot_says("Button press: will power off in 5 sec", at=200)
    assert of_texts(came(50) + slot_says("Card present") + off).verdict == "healthy"


def test_a_driver_that_began_and_never_ended_is_not_healthy() -> None:
    found = of_texts("\n".join(came(50).split("\n")[:-1]))
    assert (found.verdict, found.root_cause) == ("unknown", None)
    assert "no later line shows it done" in next(one.because for one in found.layers if one.layer.value == "driver")


def test_a_card_that_a_vm_opens_is_no_open_end() -> None:
    found = of_texts("\n".join(came(50).split("\n")[:-2]) + f"\n[ 60.0] vfio-pci {FAR}: enabling device (0000 -> 0003)")
    assert found.verdict == "healthy"


@pytest.mark.parametrize("frame", [
    "amdgpu_device_init+0x1a2/0x2300 [amdgpu]", "amdgpu_device_init+0x1a2/0x2300", "amdgpu_pci_probe+0x1/0x2 [amdgpu]",
])
def test_a_driver_that_hangs_in_its_start_is_a_fault(frame: str) -> None:
    found = of_texts("\n".join(came(50).split("\n")[:-1]) + HUNG.format(frame))
    assert answer(found) == ("driver_init_failed", FAR)


@pytest.mark.parametrize(("frame", "verdict"), [
    ("amdgpu_vm_fini+0x1a2/0x2300 [amdgpu]", "unknown"), ("pciehp_ist+0x1/0x2", "unknown"),
    ("nfs_wait_bit_killable+0x1/0x2 [nfs]", "healthy"),
])
def test_a_hung_task_counts_where_its_stack_concerns_a_card(frame: str, verdict: str) -> None:
    found = of_texts(came(50) + HUNG.format(frame))
    assert (found.verdict, found.root_cause) == (verdict, None)


# --- what is said of the answer -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "cause"), [
    ("DOWN", "device_inaccessible"), ("broken", "device_inaccessible"), ("healthy", "device_heartbeat_lost"),
])
def test_a_lost_heartbeat_is_told_from_a_lost_link(state: str, cause: str) -> None:
    found = of_texts(f"[ 700.1] habanalabs 0000:3b:00.0: Device heartbeat failed! PCI link is {state}")
    assert (answer(found), [one.id for one in found.findings]) == ((cause, GPU), [cause])


def test_one_blocked_dma_access_of_a_running_card_proves_nothing() -> None:
    found = of_texts("""
[ 700.1] DMAR: DRHD: handling fault status reg 3
[ 700.1] DMAR: [DMA Read NO_PASID] Request device [3b:00.0] fault addr 0x8b000000 [fault reason 0x06] not set""")
    assert (found.verdict, {one.state for one in found.layers}) == ("unknown", {"unknown"})


CONTAINED = """
[ 700.1] pcieport 0000:5d:00.0: DPC: containment event, status:0x1f01 source:0x0000
[ 700.2] pcieport 0000:5d:00.0: DPC: unmasked uncorrectable error detected{}
[ {}] nvidia 0000:5e:00.0: AER: can't recover (no error_detected callback)"""


def test_a_containment_heads_the_error_of_the_card_right_below_its_port() -> None:
    found = of_texts(CONTAINED.format("", "700.3"))
    assert answer(found) == ("dpc_containment", "0000:5e:00.0")
    assert [(one.id, one.follows_from) for one in found.findings] == [
        ("dpc_containment", None), ("aer_uncorrectable_unrecovered", "dpc_containment"),
    ]


@pytest.mark.parametrize(("beside", "at"), [
    ("", "712.0"),
    ("\n[ 700.2] pcieport 0000:5d:01.0: DPC: containment event, status:0x1f01 source:0x0000", "700.3"),
])
def test_a_containment_and_an_error_that_are_not_plainly_one_are_both_said(beside: str, at: str) -> None:
    found = of_texts(CONTAINED.format(beside, at))
    assert {(one.id, one.follows_from) for one in found.findings} == {
        ("dpc_containment", None), ("aer_uncorrectable_unrecovered", None),
    }


def test_failure_lines_that_no_rule_knows_are_counted_quoted_and_named() -> None:
    found = of_texts("""
[ 700.1] NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python3, DBE (double bit error) ECC error
[ 700.2] NVRM: Xid (PCI:0000:3b:00): 64, pid=1, name=python3, row remapper
[ 700.3] nvidia 0000:3b:00.0: frobnicator failed: $(reboot)""")
    driver = next(one for one in found.layers if one.layer.value == "driver")
    assert (found.verdict, driver.state) == ("unknown", "unknown")
    assert driver.because.startswith("3 failures without a known cause")
    assert "Xid (PCI:0000:3b:00): 48" in driver.because
    assert "Xid 48, 64 and log0:3" in found.collect_next[0]
    assert not any("$(" in command for command in found.collect_next), "what a log says is never for the shell"


@pytest.mark.parametrize(("cause", "log"), [
    ("device_heartbeat_lost", "[drm] Initialized nvidia-drm 0.0.0 for 0000:3b:00.0 on minor 0\n{}"),
    ("device_heartbeat_lost", "{}"),
    ("device_boot_timeout", "{}\nNVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x65:1860)"),
])
def test_a_processor_that_falls_silent_failed_to_boot_only_while_it_was_booting(cause: str, log: str) -> None:
    silent = "NVRM: Xid (PCI:0000:3b:00): 119, pid=41, name=python3, Timeout after 6s of waiting for RPC response!"
    assert answer(of_texts(log.format(silent))) == (cause, GPU)


@pytest.mark.parametrize(("stamp", "time"), [
    ("[   21.438405] ", "[  21.438405]"), ("2026-03-02T08:10:01,500000+00:00 ", "2026-03-02T08:10:01.500000+00:00"),
    ("", None),
])
def test_evidence_says_when(stamp: str, time: str | None) -> None:
    found = of_texts(f"{stamp}labaccel 0000:01:00.0: probe with driver labaccel failed with error -5")
    assert found.root_cause is not None
    assert [proof.time for proof in found.root_cause.evidence] == [time]


@pytest.mark.parametrize(("claim", "log"), [
    ("nothing about any device", "[ 1.4] EXT4-fs (nvme0n1p2): mounted filesystem"),
    ("a failure that no rule knows", FOUND + "[ 105.3] nvidia 0000:3b:00.0: frobnicator subsystem failed"),
    ("a code that says nothing by itself",
     "[ERROR] RUNTIME(1,py):2026-03-02-16:40:21.118 rtGetDeviceCount:ErrCode=507899"),
    ("a card that only just came", FOUND),
])
def test_what_cannot_be_told_is_unknown(claim: str, log: str) -> None:
    found = of_texts(log)
    assert (found.verdict, found.root_cause) == ("unknown", None), claim
    assert found.collect_next, "it says what to collect"


def test_what_follows_is_folded_under_its_cause() -> None:
    found = of_texts(FAULTS[0][2])
    assert [(one.id, one.follows_from) for one in found.findings] == [
        ("bar_space_exhausted", None), ("driver_init_failed", "bar_space_exhausted"),
    ]


def test_what_was_ruled_out_is_told_with_the_reason() -> None:
    out = of_texts(HEALTHY[1][1]).ruled_out
    assert [(one.root_cause, one.address) for one in out] == [("bar_space_exhausted", GPU)]
    assert "BAR 1: assigned" in out[0].because


def test_each_device_has_its_own_root_cause_and_the_worst_is_the_machines() -> None:
    found = of_texts("""
[ 1.0] nvidia 0000:41:00.0: probe with driver nvidia failed with error -5
[ 2.0] NVRM: Xid (PCI:0000:c1:00): 79, pid=1, name=python3, GPU has fallen off the bus.
[ 3.0] [drm] Initialized nvidia-drm 0.0.0 for 0000:e1:00.0 on minor 1""")
    assert answer(found) == ("device_inaccessible", "0000:c1:00.0")
    verdicts = {one.address: (one.verdict, one.root_cause.id if one.root_cause else None) for one in found.devices}
    assert verdicts == {
        "0000:41:00.0": ("fault", "driver_init_failed"), "0000:c1:00.0": ("fault", "device_inaccessible"),
        "0000:e1:00.0": ("healthy", None),
    }


def test_two_slots_at_once_are_not_mixed_up() -> None:
    found = of_texts("""
[ 100.1] pcieport 0000:40:01.1: pciehp: Slot(3): Card present
[ 100.1] pcieport 0000:60:01.1: pciehp: Slot(4): Card present
[ 100.5] pci 0000:41:00.0: [19e5:d802] type 00 class 0x120000
[ 100.6] pci 0000:61:00.0: [19e5:d802] type 00 class 0x120000
[ 900.0] pcieport 0000:60:01.1: pciehp: Slot(4): Card not present""")
    assert answer(found) == ("surprise_removal", "0000:61:00.0")


def test_a_line_about_nobody_is_not_pinned_on_one_of_two_cards() -> None:
    two = FOUND + "[ 1.1] pci 0000:c1:00.0: [10de:2330] type 00 class 0x030200\n"
    assert answer(of_texts(two + "[ 9.0] Loading of module with unavailable key is rejected")) == (
        "module_signature_rejected", None,
    )


def test_a_line_that_names_a_vendor_goes_to_the_card_of_that_vendor() -> None:
    mixed = FOUND + "[ 1.1] pci 0000:c1:00.0: [19e5:d802] type 00 class 0x120000\n"
    found = of_texts(mixed, "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service")
    assert answer(found) == ("module_signature_rejected", GPU)


def test_a_dead_branch_is_named_by_its_topmost_bridge() -> None:
    dead = " (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n"
    found = of_texts(
        "[ 71001.1] pcieport 0000:b0:05.0: pciehp: pcie_do_write_cmd: no response from device",
        lspci=f"af:00.0 PCI bridge: PLX Technology, Inc. PEX 8749{dead}"
              f"b0:05.0 PCI bridge: PLX Technology, Inc. PEX 8749{dead}"
              f"b7:00.0 3D controller: NVIDIA Corporation GH100{dead}",
    )
    assert answer(found) == ("device_inaccessible", "0000:af:00.0")


def test_only_the_named_device_is_looked_at() -> None:
    log = "[ 1.0] nvidia 0000:41:00.0: probe with driver nvidia failed with error -5\n" + FAULTS[0][2]
    assert answer(of_texts(log, named=("0000:41:00.0",))) == ("driver_init_failed", "0000:41:00.0")


def test_a_narrow_link_counts_only_against_both_ends() -> None:
    head = "3b:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n"
    link = "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\t\tLnkSta:\tSpeed {}, Width x{}\n"
    idle = of_texts(HEALTHY[0][1], lspci=head + link.format("2.5GT/s (downgraded)", "16 (ok)"))
    assert idle.verdict == "healthy", "an idle GPU lowers its speed on purpose"
    port = ("3a:00.0 PCI bridge: Intel Corporation Device 352a\n\tBus: primary=3a, secondary=3b, subordinate=3b\n"
            "\t\tLnkCap:\tPort #5, Speed 32GT/s, Width x{}\n")
    narrow = head + link.format("32GT/s (ok)", "8 (downgraded)")
    assert answer(of_texts(FOUND, lspci=port.format(16) + narrow)) == ("link_downtrained", GPU)
    assert answer(of_texts(FOUND, lspci=port.format(8) + narrow)) == (None, None), "a slot of eight lanes is no fault"


def test_the_timeline_tells_what_the_lines_mean() -> None:
    found = of_texts(FAULTS[0][2])
    assert [moment.line for moment in found.timeline] == sorted(moment.line or 0 for moment in found.timeline)
    assert all(moment.meaning for moment in found.timeline)
    assert {moment.device for moment in found.timeline} == {GPU}


# --- a machine that was probed ------------------------------------------------------------------------------------


def of_machine(machine: MachineTree, *named: str) -> Diagnosis:
    seen = probe.machine(machine.look(), close=True)
    log = logs.kernel(machine.host)
    whole = replace(seen, logs=log if isinstance(log, tuple) else ())
    return diagnose(whole, RULES, TAXONOMY, machine.profiles, named=named, live=True)


@pytest.fixture
def machine(tmp_path: Path) -> MachineTree:
    return MachineTree(tmp_path)


CARD, ROOT_PORT = "0000:01:00.0", "0000:00:01.0"


@pytest.mark.parametrize(("cause", "card"), [
    ("driver_not_loaded", {"driver": None}),
    ("wrong_driver_bound", {"driver": "nouveau"}),
    ("link_downtrained", {"width": 8}),
    ("device_inaccessible", {"dead": True}),
    ("bar_space_exhausted", {"lost_bar": True, "driver": None}),
    ("dev_node_missing", {"node": False}),
    ("dev_node_permission", {"group": "root"}),
])
def test_a_cause_is_told_from_the_facts_of_a_card(machine: MachineTree, cause: str, card: dict[str, object]) -> None:
    machine.port()
    machine.card(**card)  # type: ignore[arg-type]
    found = of_machine(machine)
    assert answer(found) == (cause, CARD)
    assert any(check.state == "fault" for check in found.checks)


@pytest.mark.parametrize(("cause", "port"), [
    ("slot_powered_off", {"powered": False}),
    ("slot_power_fault", {"status": POWER_FAULT}),
    ("latch_open", {"status": LATCH_OPEN}),
])
def test_a_cause_is_told_from_the_registers_of_a_slot(machine: MachineTree, cause: str, port: dict[str, int]) -> None:
    machine.port(**port)  # type: ignore[arg-type]
    found = of_machine(machine)
    assert answer(found) == (cause, ROOT_PORT)
    assert [(one.address, one.slot) for one in found.devices] == [(None, "1")], "the device itself has no address"


def test_evidence_holds_what_was_seen_and_not_how_we_came_to_ask(machine: MachineTree) -> None:
    machine.port(present=False)
    machine.card("0000:02:00.0", under="0000:00:01.0", driver=None)
    texts = [proof.text for one in of_machine(machine, "slot:1").findings for proof in one.evidence]
    texts += [proof.text for one in of_machine(machine).findings for proof in one.evidence]
    assert texts
    assert not [text for text in texts if text.startswith(("named:", "enumerated:", "bridge:", "profile.", "sure:"))]


def test_a_failed_health_check_is_the_cause_of_a_card_that_is_not_ready() -> None:
    card = Probed(profile="ascend", address=GPU, driver=Driver(name="devdrv_device_driver"), state=State.INITIALISED,
                  rung=State.INITIALISED, missing="ready: its health check failed", sure=True,
                  runtime={"health_check": "failed", "health_said": "npu-smi ended with 1: Alarm"})
    found = diagnose(Machine(host="", devices=(card,)), RULES, TAXONOMY, PROFILES, live=True)
    assert answer(found) == ("health_check_failed", GPU)
    assert found.root_cause is not None
    assert "npu-smi ended with 1: Alarm" in found.root_cause.title
    lost = tuple(read_log("[1.0] hl 0000:3b:00.0: Device heartbeat failed! PCI link is healthy", "dmesg"))
    found = diagnose(Machine(host="", devices=(card,), logs=lost), RULES, TAXONOMY, PROFILES, live=True)
    assert answer(found) == ("device_heartbeat_lost", GPU), "what explains the check's failure goes before it"


def test_nothing_to_look_at_proves_no_layer(machine: MachineTree) -> None:
    machine.kmsg("acpi PNP0A08:00: FADT indicates ASPM is unsupported, using BIOS configuration",
                 "drv: loading out-of-tree module taints kernel.")
    found = of_machine(machine)
    assert (found.verdict, {one.state for one in found.layers}) == ("unknown", {"unknown"})
    assert "hotplugctl list --all-pci" in found.collect_next


@pytest.mark.parametrize("card", [{"status": "boot"}, {"width": 8}])
def test_a_machine_that_was_looked_at_is_not_asked_to_be_looked_at_again(
    machine: MachineTree, card: dict[str, object]
) -> None:
    machine.port()
    machine.card(**card)  # type: ignore[arg-type]
    found = of_machine(machine)
    assert found.verdict != "healthy"
    assert not [command for command in found.collect_next if "--capture" in command]


@pytest.mark.parametrize("lines", [[], ["acpi PNP0A08:00: FADT indicates ASPM is unsupported"]])
def test_an_address_at_which_nothing_is_is_told_so(machine: MachineTree, lines: list[str]) -> None:
    machine.port()
    machine.card()
    machine.kmsg(*lines)
    found = of_machine(machine, GPU)
    assert (found.verdict, {one.state for one in found.layers}) == ("unknown", {"unknown"})
    assert any(f"nothing is at {GPU}" in check.because for check in found.checks)
    assert not any("this card" in check.because for check in found.checks)
    assert any(f"nothing is at {GPU}" in command for command in found.collect_next)


def test_a_check_that_does_not_apply_says_so(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    said = {check.name: (check.state, check.because) for check in of_machine(machine).checks}
    assert said["bars"] == ("ok", "its BAR has its address")
    blank = Probed(profile="generic", address=CARD, driver=Driver(name="x"), nodes=())
    bare = Port(address=ROOT_PORT, slot=SlotControl(presence=True, latch_open=None))
    card = replace(blank, upstream=(bare,))
    found = diagnose(Machine(host="", devices=(card,)), RULES, TAXONOMY, PROFILES, live=True)
    said = {check.name: (check.state, check.because) for check in found.checks}
    assert said["latch"] == ("ok", "this slot has no latch sensor")
    assert said["nodes"] == said["permissions"] == ("ok", "this card has no device nodes")


def test_an_empty_slot_is_a_finding_only_when_it_was_named(machine: MachineTree) -> None:
    machine.port(present=False)
    assert of_machine(machine).verdict == "unknown"
    assert answer(of_machine(machine, "slot:1")) == ("slot_empty", ROOT_PORT)


def test_a_card_handed_to_a_vm_is_in_order(machine: MachineTree) -> None:
    machine.port()
    machine.card(driver="vfio-pci")
    assert of_machine(machine).verdict == "healthy"


def test_a_failure_that_the_card_got_past_is_history(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    machine.kmsg("labaccel 0000:01:00.0: probe with driver labaccel failed with error -5")
    found = of_machine(machine)
    assert found.findings == ()
    assert "since become" in next(out.because for out in found.ruled_out if out.root_cause == "driver_init_failed")


def test_other_devices_of_the_machine_are_not_diagnosed(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    machine.kmsg(
        "e1000e 0000:00:1f.6: probe with driver e1000e failed with error -2",
        "nvme 0000:05:00.0: Unable to change power state from D3cold to D0, device inaccessible",
    )
    assert of_machine(machine).findings == ()


def test_a_pulled_card_is_told_from_its_slots_lines(machine: MachineTree) -> None:
    machine.port(present=False)
    machine.kmsg(
        "pci 0000:01:00.0: [1234:11e8] type 00 class 0x120000",
        "pcieport 0000:00:01.0: pciehp: Slot(1): Card not present",
    )
    assert answer(of_machine(machine)) == ("surprise_removal", CARD)


def test_what_our_own_drain_explains_is_no_finding() -> None:
    held = Held(by="hotplugctl", since="2026-11-29T16:00:00+00:00", reason="swap")
    device = Probed(profile="nvidia", address=GPU, driver=None, held=held, state=State.DRAINED, rung=State.MAPPED,
                    missing="bound: no driver is bound", sure=True)
    found = diagnose(Machine(host="", devices=(device,)), RULES, TAXONOMY, PROFILES, live=True)
    assert (found.verdict, found.findings) == ("healthy", ())
    assert "held by hotplugctl" in found.ruled_out[0].because


def test_a_rule_that_could_not_look_says_so() -> None:
    device: Device = Probed(profile="nvidia", address=GPU, driver=Driver(name="nvidia"))
    gap = Gap("kernel log", "needs root")
    found = diagnose(Machine(host="", devices=(device,), gaps=(gap,)), RULES, TAXONOMY, PROFILES, live=True)
    assert found.verdict == "unknown"
    assert "needs root" in {out.because for out in found.unchecked}


def test_the_walk_names_the_first_station_that_fails(machine: MachineTree) -> None:
    machine.port()
    machine.card(driver=None)
    states = {check.name: check.state for check in of_machine(machine).checks}
    assert (states["enumeration"], states["bars"], states["driver"]) == ("ok", "ok", "fault")


def test_a_slot_without_a_known_port_is_still_a_place() -> None:
    slot = Slot(name="3", port=None, presence=False)
    found = diagnose(Machine(host="", slots=(slot,)), RULES, TAXONOMY, PROFILES, named=("slot:3",), live=True)
    assert answer(found) == ("slot_empty", None)


def test_a_port_in_an_lspci_text_is_enough() -> None:
    port = Port(address=PORT, slot=SlotControl(presence=True, power_fault=True))
    found = diagnose(Machine(host="", ports=(port,)), RULES, TAXONOMY, PROFILES, live=False)
    assert answer(found) == ("slot_power_fault", PORT)


# --- explain, speed, hostile input --------------------------------------------------------------------------------


def test_a_cause_and_a_rule_can_be_explained() -> None:
    assert {rule.id for rule in explain("slot_power_fault", RULES, TAXONOMY).rules} >= {"hw.power-fault"}
    assert [rule.id for rule in explain("hw.power-fault", RULES, TAXONOMY).rules] == ["hw.power-fault"]
    with pytest.raises(HotplugError) as caught:
        explain("slot_power_fualt", RULES, TAXONOMY)
    assert caught.value.exit is Exit.USAGE
    assert "slot_power_fault" in caught.value.why


def tried(name: str, *logs: str) -> Explanation:
    """How a rule or a cause comes out on a log."""
    machine = Machine(host="", logs=read_log("\n".join(logs), "dmesg.txt"))
    return explain(name, RULES, TAXONOMY, scene(machine, RULES, PROFILES, live=False))


PULLED = "[  100.000000] pcieport 0000:64:03.0: pciehp: Slot(3): Card not present"
BUTTON = "[   90.000000] pcieport 0000:64:03.0: pciehp: Slot(3): Button press: will power off in 5 sec"


def test_a_rule_is_explained_by_how_each_part_of_it_came_out_and_where_that_was_read() -> None:
    (trial,) = tried("hw.surprise-removal", PULLED).trials or ()
    assert (trial.rule, trial.slot, trial.answer) == ("hw.surprise-removal", "3", "yes")
    heard, *excuses = trial.steps
    assert heard.answer == "yes"
    assert [(found.source, found.line) for found in heard.found] == [("dmesg.txt", 1)]
    assert excuses
    assert all((step.condition.word, step.answer) == ("unless", "no") for step in excuses)


def test_a_rule_that_was_excused_is_explained_by_the_line_that_excused_it() -> None:
    (trial,) = tried("hw.surprise-removal", BUTTON, PULLED).trials or ()
    assert trial.answer == "no"
    assert [found.line for found in trial.steps[0].excused] == [2]
    assert "will power off" in trial.steps[0].because
    excuses = [step for step in trial.steps if step.condition.word == "unless" and step.answer == "yes"]
    assert {step.found[0].line for step in excuses} == {1}


def test_a_cause_is_explained_by_its_rules_that_have_something_to_say() -> None:
    found = tried("surprise_removal", PULLED)
    assert len(found.rules) > 1
    answers = {trial.rule: trial.answer for trial in found.trials or ()}
    assert answers == {"hw.surprise-removal": "yes", "hw.cable-pulled-in-use": "no"}
    assert tried("surprise_removal", "[    1.000000] nothing").trials == ()
    assert explain("surprise_removal", RULES, TAXONOMY).trials is None


def test_groups_within_a_condition_are_told_apart_by_their_depth() -> None:
    (conditions,) = explain("hw.presence-flapping", RULES, TAXONOMY).conditions
    assert [(one.depth, one.word) for one in conditions if one.text == "all of these"] == [(0, "any")] * 2
    assert {one.depth for one in conditions if one.word == "all"} == {1}


def test_an_excuse_of_another_bar_is_said_to_excuse_nothing() -> None:
    (trial,) = tried(
        "hw.bar-no-space", "[ 1.0] pci 0000:3b:00.0: BAR 1: no space for [mem size 0x2000000000 64bit pref]",
        "[ 1.1] pci 0000:3b:00.0: BAR 3: assigned [mem 0x9c000000-0x9dffffff 64bit pref]").trials or ()
    assert trial.answer == "yes"
    (other,) = [step for step in trial.steps if step.condition.word == "unless" and step.found]
    assert (other.answer, other.because) == ("no", "it is there, and excuses no line of the rule")


@pytest.mark.parametrize("text", [
    "Nov  9 10:00:01 n CRON[991]: (root) CMD (nvidia-smi || echo 'NVRM: Xid (PCI:0000:3b:00): 79, fallen off the bus')",
    "Nov  9 10:00:01 n sudo[12]:  ann : TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/bin/grep 'GPU has fallen off the bus'",
])
def test_what_a_command_speaks_of_has_not_happened(text: str) -> None:
    assert of_texts(text).verdict == "unknown"


def test_what_another_machine_did_excuses_nothing() -> None:
    button = "Nov  9 10:00:01 {} kernel: pcieport 0000:3a:00.0: pciehp: Slot(3): Powering off due to button press"
    pulled = "Nov  9 10:00:04 hostB kernel: pcieport 0000:3a:00.0: pciehp: Slot(3): Card not present"
    assert of_texts(f"{button.format('hostB')}\n{pulled}").verdict != "fault"
    assert answer(of_texts(f"{button.format('hostA')}\n{pulled}"))[0] == "surprise_removal"


@pytest.mark.parametrize("text", [
    "on_" * 3000 + "running for", "/dev/a" * 2000 + "ermission denied", "x" * 60_000 + ": Unknown symbol",
    "[ 1.0] 01:00.0 VGA compatible controller: X" + " (prog-if " * 6000, "a\r" * 2 + "\r" * 60_000 + "b",
])
def test_no_line_takes_long_to_read(text: str) -> None:
    started = time.process_time()
    of_texts(text)
    assert time.process_time() - started < 5.0


def test_what_follows_from_another_layer_leaves_its_own_open() -> None:
    found = of_texts("""
[ 812.5] pci 0000:3b:00.0: BAR 1: no space for [mem size 0x2000000000 64bit pref]
[ 813.0] nvidia: probe of 0000:3b:00.0 failed with error -1""")
    states = {one.layer.value: (one.state, one.because) for one in found.layers}
    assert states["hardware"][0] == "fault"
    assert states["driver"] == (
        "unknown", "0000:3b:00.0: the driver could not initialise the card, which follows from bar_space_exhausted")


def test_a_row_of_a_vendor_s_table_is_about_one_card() -> None:
    found = of_texts("""
| 0     910B3               | OK            | 92.4        45                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3402 / 65536         |
| 1     910B3               | Critical      | 95.1        47                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3402 / 65536         |""")
    assert answer(found) == ("health_check_failed", "0000:c2:00.0")
    lost = of_texts("""
|   1  NVIDIA H100 80GB HBM3          On  | 00000000:65:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!             N/A / ERR!   |   GPU is lost        | ERR!          ERR!   |""")
    assert answer(lost) == ("device_inaccessible", "0000:65:00.0")


def test_a_card_that_came_back_explains_what_began_before_and_not_what_began_later() -> None:
    left = """
[ 100.0] pcieport 0000:3a:00.0: pciehp: Slot(3): Link Down
[ 100.1] nvidia 0000:3b:00.0: device lost from bus!
[ 102.0] pcieport 0000:3a:00.0: pciehp: Slot(3): Link Up
[ 102.5] pci 0000:3b:00.0: [10de:2330] type 00 class 0x030200
[ 104.0] [drm] Initialized nvidia-drm 0.0.0 for 0000:3b:00.0 on minor 1"""
    assert answer(of_texts(left)) == ("link_lost", GPU)
    later = of_texts(left + "\n[ 900.0] NVRM: Xid (PCI:0000:3b:00): 119, pid=4, Timeout after 6s of waiting for RPC!")
    assert answer(later) == ("device_heartbeat_lost", GPU)


def test_a_long_log_is_read_in_reasonable_time() -> None:
    rng = random.Random(7)
    noise = ["usb 1-1: new high-speed USB device", "EXT4-fs (sda1): mounted", "pci 0000:{:02x}:00.0: PME# supported"]
    text = "\n".join(
        f"[{i:6d}.0] " + rng.choice(noise).format(rng.randrange(1, 250)) for i in range(5000)
    ) + "\n[9999.0] pcieport 0000:3a:00.0: pciehp: Slot(3): Power fault"
    start = time.process_time()
    assert answer(of_texts(text))[0] == "slot_power_fault"
    assert time.process_time() - start < 3.0, "well under a second here; slow machines get leave"


def test_no_text_is_too_strange() -> None:
    """Cut, shuffled, doubled, interleaved, mangled: an answer, never a crash, and proofs that are lines of it."""
    rng = random.Random(20261129)
    pool = [line for _, _, log in FAULTS for line in log.splitlines()] + [
        line for _, log in HEALTHY for line in log.splitlines()
    ]
    for _ in range(200):
        chosen = rng.choices(pool, k=rng.randrange(1, 30))
        text = "\n".join(chosen)
        for _ in range(rng.randrange(4)):
            text = rng.choice(MANGLERS)(rng, text)
        content = text.encode(rng.choice(["utf-8", "utf-16", "latin-1", "cp037"]), "replace")
        lines = read_log(content, "log")
        found = diagnose(Machine(host="", logs=lines), RULES, TAXONOMY, PROFILES, live=rng.random() < 0.2)
        read_lspci(text, "lspci")
        there = {line.text for line in lines}
        assert all(proof.text in there for one in found.findings for proof in one.evidence if proof.line is not None)
        assert (found.verdict == "fault") == (found.root_cause is not None)


MANGLERS = [
    lambda rng, text: text[rng.randrange(len(text) + 1):],
    lambda rng, text: text[:rng.randrange(len(text) + 1)],
    lambda rng, text: "\n".join(rng.sample(text.split("\n"), len(text.split("\n")))),
    lambda rng, text: text.replace("\n", "\r\n"),
    lambda rng, text: text.replace(rng.choice("0:.[]()"), rng.choice(["", "\0", "\x1b[31m", "\N{SNOWMAN}", "\\x"])),
    lambda rng, text: "".join(chr(rng.randrange(1, 0x2FF)) if rng.random() < 0.02 else c for c in text),
    lambda rng, text: text * 2,
    lambda rng, text: "\n".join(f"{rng.randrange(9)},{i},{i}000,-;{line}" for i, line in enumerate(text.split("\n"))),
]


def test_an_accelerators_line_is_not_given_to_the_only_other_card() -> None:
    found = of_texts("""
[ 8.8] r8169 0000:83:00.0: invalid VPD tag 0xff (size 0) at offset 0; assume missing optional EEPROM
[ 9.4] NVRM: API mismatch: the client 'kwin_wayland' (pid 1005)
       NVRM: has the version 595.84, but this kernel module has
       NVRM: the version 595.80.""")
    assert answer(found) == ("driver_lib_version_mismatch", None)


def test_a_card_that_was_let_go_and_then_taken_out_was_not_pulled() -> None:
    orderly = """
[ 900.1] pci 0000:3b:00.0: Removing from iommu group 7
[ 930.1] pcieport 0000:3a:00.0: pciehp: Slot(3): Link Down
[ 930.1] pcieport 0000:3a:00.0: pciehp: Slot(3): Card not present"""
    assert answer(of_texts(orderly)) == (None, None)
    assert answer(of_texts(orderly + """
[ 960.1] pci 0000:3b:00.0: [10de:2330] type 00 class 0x030200 PCIe Endpoint
[ 999.1] pcieport 0000:3a:00.0: pciehp: Slot(3): Card not present""")) == ("surprise_removal", GPU)


def test_counts_are_read_from_what_counts() -> None:
    gpus = "nvidia\\.com/gpu"
    offered = f"$ kubectl get node n -o jsonpath='{{.status.capacity.{gpus}}} {{.status.allocatable.{gpus}}}'\n8 "
    listed = "$ nvidia-smi -L | wc -l\n8\n"
    assert answer(of_texts(listed + offered + "7"))[0] == "device_count_not_refreshed"
    assert answer(of_texts(listed + offered + "8"))[0] is None


def test_bars_of_a_short_listing_are_read() -> None:
    listing = read_lspci("""\
8a:00.0 Processing accelerators: Tenstorrent Inc Wormhole (rev 01)
\tMemory at <unassigned> (64-bit, prefetchable)
\tMemory at 38000000000 (64-bit, prefetchable) [size=1M]
\tKernel modules: tenstorrent
""", "lspci.txt")
    bars = listing.devices[0].bars
    assert isinstance(bars, tuple)
    assert [(bar.index, bar.assigned) for bar in bars] == [(0, False), (2, True)]
