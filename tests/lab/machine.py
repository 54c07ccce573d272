# SPDX-License-Identifier: Apache-2.0
"""The virtual machine: its slots, and the QEMU command line that makes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .kernel import Kernel

QEMU = "qemu-system-x86_64"


@dataclass(frozen=True)
class Slot:
    """A root port that is slot `number`; its address is fixed by the number.

    `options` are properties of QEMU's pcie-root-port. `card` is a device that is there at power-on.
    """

    number: int
    options: str = ""
    card: str = ""

    @property
    def port(self) -> str:
        """Address of the port."""
        return f"0000:00:{0x10 + self.number:02x}.0"

    @property
    def has_power_controller(self) -> bool:
        return "power_controller_present=off" not in self.options


SLOTS = (
    Slot(1),
    Slot(2),
    Slot(3),
    Slot(4),
    Slot(5, "power_controller_present=off"),
    Slot(6, "bus-reserve=8,mem-reserve=32M,pref64-reserve=64M"),  # room for a switch
)


def command(kernel: Kernel, slots: tuple[Slot, ...], checkout: Path, folder: Path, *,
            acpi_hotplug: bool, shpchp: bool, memory_mib: int, append: str) -> list[str]:
    """QEMU's arguments. In `folder` it finds `initrd` and makes `qmp`, `agent`, `terminal` and `console.log`."""
    kernel_line = [
        "console=ttyS0", "panic=-1", "mitigations=off", "log_buf_len=4M", "printk.devkmsg=on",
        # An emulated machine is slow enough to look stalled.
        "nowatchdog", "rcupdate.rcu_cpu_stall_suppress=1",
        # shpchp of 6.12 crashes on a hot-added pcie-pci-bridge and takes the slot's thread with it.
        *([] if shpchp else ["initcall_blacklist=shpcd_init"]),
        append,
    ]
    arguments = [
        QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-M", "q35", "-m", str(memory_mib), "-smp", "2",
        "-nodefaults", "-display", "none", "-no-reboot", "-name", "hotplugctl-lab",
        "-kernel", str(kernel.image), "-initrd", str(folder / "initrd"), "-append", " ".join(kernel_line),
        "-qmp", f"unix:{folder}/qmp,server=on,wait=off",
        "-chardev", f"file,id=console,path={folder}/console.log", "-serial", "chardev:console",
        "-chardev", f"socket,id=terminal,path={folder}/terminal,server=on,wait=off", "-serial", "chardev:terminal",
        "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=root,mount_tag=host,addr=0x2",
        "-fsdev", f"local,id=checkout,path={checkout},security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=checkout,mount_tag=checkout,addr=0x4",
        "-device", "virtio-serial-pci,id=ports,addr=0x3",
        "-chardev", f"socket,id=agent,path={folder}/agent,server=on,wait=off",
        "-device", "virtserialport,bus=ports.0,chardev=agent,name=lab.agent",
    ]
    if not acpi_hotplug:  # let the kernel's pciehp have the slots
        arguments += ["-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off"]
    for slot in slots:
        n = slot.number
        port = f"pcie-root-port,id=rp{n},bus=pcie.0,addr={0x10 + n:#x},chassis={n},slot={n}"
        arguments += ["-device", f"{port},{slot.options}".rstrip(",")]
        if slot.card:
            arguments += ["-device", f"{slot.card},id=card{n},bus=rp{n}"]
    return arguments
