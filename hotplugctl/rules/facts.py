"""The names that rules may use: the fields of the model, and the few facts that are computed from them.

A name is a path: `link.width` of the device, `port.dpc.triggered` of the nearest port above it, `slot.presence` of its
slot, `profile.drivers`, `machine.modules`. `class_` is written `class`. The table of names is read off the dataclasses,
so that a field added to the model is a fact at once.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ..model import Bar, Kind, Maybe, Port, Probed, Profile, Slot, State, Unknown, unseen

if TYPE_CHECKING:
    from .judge import Subject


_MOST_NAMED = 4
NO_MODULES = Unknown("the modules were not captured", Kind.NOT_CAPTURED)
NO_DEVICE = Unknown("no facts of the device were captured", Kind.NOT_CAPTURED)
NO_LIST = Unknown("no vendor tool's list was captured", Kind.NOT_CAPTURED)
NO_COUNT = Unknown("no scheduler's count was captured", Kind.NOT_CAPTURED)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of the machine as a whole; counts are of accelerators.

    `listed`: as the vendor's own tool lists them. `advertised`: as the scheduler or device plugin offers them.
    """

    modules: Maybe[frozenset[str]] = NO_MODULES
    listed: Maybe[int] = NO_LIST
    advertised: Maybe[int] = NO_COUNT


def _unassigned(subject: Subject) -> Maybe[int]:
    """How many BARs the card has and the kernel found no place for. I/O ports are optional for PCIe devices."""
    bars = subject.device.bars if subject.device is not None else None
    if not isinstance(bars, tuple):
        return bars
    memory = [bar for bar in bars if bar.kind != "io"]
    missing = sum(bar.assigned is False for bar in memory)
    unknown = next((bar.assigned for bar in memory if isinstance(bar.assigned, Unknown)), None)
    return missing if missing or unknown is None else unknown


def _assigned(subject: Subject) -> Maybe[int]:
    bars: Maybe[tuple[Bar, ...]] = subject.device.bars if subject.device is not None else None
    return sum(bar.assigned is True for bar in bars) if isinstance(bars, tuple) else bars


def _held_open(subject: Subject) -> Maybe[int]:
    """How many processes; several ways in which one has it count once, users in the kernel not at all."""
    holders = subject.device.holders if isinstance(subject.device, Probed) else None
    if (why := unseen(holders)) is not None:
        return why
    return len({holder.pid for holder in holders if holder.pid}) if isinstance(holders, tuple) else None


def _holding(subject: Subject) -> Maybe[str]:
    """Which processes have the card, by name; what could not be looked into adds nobody."""
    holders = subject.device.holders if isinstance(subject.device, Probed) else None
    if not isinstance(holders, tuple):
        return holders
    named = {holder.pid: f"pid {holder.pid} ({holder.command}) has {holder.node}" for holder in holders if holder.pid}
    if not named:
        return unseen(holders)
    said = list(named.values())
    return "; ".join(said if len(said) <= _MOST_NAMED else [*said[:_MOST_NAMED], f"and {len(said) - _MOST_NAMED} more"])


def _expects_nodes(subject: Subject) -> Maybe[bool]:
    profile = subject.profile
    return bool(profile.nodes or profile.classes) if profile is not None else None


def _nodes_missing(subject: Subject) -> Maybe[bool]:
    """Should the card have device nodes, and lacks them (or one of them)?"""
    if subject.profile is None or not _expects_nodes(subject):
        return None
    nodes = subject.device.nodes if subject.device is not None else NO_DEVICE
    return nodes if isinstance(nodes, Unknown) else not nodes or any(node.mode is None for node in nodes)


def _nodes_closed(subject: Subject) -> Maybe[bool]:
    """Has a node neither the profile's group nor a mode for everybody?"""
    nodes = subject.device.nodes if subject.device is not None else NO_DEVICE
    if isinstance(nodes, Unknown) or nodes is None or subject.profile is None or not subject.profile.groups:
        return nodes if isinstance(nodes, Unknown) else None
    return any(
        isinstance(node.group, str) and node.group not in subject.profile.groups
        and isinstance(node.mode, str) and int(node.mode, 8) & 0o006 != 0o006 for node in nodes
    )


