"""What was heard between two looks, sorted by the place it is about: uevents and kernel log lines -> Signs. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ..model import ADDRESS, LogLine, Uevent
from .moves import QUIET, Signs

Place = Callable[[str], str | None]      # an address, or slot:NAME, or port address -> key

ENUMERATED = re.compile(r"\[[0-9a-f]{4}:[0-9a-f]{4}\] type 0[02] ")
_SLOT = r"[Ss]lot ?\([^)]*\):? "
_AER = re.compile(r"\bAER: .*error|PCIe Bus Error|device recovery|error message received", re.IGNORECASE)

# A slot line -> which sign it is. The first that matches wins.
_LINES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(_SLOT + r"(?:Card present|Link Up)"), "present"),
    (re.compile(_SLOT + r"(?:Card not present|Link Down)$"), "surprise"),
    (re.compile(r"Button press: will power off|Powering off due to button press"), "button_off"),
    (re.compile(r"Button press: canceling request to power off|Action canceled due to button"), "button_cancel"),
)
_RECOVERY = {"BEGIN_RECOVERY": "begin", "SUCCESSFUL_RECOVERY": "done", "FAILED_RECOVERY": "failed"}
_ORDER = (None, "begin", "done", "failed")


@dataclass
class Heard:
    """The signs of each place, and what has to be looked at again."""

    signs: dict[str, Signs]
    addresses: set[str]
    slots: bool = False

    def of(self, key: str) -> Signs:
        """The signs of one place."""
        return self.signs.get(key, QUIET)


def gather(uevents: Iterable[Uevent], lines: Iterable[LogLine], place: Place) -> Heard:
    """Sort what was heard. `place` finds the key of an address, a port or `slot:NAME`."""
    heard = Heard({}, set())
    for event in uevents:
        _from_uevent(event, heard, place)
    for line in lines:
        _from_line(line, heard, place)
    return heard


def _from_uevent(event: Uevent, heard: Heard, place: Place) -> None:
    """The functions in the device path are dirty; a removal and a recovery leave a sign."""
    addresses = [part for part in event.devpath.split("/") if ADDRESS.fullmatch(part)]
    heard.addresses.update(addresses)
    heard.slots = heard.slots or event.subsystem in ("slots", "pci_express") or (
        event.subsystem == "pci" and event.action in ("add", "remove"))
    key = place(addresses[-1]) if addresses else None
    if key is None:
        return
    signs = heard.of(key)
    if event.action in ("unbind", "remove"):     # a node that goes is the first sign of a driver that is leaving
        signs = replace(signs, leaving=signs.leaving if signs.leaving is not None else event.at)
    if event.subsystem == "pci" and event.action == "add":
        signs = replace(signs, enumerated=signs.enumerated if signs.enumerated is not None else event.at)
    if event.group == "kernel" and event.action == "bind" and event.subsystem == "pci":
        signs = replace(signs, bound=event.at)
    if event.group == "kernel" and event.action == "add" and "MAJOR" in event.properties:
        signs = replace(signs, node=event.at)
    announced = event.properties.get("SYNTH_ARG_HOTPLUGCTL")
    if announced == "draining":
        deadline = event.properties.get("SYNTH_ARG_DEADLINE", "")
        left = float(deadline) if deadline.isdecimal() and len(deadline) < 9 else None
        signs = replace(signs, draining=(left,), ours=True)
    elif announced == "undone":
        signs = replace(signs, undone=True)
    recovery = _RECOVERY.get(event.properties.get("ERROR_EVENT", ""))
    if recovery is not None and _ORDER.index(recovery) > _ORDER.index(signs.recovery):
        signs = replace(signs, recovery=recovery)
    if event.properties.get("WEDGED", "none") != "none":
        signs = replace(signs, wedged=True, errors=(*signs.errors, f"WEDGED={event.properties['WEDGED']}"))
    heard.signs[key] = signs


def _from_line(line: LogLine, heard: Heard, place: Place) -> None:
    about = line.address or (f"slot:{line.slot}" if line.slot is not None else None)
    if about is None:
        return
    heard.addresses.update(a for a in (line.address, *line.also) if a is not None)
    heard.slots = heard.slots or line.slot is not None
    at = line.monotonic if line.monotonic is not None else 0.0
    if ENUMERATED.search(line.text):
        key = place(about)
        if key is not None:
            heard.signs[key] = replace(heard.of(key), enumerated=at)
        return
    name = next((name for pattern, name in _LINES if pattern.search(line.text)), None)
    for one in line.also or (about,):
        key = place(one)
        if key is None:
            continue
        signs = heard.of(key)
        if name == "surprise":
            leaving = signs.leaving if signs.leaving is not None else at
            signs = replace(signs, surprise=(*signs.surprise, line.text), leaving=min(leaving, at))
        elif name == "button_cancel":
            signs = replace(signs, button_cancel=at)
        elif name == "button_off" and signs.button_off is None:
            signs = replace(signs, button_off=at)
        elif name == "present" and signs.present is None:
            signs = replace(signs, present=at)
        elif _AER.search(line.text):
            signs = replace(signs, errors=(*signs.errors, line.text))
        heard.signs[key] = signs
