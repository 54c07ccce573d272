# SPDX-License-Identifier: Apache-2.0
"""What a person can do to the guest's hardware: one line of words each, as typed at the lab prompt."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import Any

from .guest import Guest


class DrillError(Exception):
    """A drill line that cannot be understood; the text says what was expected."""


def plug(guest: Guest, slot: str, driver: str = "edu", **options: Any) -> str:
    """a card (edu, e1000e, nvme, bochs-display, pci-testdev membar=64G, x3130-upstream)"""
    return guest.plug(int(slot), driver, **options)


def unplug(guest: Guest, slot: str) -> str:
    """press the attention button and take the card out in order (6 s)"""
    guest.unplug(int(slot))
    return f"slot {slot} is empty"


def pull(guest: Guest, slot: str) -> str:
    """pull the card out without a word"""
    guest.pull(int(slot))
    return f"slot {slot} is empty"


def ghost(guest: Guest, slot: str) -> str:
    """take the card away so that the kernel keeps its device"""
    guest.ghost(int(slot))
    return f"the card of slot {slot} is gone; the kernel still shows it"


def fall(guest: Guest, slot: str) -> str:
    """break the card: it stays in its slot and answers no more"""
    guest.fall_off_the_bus(int(slot))
    return f"the card of slot {slot} reads all ones"


def aer(guest: Guest, slot: str, kind: str) -> str:
    """report a PCIe error: correctable, nonfatal or fatal (the card must be an e1000e)"""
    guest.aer(guest.address(int(slot)), kind)
    return ""


def fault(guest: Guest, name: str, **params: str) -> str:
    """what the driver labaccel does wrong from now on (none, firmware_missing, probe_timeout, probe_eio,
    probe_einval, unsupported, slow_boot, late_boot, boot_fails, hang_probe, hang_remove, busy_remove,
    aer_disconnect; boot_ms=N, lazy=1, online_event=1)"""
    guest.set_driver(fault=name, release=False, **params)
    return ""


def release(guest: Guest) -> str:
    """let go what hang_probe, hang_remove or busy_remove holds"""
    guest.set_driver(release=True)
    return ""


def driver(guest: Guest, state: str) -> str:
    """load or unload labaccel: on or off"""
    if state not in ("on", "off"):
        raise DrillError("driver on, or driver off")
    guest.load_driver() if state == "on" else guest.unload_driver()
    return ""


def slots(guest: Guest) -> str:
    """what is in which slot"""
    cards = guest.cards()
    lines = []
    for number, slot in guest.slots.items():
        card = "a card" if number in cards else "empty"
        shown = " ".join(guest.addresses(number)) or "no device"
        lines.append(f"slot {number}  port {slot.port}  {card:8} kernel shows {shown}  {slot.options}".rstrip())
    return "\n".join(lines)


def clean(guest: Guest) -> str:
    """empty all slots, drop all faults and records"""
    guest.clean()
    return ""


DRILLS: dict[str, tuple[str, Callable[..., str]]] = {
    "plug": ("N [DRIVER] [OPTION=VALUE...]", plug),
    "unplug": ("N", unplug),
    "pull": ("N", pull),
    "ghost": ("N", ghost),
    "break": ("N", fall),
    "aer": ("N KIND", aer),
    "fault": ("NAME [PARAMETER=VALUE...]", fault),
    "release": ("", release),
    "driver": ("on|off", driver),
    "slots": ("", slots),
    "clean": ("", clean),
}


def table() -> str:
    """All drills with what they do."""
    return "\n".join(f"  {f'{name} {usage}'.rstrip():36} {' '.join((act.__doc__ or '').split())}"
                     for name, (usage, act) in DRILLS.items())


def perform(guest: Guest, line: str) -> str:
    """Do what one line says; its answer, then what the kernel had to say within the next half second."""
    name, *words = shlex.split(line)
    if name not in DRILLS:
        raise DrillError(f"no drill {name!r}; there are {', '.join(DRILLS)}")
    usage, act = DRILLS[name]
    before = guest.dmesg()
    options = dict(word.split("=", 1) for word in words if "=" in word)
    try:
        answer = act(guest, *(word for word in words if "=" not in word), **options)
    except (TypeError, ValueError, LookupError) as error:
        raise DrillError(f"{error}\nusage: {name} {usage}") from error
    if name in ("slots", "clean"):
        return answer
    time.sleep(0.5)
    return "\n".join(filter(None, [answer, guest.dmesg().removeprefix(before).rstrip()]))
