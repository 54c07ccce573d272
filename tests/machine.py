"""A machine as a tree of files: ports, slots and cards built by name, read through the same Host as a real one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hotplugctl import config, look, probe
from hotplugctl.host import Host
from hotplugctl.host.opening import open_host
from hotplugctl.model import Device, Profile, Slot
from hotplugctl.rules import load

from .configspace import Config

LAB = """schema: hotplugctl.profile/1
id: lab
name: Lab accelerator
match: {vendor: "1234", device: ["11e8"]}
models: {"11e8": "edu"}
drivers: [labaccel]
passthrough: [vfio-pci]
classes: [accel]
groups: [render]
initialised: {attribute: status, equals: operational}
handshake: {argv: [labctl, health, "{address}"], expect: 'health: ok', timeout: 5s, max_age: 5m}
"""
# Slot Capabilities: attention button, power controller, latch, both indicators, surprise, hot-plug capable.
SLOT_CAPABLE = 0x7F
PRESENT, POWER_FAULT, LATCH_OPEN = 0x40, 0x02, 0x20
POWER_OFF = 0x400
LINK_ACTIVE, REPORTS_ACTIVE = 0x2000, 0x100000


class MachineTree:
    """Grows a machine below `root`. `host` opens it; what is not put in is not there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths: dict[str, str] = {}
        (root / "sys/bus/pci/devices").mkdir(parents=True)
        self.put("/proc/sys/kernel/osrelease", "6.12.0-test")
        self.put("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
        (root / "lab.yaml").write_text(LAB)

    def put(self, path: str, content: str | bytes) -> None:
        """A file."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode() + b"\n")

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_symlink():
            file.symlink_to(target)

    def function(
        self, address: str, vendor: str, device: str, class_: str, *, under: str | None = None,
        config: bytes | None = None, resources: Sequence[tuple[int, int, int]] = (), driver: str | None = None,
        **attributes: str,
    ) -> str:
        """A PCI function; its sysfs directory. `resources` are (start, size, flags)."""
        parent = self.paths[under] if under else f"/sys/devices/pci{address[:7]}"
        here = f"{parent}/{address}"
        self.paths[address] = here
        self.link(f"/sys/bus/pci/devices/{address}", f"../../../{here.removeprefix('/sys/')}")
        padded = [*resources, *[(0, 0, 0)] * 13][:13]
        lines = [f"{s:#018x} {s + n - 1 if n else 0:#018x} {f:#018x}" for s, n, f in padded]
        made = Config(int(vendor, 16), int(device, 16), int(class_, 16)).data
        self.put(f"{here}/vendor", f"0x{vendor}")
        self.put(f"{here}/device", f"0x{device}")
        self.put(f"{here}/class", f"0x{class_}")
        self.put(f"{here}/resource", "\n".join(lines))
        self.put(f"{here}/config", config if config is not None else made)
        usual = {"numa_node": "-1", "power_state": "D0", "power/runtime_status": "active"}
        for name, value in (usual | attributes).items():
            self.put(f"{here}/{name}", value)
        if driver:
            self.link(f"{here}/driver", f"/sys/bus/pci/drivers/{driver}")
            self.link(f"/sys/bus/pci/drivers/{driver}/module", f"/sys/module/{driver}")
            (self.root / f"sys/module/{driver}").mkdir(parents=True, exist_ok=True)
        return here

    def port(
        self, address: str = "0000:00:01.0", *, slot: str | None = "1", bus: int = 1, last_bus: int | None = None,
        width: int = 16, speed: int = 5, present: bool = True, powered: bool = True, status: int = 0, control: int = 0,
        under: str | None = None, window: tuple[int, int] = (0x20000000000, 64 << 30),
    ) -> str:
        """A root port with a hot-plug slot; its address."""
        registers = (SLOT_CAPABLE, (0 if powered else POWER_OFF) | control, (PRESENT if present else 0) | status)
        active = present and powered
        space = Config(0x8086, 0x2030, 0x060400, header=1, buses=(0, bus, last_bus or bus)).express(
            4, speed=speed if active else 1, width=width if active else 0, max_speed=speed, max_width=width,
            slot=registers, capable=REPORTS_ACTIVE, status=LINK_ACTIVE if active else 0,
        )
        resources = [(0, 0, 0)] * 9 + [(window[0], window[1], 0x102200)]
        here = self.function(
            address, "8086", "2030", "060400", under=under, config=space.data, resources=resources, driver="pcieport",
            secondary_bus_number=str(bus), subordinate_bus_number=str(last_bus or bus),
            max_link_width=str(width), max_link_speed=f"{GTS[speed]} GT/s PCIe",
            current_link_width=str(width if active else 0), current_link_speed=f"{GTS[speed]} GT/s PCIe",
        )
        if slot is not None:
            self.link(f"{here}/{address}:pcie004/driver", "/sys/bus/pci_express/drivers/pciehp")
            for name, value in (
                ("address", f"{address[:4]}:{bus:02x}:00"), ("power", "1" if powered else "0"), ("attention", "0"),
                ("adapter", "1" if present else "0"), ("latch", "1" if status & LATCH_OPEN else "0"),
            ):
                self.put(f"/sys/bus/pci/slots/{slot}/{name}", value)
        return address

    def card(
        self, address: str = "0000:01:00.0", *, under: str = "0000:00:01.0", vendor: str = "1234", device: str = "11e8",
        class_: str = "120000", driver: str | None = "labaccel", width: int = 16, max_width: int = 16, speed: int = 5,
        max_speed: int = 5, serial: int | None = None, dead: bool = False, lost_bar: bool = False,
        status: str = "operational", node: bool = True, group: str = "render", mode: str = "0660", **attributes: str,
    ) -> str:
        """A card below a port; its sysfs directory."""
        bars = (0xC, 0) if lost_bar else (0x0000000C, 0x200)
        space = Config(int(vendor, 16), int(device, 16), int(class_, 16), bars=bars).express(
            0, speed=speed, width=width, max_speed=max_speed, max_width=max_width
        )
        if serial is not None:
            space = space.serial(serial)
        resources = [] if lost_bar else [(0x20000000000, 16 << 20, 0x14220C)]
        more = {
            "max_link_width": str(max_width), "max_link_speed": f"{GTS[max_speed]} GT/s PCIe",
            "current_link_width": str(width), "current_link_speed": f"{GTS[speed]} GT/s PCIe",
        }
        if driver == "labaccel":
            more["status"] = status
        here = self.function(
            address, vendor, device, class_, under=under, config=b"\xff" * 4096 if dead else space.data,
            resources=resources, driver=driver, **(more | attributes),
        )
        if driver == "labaccel" and node:
            name = f"accel{len(list(self.root.glob('dev/accel/*')))}"
            self.put(f"{here}/accel/{name}/dev", f"261:{name[-1]}")
            self.put(f"{here}/accel/{name}/uevent", f"MAJOR=261\nMINOR={name[-1]}\nDEVNAME=accel/{name}")
            self.put(f"/dev/accel/{name}", f"c 261 {name[-1]} root {group} {mode}")
        return here

    def kmsg(self, *lines: str) -> None:
        """Kernel log lines, a second apart."""
        records = [f"6,{n},{n * 1_000_000},-;{line}" for n, line in enumerate(lines, 1)]
        self.put("/kmsg", "\n".join(records))

    @property
    def host(self) -> Host:
        """The machine, opened."""
        return open_host(str(self.root))

    def look(self, **settings: Any) -> look.Look:
        """A look at it with the shipped profiles and the lab's."""
        return look.look(self.host, config.Settings(**settings), self.profiles)

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The shipped profiles and the lab's."""
        return load.profiles([self.root / "lab.yaml"])

    def devices(self, **settings: Any) -> dict[str, Device]:
        """The rows of `list` by address, or by slot:NAME where the bus shows nothing."""
        found = probe.machine(self.look(**settings)).devices
        return {d.address or f"slot:{d.slot}": d for d in found}

    def device(self, address: str = "0000:01:00.0", **settings: Any) -> Device:
        """One row of `list`."""
        return self.devices(**settings)[address]

    def slots(self) -> dict[str, Slot]:
        """The rows of `list --slots` by name."""
        return {slot.name: slot for slot in probe.machine(self.look(), rooms=True).slots}


GTS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
