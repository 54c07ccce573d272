"""What a drain will do, what stands in its way, and what a scheduler knows of a card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .answers import Maybe
from .device import Device, Holder, State


@dataclass(frozen=True, slots=True)
class SafeToPull:
    """May the card be pulled? `value` None = cannot be told."""

    value: bool | None
    because: str


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. `undo` is what takes it back, None where nothing does; `card` the PCI path of the card's place.

    `do` and `target` together name the step; what it needs beside them it reads from the machine at that moment.
    """

    do: str
    target: str
    why: str
    undo: str | None
    card: str = ""


@dataclass(frozen=True, slots=True)
class Blocker:
    """What forbids it, and the option that lifts that, as it is typed; `lifted_by` None = nothing does."""

    what: str
    why: str
    lifted_by: str | None


@dataclass(frozen=True, slots=True)
class PlanDevice:
    """A card of a plan."""

    address: str | None
    slot: Maybe[str]
    state: State
    safe_to_pull: SafeToPull


@dataclass(frozen=True, slots=True)
class Done:
    """A step that was taken: when (ISO 8601, UTC) and for how many seconds it took."""

    do: str
    target: str
    at: str
    took_s: float
    said: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a drain will do, or has done. `device` is None when there are several.

    `group` are the addresses of all functions that go together. `steps` are those still to take, `done` those taken.
    `undo` and `resume` are the commands that take it back and that go on with it.
    """

    device: Device | None
    devices: tuple[PlanDevice, ...]
    group: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    warnings: tuple[str, ...] = ()
    holders: Maybe[tuple[Holder, ...]] = ()
    done: tuple[Done, ...] = ()
    state: State = State.DRAINING
    safe_to_pull: SafeToPull | None = None
    undo: str | None = None
    resume: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A card as a scheduler may know it: its address, its nodes below /dev, the driver's numbers of its chips, ids."""

    address: str
    nodes: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    serial: str | None = None
    uuid: str | None = None
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """A job or pod that a scheduler has on a card; `id` is a job's number or NAMESPACE/NAME, `stop` what ends it.

    `since`: seconds since the epoch at which it began, None = it does not say.
    """

    id: str
    name: str | None
    user: str | None
    state: str
    stop: str
    since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What a scheduler knows of one card. `where` names the place in its own words (`node n1, gres npu, index 2`).

    `closed`: does new work avoid the card? None = it never places work there, and nothing has to be closed. `ours`:
    is that our doing? `work` runs there now. `blockers` forbid to close it, each with the option that lifts it.
    """

    scheduler: str
    where: str
    closed: Maybe[bool]
    ours: bool = False
    work: Maybe[tuple[Work, ...]] = ()
    blockers: tuple[Blocker, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """Whose place it is, and which; the target of the step that closes it."""
        return f"{self.scheduler}: {self.where}"
