# SPDX-License-Identifier: Apache-2.0
"""The guest as a test sees it: slots to plug cards into and pull them from, faults to order, a clean end."""

from __future__ import annotations

import re
import shlex
import struct
from itertools import count

from .boot import BootedGuest, GuestError

DRIVER = "/sys/module/labaccel/parameters"
FAULTS = ("none", "firmware_missing", "probe_timeout", "probe_eio", "probe_einval", "unsupported", "slow_boot",
          "late_boot", "boot_fails", "hang_probe", "hang_remove", "busy_remove", "aer_disconnect")
DEFAULTS = {"fault": "none", "firmware": "labaccel/fw.bin", "boot_ms": "3000", "lazy": "N", "online_event": "N",
            "release": "N"}
# Uncorrectable and correctable status bits: Bad TLP, Completion Timeout, Data Link Protocol Error.
AER_STATUS = {"correctable": (0, 0x40), "nonfatal": (0x4000, 0), "fatal": (0x10, 0)}
PCI_EXPRESS = 0x10  # capability id
# Slot Control
OFF = 0x0700  # power off and power indicator off
INDICATOR, BLINKING = 0x0300, 0x0200
WRECKED = re.compile(r"Oops|BUG:|Kernel panic|general protection fault|soft lockup")


class Guest(BootedGuest):
    """A booted guest with hot-plug slots. A slot is named by its number, a card by its PCI address."""

    _names = count(1)

    # Slots

    def port_address(self, slot: int) -> str:
        """PCI address of the port above the slot."""
        return self.slots[slot].port

    def addresses(self, slot: int) -> list[str]:
        """PCI addresses of the functions that the kernel has in the slot."""
        found = self.find(f"/sys/bus/pci/devices/{self.port_address(slot)}/????:??:??.?")
        return [path.rpartition("/")[2] for path in found]

    def address(self, slot: int) -> str:
        """PCI address of the card in the slot; LookupError if the kernel has none there."""
        for address in self.addresses(slot):
            return address
        raise LookupError(f"the kernel has no card in slot {slot}")

    def cards(self) -> dict[int, str]:
        """QEMU's names of the cards that are in slots by its account, by slot; a ghost is in the kernel's only."""
        found = {}
        for item in self.qmp.execute("qom-list", {"path": "/machine/peripheral"}):
            match = re.fullmatch(r"card(\d+)(\.\d+)?", item["name"])
            # One that fell off the bus stays in the list, but leaves its place to another.
            where = {"path": f"/machine/peripheral/{item['name']}", "property": "realized"}
            if match and self.qmp.execute("qom-get", where):
                found[int(match[1])] = item["name"]
        return found

    def plug(self, slot: int, driver: str = "edu", *, wait: bool = True, timeout: float = 20, **options: object) -> str:
        """Put a card into an empty slot; its address once the kernel has it there (any driver comes later).

        `driver` and `options` are QEMU's (`_` for `-`): edu, nvme, bochs-display, e1000e, pci-testdev, ...
        With wait=False it returns "" at once.
        """
        properties: dict[str, object] = {name.replace("_", "-"): value for name, value in options.items()}
        if driver == "nvme":
            properties.setdefault("serial", f"lab{slot}")
        self._settle(slot)
        # A new name each time: that of a card which fell off the bus stays taken.
        name = f"card{slot}.{next(self._names)}"
        self.qmp.execute("device_add", {"driver": driver, "id": name, "bus": f"rp{slot}", **properties})
        if not wait:
            return ""
        return self.wait(lambda: self.addresses(slot), timeout, f"{driver} appears in slot {slot}")[0]

    def in_service(self, slot: int) -> str:
        """Put an edu into an empty slot and wait until its driver has made its node and udevd is done; its address."""
        address = self.plug(slot)
        self.wait(lambda: self.find(f"/sys/bus/pci/devices/{address}/accel/accel*"), 20, f"slot {slot} has its node")
        self.run("udevadm settle")
        return address

    def unplug(self, slot: int, timeout: float = 30) -> None:
        """Press the slot's attention button and wait until the card is off the bus and out of the slot (6 s)."""
        self._needs_power_controller(slot)
        if not self.acpi_hotplug:  # QEMU presses no button while the kernel is still bringing the card up
            self.wait(lambda: self.slot_control(slot) & INDICATOR != BLINKING, timeout, f"slot {slot} blinks no more")
        card = self.cards()[slot]
        mark = self.qmp.mark()
        self.qmp.execute("device_del", {"id": card})
        self.qmp.wait("DEVICE_DELETED", mark, timeout, device=card)
        self.wait(lambda: not self.addresses(slot), timeout, f"slot {slot} is empty")

    def pull(self, slot: int, timeout: float = 20) -> None:
        """Pull the card out without a word, and wait until the kernel has dropped it ("Card not present")."""
        if self.acpi_hotplug:
            raise ValueError("the kernel does not look at these slots, the firmware does: only unplug() is heard of")
        # Power and indicator off takes the card away; pciehp's interrupt is masked until power reads on again,
        # so that all the kernel ever sees is a powered slot whose card is gone.
        self._take(slot, "0700:0720 0100:0700 0020:0020", timeout)
        self.wait(lambda: not self.addresses(slot), timeout, f"the kernel drops the card of slot {slot}")

    def ghost(self, slot: int, timeout: float = 20) -> None:
        """Take the card away so that the kernel keeps its devices: "Already disabled", and no card after it is
        enumerated until the ghost is removed by hand."""
        self._take(slot, "0700:0700", timeout)

    def fall_off_the_bus(self, slot: int) -> None:
        """The card stops answering (all ones) while the slot still reports it present."""
        card = f"/machine/peripheral/{self.cards()[slot]}"
        self.qmp.execute("qom-set", {"path": card, "property": "realized", "value": False})

    def slot_control(self, slot: int) -> int:
        """The port's Slot Control register: 0x0400 power off, 0x0300 power indicator (1 on, 2 blink, 3 off)."""
        config = self.fetch(f"/sys/bus/pci/devices/{self.port_address(slot)}/config")
        offset = config[0x34]
        while config[offset] != PCI_EXPRESS:
            offset = config[offset + 1]
        return int.from_bytes(config[offset + 0x18:offset + 0x1a], "little")

    def _settle(self, slot: int) -> None:
        """Wait until the kernel is done with the card before: it powers an emptied slot off a second after, and
        QEMU would throw a new card out with that."""
        if not self.acpi_hotplug and self.slots[slot].has_power_controller:
            self.wait(lambda: self.slot_control(slot) & OFF == OFF, 10, f"slot {slot} is powered off")

    def _take(self, slot: int, slot_control: str, timeout: float) -> None:
        self._needs_power_controller(slot)
        card = self.cards()[slot]
        mark = self.qmp.mark()
        writes = " ".join(f"CAP_EXP+18.w={value}" for value in slot_control.split())
        self.run(f"setpci -s {self.port_address(slot)} {writes}")
        self.qmp.wait("DEVICE_DELETED", mark, timeout, device=card)

    def _needs_power_controller(self, slot: int) -> None:
        if not self.acpi_hotplug and not self.slots[slot].has_power_controller:
            raise ValueError(f"QEMU lets no card out of slot {slot}: it waits for power off, and this slot has none")

    # Faults

    def aer(self, address: str, kind: str) -> None:
        """Report a PCIe error of the function: kind is correctable, nonfatal or fatal. The card needs AER
        (e1000e has it, edu has not)."""
        domain, bus, device, function = (int(part, 16) for part in re.split("[:.]", address))
        uncorrectable, correctable = AER_STATUS[kind]
        self.run("modprobe aer_inject")
        self.write("/dev/aer_inject", struct.pack("<BBBxIIIIIIHxx", bus, device, function, uncorrectable,
                                                  correctable, 0, 1, 2, 3, domain))

    def load_driver(self, **params: object) -> None:
        """Load labaccel; loaded already, give it these parameters and all others their defaults."""
        given = {**DEFAULTS, **_texts(params)}
        if self.find(DRIVER):
            self.set_driver(**given)
            return
        self.run("modprobe drm")
        words = " ".join(f"{name}={value}" for name, value in given.items())
        self.run(f"insmod {shlex.quote(str(self.driver_file))} {words}")

    def unload_driver(self) -> None:
        """Unload labaccel, which unbinds its cards."""
        self.run("! test -d /sys/module/labaccel || rmmod labaccel")

    def set_driver(self, **params: object) -> None:
        """Change parameters of the loaded labaccel: fault, boot_ms, lazy, online_event, firmware, release."""
        for name, value in _texts(params).items():
            self.write(f"{DRIVER}/{name}", value)

    def bind(self, address: str, driver: str) -> None:
        """Give the function to this driver and to no other: labaccel takes any card (an e1000e, for its AER)."""
        here = f"/sys/bus/pci/devices/{address}"
        self.run(f"echo {driver} > {here}/driver_override")

        def bound() -> bool:
            """A driver that was on its way when the override came may still have taken the card."""
            if self.run(f"readlink {here}/driver || true").stdout.strip().endswith(f"/{driver}"):
                return True
            self.run(f"! test -e {here}/driver || echo {address} > {here}/driver/unbind; "
                     f"echo {address} > /sys/bus/pci/drivers_probe")
            return False

        self.wait(bound, 20, f"{driver} has {address}")

    # The end of a test

    def clean(self) -> None:
        """As after boot with labaccel loaded: no card, no process, no record, no fault, nothing for `dmesg` to say.

        GuestError if that cannot be had again: a kernel past use, or a card in a slot without power controller.
        """
        if wreck := self.wreckage():
            raise GuestError(wreck)
        self.ask("sweep")
        if self.find(DRIVER):
            self.set_driver(**{**DEFAULTS, "release": "Y"})
        self.wait(lambda: not self.ask("sweep"), 30, "no process of a test is left")
        self._empty_slots()
        self.load_driver()
        self.run("rm -rf /run/hotplugctl /var/lib/hotplugctl; "
                 "find /etc/hotplugctl -mindepth 1 -maxdepth 1 ! -name vendors.d -exec rm -rf {} +; "
                 # udevd may have been stopped by a storm; sweep() must not take the new one for a test's.
                 "grep -qsx systemd-udevd /proc/[0-9]*/comm || env -u HOTPLUGCTL_LAB_JOB "
                 "/lib/systemd/systemd-udevd --daemon; udevadm control --start-exec-queue; dmesg -C")

    def wreckage(self) -> str:
        """What says that this kernel is past use (an oops, a lock-up), or nothing."""
        return "\n".join(line for line in self.dmesg().splitlines() if WRECKED.search(line))

    def _empty_slots(self) -> None:
        cards = self.cards()
        used = [slot for slot in self.slots if slot in cards or self.addresses(slot)]
        if not used:
            return
        if stuck := [slot for slot in used if not self.acpi_hotplug and not self.slots[slot].has_power_controller]:
            raise GuestError(f"cards in slots that QEMU cannot empty: {stuck}")
        if not self.acpi_hotplug:
            # Power off is the quick way (1 s); a ghost takes no notice of it, and a plain `remove` is left.
            slots = " ".join(str(slot) for slot in used)
            self.run(f"for slot in {slots}; do echo 0 > /sys/bus/pci/slots/$slot/power & done 2> /dev/null; wait")
        for slot in used:
            for address in self.addresses(slot):
                self.run(f"echo 1 > /sys/bus/pci/devices/{address}/remove", 30, check=False)
        for slot in self.cards():
            self.unplug(slot)


def _texts(params: dict[str, object]) -> dict[str, str]:
    """Parameters as the module reads them; ValueError for a fault that labaccel does not know."""
    if params.get("fault", "none") not in FAULTS:
        raise ValueError(f"fault {params['fault']!r}: must be one of {', '.join(FAULTS)}")
    return {name: ("Y" if value else "N") if isinstance(value, bool) else str(value)
            for name, value in params.items()}
