"""The documents of `watch` and `drain`, which are not there yet: their fields as a table, until the model has them.

Fields with a default are there only sometimes; every other one is always there, null where it does not apply.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotplugctl.model import Device, Finding, Holder, State


class ChangeKind(str, enum.Enum):
    """What happened. The first line of `watch` is always a snapshot."""

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


# What each kind means, for hotplugctl-events(7).
KINDS: Mapping[ChangeKind, str] = {
    ChangeKind.SNAPSHOT: "What is there when watching begins: always the first line, also of nothing. `devices` counts "
                         "them, `standing` holds them all.",
    ChangeKind.ADDED: "A card has appeared, on the bus or only in its slot. It is not yet usable.",
    ChangeKind.PROGRESS: "It has come up by a rung of the ladder.",
    ChangeKind.READY: "It can be used: its second handshake has passed.",
    ChangeKind.LATE: "It is over its budget and still on its way up. `diagnosis` says what keeps it.",
    ChangeKind.FAILED: "It will not go on by itself. `diagnosis` says why.",
    ChangeKind.DEGRADED: "It was ready and is not any more: a health check failed, or a rung was lost.",
    ChangeKind.RECOVERED: "What kept it out of service was taken back: an undo, or a button pressed again.",
    ChangeKind.DRAINING: "It is being taken out of service; no new work. `deadline_s` says how long is left.",
    ChangeKind.DRAINED: "It is out of service and holds no work.",
    ChangeKind.REMOVED: "It is gone. `expected` says whether that was asked for, `sure` whether that is known.",
    ChangeKind.SURPRISE_REMOVED: "It is gone, and the slot's own log lines prove that nobody asked for it.",
    ChangeKind.REPLACED: "Another card is in its place, and no removal was seen. `replaces` says which it was.",
    ChangeKind.FLAPPING: "It comes and goes too often to be trusted.",
    ChangeKind.ERROR: "It could not be looked at.",
    ChangeKind.RESYNC: "The kernel has dropped events: everything was looked at again. `lost` says how many, if known.",
}


@dataclass(frozen=True)
class Budget:
    """How long it was allowed to take, and how long it took, in seconds."""

    limit_s: float
    took_s: float
    met: bool


@dataclass(frozen=True)
class Change:
    """A line of `watch`. `timings` are seconds by stage; `monotonic` is seconds since boot."""

    id: str
    time: str
    monotonic: float | None
    kind: ChangeKind
    address: str | None
    slot: str | None
    device: Device | None
    before: State | None
    after: State | None
    expected: bool | None
    sure: bool
    missing: str | None
    because: tuple[str, ...]
    timings: Mapping[str, float]
    budget: Budget | None
    batch: Any
    replaces: Mapping[str, Any] | None
    labels: Mapping[str, str]
    lost: int | None = None
    diagnosis: Finding | None = None
    deadline_s: float | None = None
    devices: int | None = None
    standing: tuple[Device, ...] = ()


@dataclass(frozen=True)
class SafeToPull:
    """May the card be pulled? `value` null = cannot be told."""

    value: bool | None
    because: Any


@dataclass(frozen=True)
class PlanDevice:
    """A device of a plan."""

    address: str | None
    slot: str | None
    state: State
    safe_to_pull: SafeToPull


@dataclass(frozen=True)
class Step:
    """One thing to do. `undo` is what takes it back, null where nothing does."""

    do: str
    target: str
    why: str
    undo: str | None


@dataclass(frozen=True)
class Blocker:
    """What forbids it, and the option that lifts that."""

    what: str
    why: str
    lifted_by: str | None


@dataclass(frozen=True)
class Plan:
    """What a drain will do. `device` is null when there are several."""

    device: Any
    devices: tuple[PlanDevice, ...]
    group: tuple[Any, ...]
    steps: tuple[Step, ...]
    blockers: tuple[Blocker, ...]
    warnings: tuple[Any, ...]
    holders: tuple[Holder, ...]
    done: tuple[Any, ...] = ()
    state: State = State.DRAINING
    safe_to_pull: SafeToPull | None = None
