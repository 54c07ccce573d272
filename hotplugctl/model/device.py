"""A card, as `list` and `probe` show it, and the ports above it.

Field names are the JSON keys and the fact names of rules.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .answers import NOT_ASKED, Maybe, Unknown


class State(str, enum.Enum):
    """Where a device stands: the ladder, and what is beside it."""

    ABSENT = "absent"
    DETECTED = "detected"
    IDENTIFIED = "identified"
    MAPPED = "mapped"
    BOUND = "bound"
    INITIALISED = "initialised"
    READY = "ready"
    DRAINING = "draining"
    DRAINED = "drained"
    REMOVED = "removed"
    FAILED = "failed"


LADDER = (State.DETECTED, State.IDENTIFIED, State.MAPPED, State.BOUND, State.INITIALISED, State.READY)


class Severity(str, enum.Enum):
    """How bad, worst first; `at_least` compares."""

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def weight(self) -> int:
        """0 for info up to 3 for critical."""
        return 3 - list(Severity).index(self)

    def at_least(self, other: Severity) -> bool:
        """Is this as bad as `other`, or worse?"""
        return self.weight >= other.weight


class Layer(str, enum.Enum):
    """The four layers of the troubleshooting guide, lowest first."""

    HARDWARE = "hardware"
    DRIVER = "driver"
    RUNTIME = "runtime"
    APPLICATION = "application"


@dataclass(frozen=True, slots=True)
class Driver:
    """The bound driver. `version` is the module's; `firmware` what the driver or a vendor attribute reports."""

    name: Maybe[str] = NOT_ASKED
    module: Maybe[str] = NOT_ASKED
    version: Maybe[str] = NOT_ASKED
    firmware: Maybe[str] = NOT_ASKED


@dataclass(frozen=True, slots=True)
class Link:
    """A PCIe link seen from its lower end. Speeds in GT/s, widths in lanes.

    `max_*` is what this end can do, `limit_*` the lower of both ends, `limited_by` the end that sets a limit lower
    than the other could do: `card`, `port`, `both` (one speed, the other width), or None when they are equal.
    """

    speed_gts: Maybe[float] = NOT_ASKED
    width: Maybe[int] = NOT_ASKED
    max_speed_gts: Maybe[float] = NOT_ASKED
    max_width: Maybe[int] = NOT_ASKED
    limit_speed_gts: Maybe[float] = NOT_ASKED
    limit_width: Maybe[int] = NOT_ASKED
    limited_by: Maybe[str] = NOT_ASKED


@dataclass(frozen=True, slots=True)
class Bar:
    """A base address register. `size` and `address` in bytes; `kind` is io, mem32, mem64 or mem64pref.

    `assigned` False = the card has it and the kernel found no place: the kernel leaves its `resource` line all zero,
    so `size` is None unless the kernel log or the profile tells.
    """

    index: int
    size: Maybe[int]
    address: Maybe[int]
    kind: Maybe[str]
    assigned: Maybe[bool]


@dataclass(frozen=True, slots=True)
class Node:
    """A device node below /dev. `mode` is the octal permission string, such as `0660`."""

    path: str
    major: Maybe[int]
    minor: Maybe[int]
    owner: Maybe[str]
    group: Maybe[str]
    mode: Maybe[str]


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth a look that is not the device's standing."""

    severity: Severity
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Held:
    """Who keeps a device out of service. `since` is an ISO 8601 time with offset, `place` the PCI path of its place."""

    by: str
    since: str
    reason: str
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Power:
    """`state`: the kernel's idea (D0 .. D3cold); `runtime`: runtime PM status (active, suspended, ...)."""

    state: Maybe[str] = NOT_ASKED
    runtime: Maybe[str] = NOT_ASKED


