"""What a drain decides by: the cards asked about, all that goes with them, and what was wished. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model import Accelerator, Device, Holder, Maybe, Placement, Slot
from .record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the command line asked for; times in seconds, None = not given."""

    goal: str = "unbind"                # unbind, remove, power: how far it goes
    timeout_s: float | None = None
    grace_s: float = 10.0
    stop_holders: bool = False
    scheduler: str = "auto"
    scope: str = "device"
    group: bool = False
    replace: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A function that goes with the card. `path` is its sysfs directory, `what` a name for people.

    `driver` None = unbound; `vfs` the number of SR-IOV virtual functions that are on, None = it can have none; `uses`
    what the machine itself does with it; `top`: it hangs directly at the port, so that its removal takes all below it.
    """

    address: str
    path: str
    what: str
    driver: Maybe[str] = None
    bridge: bool = False
    virtual: bool = False
    vfs: Maybe[int] = None
    profile: str | None = None
    uses: Maybe[tuple[str, ...]] = ()
    top: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A place and what is in it. `key` is the PCI path of the place; `named`: DEVICEs that meant it.

    `units` are the services that hold every card open and run now; `quiesce` says of each why it does. `light`: the
    slot's attention indicator (0 off, 1 on, 2 blinking), None = it has none. `port_path`: the port's sysfs directory.
    `hanging`: the file that an earlier run's write, which has not returned, was for.
    """

    key: str
    device: Device
    slot: Slot | None = None
    pieces: tuple[Piece, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()
    named: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    record: Record | None = None
    units: tuple[str, ...] = ()
    quiesce: Mapping[str, str] = field(default_factory=dict)
    holders: Maybe[tuple[Holder, ...]] = ()
    placements: tuple[Placement, ...] = ()
    light: str | None = None
    hanging: str | None = None
    port_path: str | None = None

    @property
    def port(self) -> str | None:
        """The address of the port above, whose kernel lines speak of the slot."""
        return self.slot.port if self.slot is not None and isinstance(self.slot.port, str) else None

    @property
    def name(self) -> str:
        """As one types it: the slot where there is one, else the address."""
        if self.slot is not None:
            return f"slot:{self.slot.name}"
        return self.device.address or (self.record.address if self.record is not None else None) or self.key

    @property
    def said(self) -> str:
        """As one says it: slot and address."""
        slot = f"slot {self.slot.name}" if self.slot is not None else ""
        return " ".join(part for part in (slot, self.device.address or "") if part) or self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Everything a plan is made of. `hooks`: names of the executables in each drain-* folder of the hooks.

    `live`: this machine, now; `blind`: why nothing could be changed here (not root, a place that cannot be written).
    """

    cards: tuple[Card, ...]
    boot_id: str | None = None
    hooks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    live: bool = True
    blind: str | None = None
    untouchable: Mapping[int, str] = field(default_factory=dict)    # pid -> why it is never signalled
