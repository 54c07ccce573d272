"""The document of `drain`, which is not there yet: its fields as a table, until the model has them.

Fields with a default are there only sometimes; every other one is always there, null where it does not apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hotplugctl.model import Holder, State


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
