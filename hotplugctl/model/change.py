"""What happens to devices: raw uevents from the kernel, and the Changes that `watch` makes of them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .device import Device, State
from .findings import Finding


@dataclass(frozen=True, slots=True)
class Uevent:
    """One event of the kernel or of udev. `seq` is global, so holes are normal; `at` is monotonic seconds."""

    seq: int
    action: str
    subsystem: str
    devpath: str
    properties: Mapping[str, str]
    at: float
    group: str = "kernel"


class ChangeKind(str, enum.Enum):
    """What a Change says."""

    SNAPSHOT = "snapshot"
    ADDED = "added"
    PROGRESS = "progress"
    READY = "ready"
    LATE = "late"
    FAILED = "failed"
    DEGRADED = "degraded"
    RECOVERED = "recovered"
    DRAINING = "draining"
    DRAINED = "drained"
    REMOVED = "removed"
    SURPRISE_REMOVED = "surprise_removed"
    REPLACED = "replaced"
    FLAPPING = "flapping"
    ERROR = "error"
    RESYNC = "resync"


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a card may take, how long it took, and whether that was in time (None = it is still on its way)."""

    limit_s: float
    took_s: float
    met: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of `watch`. `id` is stable for de-duplication; `time` ISO 8601 UTC, `monotonic` seconds since boot.

    `timings` are seconds by stage from the card's own enumeration; `queued` is the time before it.
    """

    id: str
    time: str
    monotonic: float
    kind: ChangeKind
    address: str | None = None
    slot: str | None = None
    device: Device | None = None
    before: State | None = None
    after: State | None = None
    expected: bool | None = None
    sure: bool = True
    missing: str | None = None
    because: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    budget: Budget | None = None
    batch: str | None = None
    replaces: Mapping[str, Any] | None = None
    lost: int | None = None
    diagnosis: Finding | None = None
    deadline_s: float | None = None
    devices: int | None = None
    standing: tuple[Device, ...] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
