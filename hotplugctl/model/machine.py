"""The slots and logs of a machine, and all of it at one moment."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from .answers import NOT_ASKED, Maybe
from .device import Device, Held, Link, Port, Room, State


@dataclass(frozen=True, slots=True)
class Hotplug:
    """How a slot can be plugged. `driver` is the kernel's: pciehp, acpiphp, shpchp; None = not a hot-plug slot."""

    driver: Maybe[str] = NOT_ASKED
    capable: Maybe[bool] = NOT_ASKED
    surprise: Maybe[bool] = NOT_ASKED
    button: Maybe[bool] = NOT_ASKED
    power_controller: Maybe[bool] = NOT_ASKED
    indicator: Maybe[bool] = NOT_ASKED
    latch: Maybe[bool] = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A physical slot. `path` is the PCI path from the root port down: the slot's identity across renumbering.

    `power` is on or off; `presence` whether a card is seated; `latch` open or closed; `link` is the port's.
    """

    name: str
    printed: Maybe[str] = NOT_ASKED
    port: Maybe[str] = NOT_ASKED
    path: Maybe[str] = NOT_ASKED
    hotplug: Hotplug = Hotplug()
    power: Maybe[str] = NOT_ASKED
    presence: Maybe[bool] = NOT_ASKED
    latch: Maybe[str] = NOT_ASKED
    link: Maybe[Link] = NOT_ASKED
    addresses: tuple[str, ...] = ()
    room: Maybe[Room] = NOT_ASKED


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log. `line` counts from 1 in its source; `monotonic` is seconds since boot, `time` ISO 8601.

    `address` and `slot` say which device (or port) and which slot the line is about, as far as the line itself tells;
    `also` the further devices a port's line speaks for (`error message received from 0000:3b:00.0`). `host` is the
    machine that wrote it, where the line says so.
    """

    source: str
    line: int
    text: str
    monotonic: float | None = None
    time: str | None = None
    priority: int | None = None
    address: str | None = None
    slot: str | None = None
    also: tuple[str, ...] = ()
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """Evidence that could not be read, or only `half`."""

    path: str
    reason: str
    half: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """All that is known of a machine at one moment. `taken_at` is ISO 8601 with milliseconds, UTC.

    `uptime`: seconds since boot at that moment.
    """

    host: str
    kernel: Maybe[str] = NOT_ASKED
    devices: tuple[Device, ...] = ()
    slots: tuple[Slot, ...] = ()
    ports: tuple[Port, ...] = ()
    logs: tuple[LogLine, ...] = ()
    modules: Maybe[frozenset[str]] = NOT_ASKED
    taken_at: str = ""
    uptime: Maybe[float] = NOT_ASKED
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """How far up the ladder a device is; `missing` is what the next rung lacks, in words."""

    state: State
    rung: State
    held: Held | None
    missing: str | None
    sure: bool


def iso_time(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 with milliseconds, UTC."""
    at = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