def _nodes(subject: Subject) -> Maybe[int]:
    nodes = subject.device.nodes if subject.device is not None else NO_DEVICE
    return len(nodes) if isinstance(nodes, tuple) else nodes if isinstance(nodes, Unknown) else 0


DERIVED: Mapping[str, tuple[type, Callable[[Subject], Any]]] = {
    "bars.unassigned": (int, _unassigned),
    "bars.assigned": (int, _assigned),
    "holders.count": (int, _held_open),
    "holders.processes": (str, _holding),
    "nodes.count": (int, _nodes),
    "nodes.missing": (bool, _nodes_missing),
    "nodes.closed": (bool, _nodes_closed),
    "profile.expects_nodes": (bool, _expects_nodes),
    "named": (bool, lambda subject: subject.named),
    "enumerated": (bool, lambda subject: subject.enumerated),
    "bridge": (bool, lambda subject: subject.bridge),
}

ROOTS: Mapping[str, type] = {"port": Port, "slot": Slot, "profile": Profile, "machine": Surroundings}


@cache
def names() -> Mapping[str, type]:
    """Every fact name with the type of its values (str for enums; tuple for lists; dict where any key may follow)."""
    found: dict[str, type] = dict(_walk(Probed, ""))
    for root, kind in ROOTS.items():
        found.update(_walk(kind, f"{root}."))
    found.update({name: kind for name, (kind, _) in DERIVED.items()})
    found["slot"] = str
    return found


def _walk(kind: type, prefix: str, above: tuple[type, ...] = ()) -> dict[str, type]:
    hints = typing.get_type_hints(kind)
    found: dict[str, type] = {}
    for field in fields(kind):
        name = prefix + field.name.rstrip("_")
        plain = _plain(hints[field.name])
        if is_dataclass(plain) and plain not in (kind, *above):      # Match holds another Match
            found.update(_walk(plain, f"{name}.", (kind, *above)))
        found[name] = str if isinstance(plain, type) and issubclass(plain, enum.Enum) else plain
    return found


def _plain(hint: Any) -> type:
    """`str` of `Maybe[str]`, `tuple` of `tuple[Bar, ...]`, `dict` of a mapping."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        rest = [a for a in typing.get_args(hint) if a not in (type(None), Unknown)]
        return _plain(rest[0])
    origin = typing.get_origin(hint) or hint
    if origin in (tuple, frozenset, list):
        return tuple
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict
    return origin if isinstance(origin, type) else object


def is_fact(name: str) -> bool:
    """Is it a name that rules may use: one of `names`, or any key below a mapping?"""
    known = names()
    return name in known or any(known.get(name[:i]) is dict for i in range(len(name)) if name[i] == ".")


NOWHERE = Surroundings()
NO_PORT = Unknown("the port above it is not known", Kind.NOT_CAPTURED)
NO_SLOT = Unknown("its slot was not captured", Kind.NOT_CAPTURED)


def look_up(subject: Subject, name: str) -> Any:
    """The value of a fact: anything the model holds, None (looked, not there), or Unknown."""
    if name in DERIVED:
        if name.startswith(("bars.", "holders.")) and subject.device is None:
            return NO_DEVICE
        return DERIVED[name][1](subject)
    root, _, rest = name.partition(".")
    if root in ROOTS and rest:
        start: Any = {
            "port": subject.port if subject.port is not None else NO_PORT,
            "slot": subject.slot if subject.slot is not None else NO_SLOT,
            "profile": subject.profile,
            "machine": subject.surroundings,
        }[root]
        return _follow(start, rest)
    return _follow(subject.device if subject.device is not None else NO_DEVICE, name)


def _follow(value: Any, path: str) -> Any:
    for step in path.split("."):
        if value is None or isinstance(value, Unknown):
            return value
        if isinstance(value, Mapping):
            value = value.get(step)
        else:
            value = getattr(value, f"{step}_" if step == "class" else step)
    return value.value if isinstance(value, (State, enum.Enum)) else value
