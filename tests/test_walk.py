"""The walk from presence to listener on built machines: each station's verdict is right, and says why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hotplugctl.case import from_machine
from hotplugctl.model import Diagnosis
from hotplugctl.select import Filters

from .configspace import Config
from .machine import LATCH_OPEN, POWER_FAULT, PRESENT, REPORTS_ACTIVE, SLOT_CAPABLE, MachineTree

PORT = "0000:00:01.0"
DISABLED, TRAINING = 0x10, 0x800        # Link Control bit 4, Link Status bit 11 (PCIe base spec 7.5.3.7, 7.5.3.8)


def space(machine: MachineTree, *, control: int = 0, status: int = 0, dpc: int | None = None) -> None:
    """Give the port other registers; `dpc` is its DPC Status."""
    config = Config(0x8086, 0x2030, 0x060400, header=1, buses=(0, 1, 1)).express(
        4, speed=1, width=0, slot=(SLOT_CAPABLE, 0, PRESENT), capable=REPORTS_ACTIVE, status=status, control=control)
    if dpc is not None:
        config = config.extended(0x1D, (0x04, 0x20, 2), (0x06, 0x02, 2), (0x08, dpc, 2))
    machine.put(f"{machine.paths[PORT]}/config", config.data)


def diagnosis(machine: MachineTree, named: str = "slot:1") -> Diagnosis:
    return from_machine(machine.look(), (named,), Filters(), None).diagnosis


def walked(machine: MachineTree, named: str = "slot:1") -> dict[str, tuple[str, str]]:
    return {check.name: (check.state, check.because) for check in diagnosis(machine, named).checks}


def faults(machine: MachineTree, named: str = "slot:1") -> list[str]:
    return [name for name, (state, _) in walked(machine, named).items() if state == "fault"]


def plugged(**port: int) -> Callable[[MachineTree], None]:
    return lambda machine: (machine.port(**port), None)[1]  # type: ignore[arg-type]


def registers(**bits: int) -> Callable[[MachineTree], None]:
    def build(machine: MachineTree) -> None:
        machine.port()
        space(machine, **bits)

    return build


def card(**facts: object) -> Callable[[MachineTree], None]:
    def build(machine: MachineTree) -> None:
        machine.port()
        machine.card(**facts)  # type: ignore[arg-type]

    return build


@pytest.mark.parametrize(("claim", "build", "first", "because"), [
    ("powered off", plugged(powered=False), "power", "the slot is powered off"),
    ("latch open", plugged(powered=False, status=LATCH_OPEN), "latch", "the latch is open"),
    ("power fault", plugged(status=POWER_FAULT), "power", "the slot reports a power fault"),
    ("link disabled", registers(control=DISABLED), "link", "the port's link is disabled"),
    ("contained", registers(dpc=0x01), "link", "the port has contained an error (DPC"),
    ("training", registers(status=TRAINING), "link", "the link is training and does not come up"),
    ("link down", registers(), "link", "the link is down"),
    ("empty", plugged(present=False), "presence", "the slot reports no card"),
    ("narrow", card(width=4), "link", "the link runs x4, both ends can do x16"),
    ("dead", card(dead=True), "enumeration", "config space reads as all ones"),
    ("no window", card(lost_bar=True, driver=None), "bars", "1 BAR has no address"),
    ("no driver", card(driver=None), "driver", "no driver is bound"),
    ("wrong driver", card(driver="uio_pci_generic"), "driver", "uio_pci_generic is bound, not labaccel"),
    ("booting", card(status="booting"), "firmware", "initialised: status is 'booting', not 'operational'"),
    ("no node", card(node=False), "nodes", "its driver is bound, and no device node of it is there"),
    ("wrong group", card(group="wheel"), "permissions", "/dev/accel/accel0 belongs to group wheel, mode 0660"),
])
def test_the_first_station_at_fault_is_the_right_one(
    machine: MachineTree, claim: str, build: Callable[[MachineTree], None], first: str, because: str
) -> None:
    build(machine)
    found = walked(machine)
    assert faults(machine)[0] == first, claim
    assert found[first][1].startswith(because)


@pytest.mark.parametrize("build", [plugged(powered=False), plugged(status=POWER_FAULT), registers(control=DISABLED)])
def test_beyond_a_card_that_the_bus_does_not_show_nothing_is_ok_or_at_fault(
    machine: MachineTree, build: Callable[[MachineTree], None]
) -> None:
    build(machine)
    found = walked(machine)
    for name in ("bars", "driver", "firmware", "nodes", "permissions", "runtime", "listener"):
        assert found[name] == ("unknown", "not reached: the bus does not show the card"), name


def test_in_an_empty_slot_there_is_nothing_to_look_at(machine: MachineTree) -> None:
    machine.port(present=False)
    found = walked(machine)
    assert faults(machine) == ["presence"]
    assert {found[name] for name in ("link", "enumeration", "driver", "listener")} == {("unknown", "no card is there")}


def test_what_a_card_does_not_have_is_ok_and_says_so(machine: MachineTree) -> None:
    machine.port()
    machine.card(vendor="1eff", device="1020", driver="rebellions")
    found = walked(machine)
    assert found["nodes"] == found["permissions"] == ("ok", "this card has no device nodes")
    assert found["runtime"] == ("ok", "no health check of such a card is known")


def test_a_node_that_is_named_and_not_there_is_missing(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    (machine.root / "dev/accel/accel0").unlink()
    assert walked(machine)["nodes"] == ("fault", "/dev/accel/accel0 is missing")


def test_a_card_in_a_vm_is_in_order_as_far_as_the_host_goes(machine: MachineTree) -> None:
    machine.port()
    machine.card(driver="vfio-pci")
    found = walked(machine)
    assert (found["driver"][0], found["firmware"][0], found["runtime"][0]) == ("ok", "ok", "ok")


def test_a_library_of_another_version_than_the_loaded_driver_is_a_fault_of_the_runtime(machine: MachineTree) -> None:
    machine.port()
    machine.card(vendor="10de", device="2330", class_="030200", driver="nvidia")
    machine.put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19")
    machine.link("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "libnvidia-ml.so.535.129.03")
    state, because = walked(machine)["runtime"]
    assert (state, "535.104.05" in because, "535.129.03" in because) == ("fault", True, True)
    machine.put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Sat Aug 19")
    assert walked(machine)["runtime"][0] == "unknown"


def test_a_finding_of_the_log_is_seen_at_its_station(machine: MachineTree) -> None:
    machine.port()
    machine.card(driver=None)
    machine.kmsg("labaccel 0000:01:00.0: Direct firmware load for lab/fw.bin failed with error -2",
                 "labaccel 0000:01:00.0: probe with driver labaccel failed with error -2")
    found = diagnosis(machine)
    states = {check.name: check.state for check in found.checks}
    assert (found.root_cause.id if found.root_cause else None, states["firmware"]) == ("firmware_missing", "fault")


def test_an_unknown_answer_names_commands_that_fit_what_is_missing(machine: MachineTree) -> None:
    machine.port()
    machine.card()
    machine.kmsg("labaccel 0000:01:00.0: enabling device (0000 -> 0002)")
    found = diagnosis(machine)
    assert found.verdict == "unknown"
    assert "labctl health 0000:01:00.0" in found.collect_next
    assert "sudo fuser -v /dev/accel/accel0" in found.collect_next
    assert not any("dmesg" in command for command in found.collect_next), "the kernel log is there"


def test_a_port_that_cannot_be_read_is_asked_for_by_its_address(machine: MachineTree) -> None:
    machine.port()
    short = (machine.root / machine.paths[PORT].lstrip("/") / "config").read_bytes()[:64]
    machine.put(f"{machine.paths[PORT]}/config", short)
    for name in ("adapter", "power", "latch"):
        (machine.root / f"sys/bus/pci/slots/1/{name}").unlink()
    found = diagnosis(machine)
    assert (found.verdict, f"sudo lspci -vvv -s {PORT}" in found.collect_next) == ("unknown", True)


def test_an_ascend_card_that_is_not_ready_is_asked_for_its_vendors_logs(machine: MachineTree) -> None:
    machine.port()
    machine.card(vendor="19e5", device="d802", driver="devdrv_device_driver", dev_id="0")
    machine.put("/dev/davinci0", "c 236 0 root HwHiAiUser 0660")
    found = diagnosis(machine)
    assert found.verdict == "unknown"
    assert any("vendor-logs.tar.gz /var/log/npu/slog" in command for command in found.collect_next)
    assert "npu-smi info" in found.collect_next
