"""What is authored as data: vendor profiles, rules, and the taxonomy of root causes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .device import Layer, Severity, State


@dataclass(frozen=True, slots=True)
class Match:
    """Which functions a profile covers: lower-case hex, `class_` by prefix, `exclude` wins."""

    vendor: tuple[str, ...] = ()
    device: tuple[str, ...] = ()
    class_: tuple[str, ...] = ()
    exclude: Match | None = None

    def covers(self, vendor_id: str, device_id: str, class_: str) -> bool:
        """Does a function with these ids (four hex digits; six for the class) belong here?"""
        if self.exclude is not None and self.exclude.covers(vendor_id, device_id, class_):
            return False
        return (
            (not self.vendor or vendor_id in self.vendor)
            and (not self.device or device_id in self.device)
            and (not self.class_ or class_.startswith(self.class_))
        )


@dataclass(frozen=True, slots=True)
class Handshake:
    """The independent health check. Times in seconds; `{index}` and `{address}` are filled in `argv`."""

    argv: tuple[str, ...]
    expect: str | None = None
    timeout: float = 5.0
    passes: int = 1
    interval: float = 1.0
    max_age: float = 300.0


@dataclass(frozen=True, slots=True)
class BarNeed:
    """A BAR the card must have; `min_size` in bytes."""

    index: int
    min_size: int = 0


@dataclass(frozen=True, slots=True)
class AttributeIs:
    """A PCI attribute with the value it has once the firmware runs."""

    attribute: str
    equals: str


@dataclass(frozen=True, slots=True)
class LogFile:
    """Where a vendor writes logs (a glob), and in which form."""

    path: str
    kind: str


@dataclass(frozen=True, slots=True)
class Quiesce:
    """A unit that holds every card open and must be stopped first."""

    unit: str
    why: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A vendor tool whose output answers one question."""

    argv: tuple[str, ...]
    parse: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What hotplugctl knows of one vendor's cards."""

    id: str
    name: str
    match: Match
    models: Mapping[str, str] = field(default_factory=dict)
    drivers: tuple[str, ...] = ()
    passthrough: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    index: str | None = None
    groups: tuple[str, ...] = ()
    bars: tuple[BarNeed, ...] = ()
    initialised: AttributeIs | None = None
    handshake: Handshake | None = None
    readiness: str = "full"
    tools: Mapping[str, Tool] = field(default_factory=dict)
    logs: tuple[LogFile, ...] = ()
    quiesce: tuple[Quiesce, ...] = ()
    any_driver: bool = False


@dataclass(frozen=True, slots=True)
class RootCause:
    """One entry of the taxonomy: what diagnose may conclude."""

    id: str
    layer: Layer
    severity: Severity
    repair: str
    meaning: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. `when` is the condition as loaded from YAML (see hotplugctl-rules(5)); `judge` interprets it."""

    id: str
    root_cause: str
    title: str
    when: Mapping[str, Any]
    cause: str
    severity: Severity | None = None
    action: str | None = None
    confidence: str = "likely"
    blocks: State | None = None
    explains: tuple[str, ...] = ()
    examples: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