@dataclass(frozen=True, slots=True)
class Errors:
    """AER counters since the device appeared (TOTAL_ERR_* of aer_dev_*)."""

    correctable: Maybe[int] = NOT_ASKED
    nonfatal: Maybe[int] = NOT_ASKED
    fatal: Maybe[int] = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A card as `list` shows it. `address` None: a slot reports a card that the bus does not show."""

    profile: Maybe[str] = NOT_ASKED
    address: str | None = None
    slot: Maybe[str] = NOT_ASKED
    slot_printed: Maybe[str] = NOT_ASKED
    vendor: Maybe[str] = NOT_ASKED
    vendor_id: Maybe[str] = NOT_ASKED
    device_id: Maybe[str] = NOT_ASKED
    model: Maybe[str] = NOT_ASKED
    class_: Maybe[str] = NOT_ASKED
    serial: Maybe[str] = NOT_ASKED
    uuid: Maybe[str] = NOT_ASKED
    driver: Maybe[Driver] = NOT_ASKED
    link: Maybe[Link] = NOT_ASKED
    bars: Maybe[tuple[Bar, ...]] = NOT_ASKED
    numa_node: Maybe[int] = NOT_ASKED
    iommu_group: Maybe[int] = NOT_ASKED
    nodes: Maybe[tuple[Node, ...]] = NOT_ASKED
    state: State = State.IDENTIFIED
    rung: State = State.IDENTIFIED
    held: Held | None = None
    missing: str | None = None
    sure: bool = False
    notes: tuple[Note, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    power: Maybe[Power] = NOT_ASKED
    errors: Maybe[Errors] = NOT_ASKED
    first_seen: Maybe[str] = NOT_ASKED
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A bridge window. `kind` is io, mem or prefetchable; addresses and `size` in bytes."""

    kind: str
    start: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class SlotControl:
    """What a port's slot registers say: Slot Capabilities, Control and Status (PCIe base spec 7.5.3.9-11)."""

    number: Maybe[int] = NOT_ASKED
    hotplug_capable: Maybe[bool] = NOT_ASKED
    surprise: Maybe[bool] = NOT_ASKED
    attention_button: Maybe[bool] = NOT_ASKED
    power_controller: Maybe[bool] = NOT_ASKED
    attention_indicator: Maybe[bool] = NOT_ASKED
    power_indicator: Maybe[bool] = NOT_ASKED
    latch_sensor: Maybe[bool] = NOT_ASKED
    power_limit_w: Maybe[float] = NOT_ASKED
    power_off: Maybe[bool] = NOT_ASKED
    presence: Maybe[bool] = NOT_ASKED
    power_fault: Maybe[bool] = NOT_ASKED
    latch_open: Maybe[bool] = NOT_ASKED


@dataclass(frozen=True, slots=True)
class Dpc:
    """Downstream Port Containment status (PCIe base spec 7.9.14)."""

    enabled: Maybe[bool] = NOT_ASKED
    triggered: Maybe[bool] = NOT_ASKED
    reason: Maybe[str] = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A root or downstream port on the way to a device."""

    address: str
    kind: Maybe[str] = NOT_ASKED
    driver: Maybe[str] = NOT_ASKED
    secondary_bus: Maybe[int] = NOT_ASKED
    subordinate_bus: Maybe[int] = NOT_ASKED
    link: Maybe[Link] = NOT_ASKED
    link_disabled: Maybe[bool] = NOT_ASKED
    link_training: Maybe[bool] = NOT_ASKED
    link_active: Maybe[bool] = NOT_ASKED
    windows: Maybe[tuple[Window, ...]] = NOT_ASKED
    slot: Maybe[SlotControl] = NOT_ASKED
    aer: Maybe[Errors] = NOT_ASKED
    dpc: Maybe[Dpc] = NOT_ASKED
    power: Maybe[Power] = NOT_ASKED
    answering: Maybe[bool] = NOT_ASKED


@dataclass(frozen=True, slots=True)
class Capability:
    """One capability of a function: where it stands in config space, and its decoded fields."""

    id: int
    name: str
    offset: int
    extended: bool
    fields: Mapping[str, Any] = field(default_factory=dict)


UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has the device. `via` says how that was seen, `since` (seconds since the epoch) when the process began.

    `via` is fd, map, drm, kfd, vfio, dma-buf or owner for a process; module and mdev for users in the kernel, whose
    `pid` is 0. The last one may be `unseen`: there may be more, and `command` says why they could not be looked for.
    """

    pid: int
    command: Maybe[str]
    user: Maybe[str]
    via: str
    node: Maybe[str]
    container: Maybe[str] = NOT_ASKED
    pod: Maybe[str] = NOT_ASKED
    job: Maybe[str] = NOT_ASKED
    release: Maybe[str] = NOT_ASKED
    unit: Maybe[str] = NOT_ASKED
    since: Maybe[float] = NOT_ASKED


def unseen(holders: Maybe[tuple[Holder, ...]]) -> Unknown | None:
    """Why these may not be all holders; None = they are, and an empty tuple means nobody."""
    if isinstance(holders, Unknown):
        return holders
    last = holders[-1] if holders else None
    return last.command if last is not None and last.via == UNSEEN and isinstance(last.command, Unknown) else None


@dataclass(frozen=True, slots=True)
class Room:
    """What a hot-plug port can still take: bytes free in its windows, bus numbers, and whether each size asked fits."""

    buses: Maybe[int]
    mem: Maybe[int]
    prefetchable: Maybe[int]
    fits: Mapping[str, Maybe[bool]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed(Device):
    """A card as `probe` shows it: all of Device, and what only a close look tells."""

    upstream: Maybe[tuple[Port, ...]] = NOT_ASKED
    capabilities: Maybe[tuple[Capability, ...]] = NOT_ASKED
    iommu_peers: Maybe[tuple[str, ...]] = NOT_ASKED
    holders: Maybe[tuple[Holder, ...]] = NOT_ASKED
    runtime: Maybe[Mapping[str, Any]] = NOT_ASKED
    room: Maybe[Room] = NOT_ASKED
    sources: Mapping[str, str] = field(default_factory=dict)
