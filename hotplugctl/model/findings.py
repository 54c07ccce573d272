"""What diagnose concludes, and why."""

from __future__ import annotations

from dataclasses import dataclass

from .device import Layer, Severity


@dataclass(frozen=True, slots=True)
class Evidence:
    """A fact or a log line that proves a finding: where it was read, what it said, and when.

    `time`: ISO 8601, or seconds since boot as the kernel writes them (`[  21.438405]`) where only those are known.
    """

    source: str
    line: int | None
    text: str
    time: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A cause that stands, with its proof. The shape of `root_cause`, plus `rule` and `follows_from`."""

    id: str
    layer: Layer
    severity: Severity
    address: str | None
    slot: str | None
    title: str
    cause: str
    action: str
    repair: str
    evidence: tuple[Evidence, ...]
    confidence: str
    rule: str
    follows_from: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceVerdict:
    """What diagnose says of one device."""

    address: str | None
    slot: str | None
    verdict: str
    root_cause: Finding | None


@dataclass(frozen=True, slots=True)
class LayerState:
    """One layer of the troubleshooting guide: ok, fault or unknown."""

    layer: Layer
    state: str
    because: str


@dataclass(frozen=True, slots=True)
class Check:
    """One station of the walk from presence to listener: ok, fault or unknown."""

    name: str
    layer: Layer
    state: str
    because: str


@dataclass(frozen=True, slots=True)
class RuledOut:
    """A cause that looked possible and is not, with the reason."""

    rule: str
    root_cause: str
    address: str | None
    because: str


@dataclass(frozen=True, slots=True)
class Moment:
    """A line of the timeline.

    `time` and `monotonic` are the line's own, else what its clock tells. `after`: seconds from the first line that
    matters on its clock; None = the line has no time, and stands where its source has it. `root_cause`: what the line
    can mean (`meaning` in words), None where it is harmless. `proof`: a finding is proved by it.
    """

    time: str | None
    monotonic: float | None
    source: str
    line: int | None
    text: str
    device: str | None
    meaning: str
    clock: int = 0
    after: float | None = None
    root_cause: str | None = None
    proof: bool = False


@dataclass(frozen=True, slots=True)
class Clock:
    """Sources whose lines stand in one order: `because` says by what, or why nothing else is on it.

    `start`: when its first line that matters was written; `exact`: give or take so many seconds between sources.
    """

    number: int
    sources: tuple[str, ...]
    start: str | None
    because: tuple[str, ...]
    exact: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A port, card or empty slot of the topology. `under`: the address of the port above it, None = the top.

    `on_path`: on the way from the root down to what is at fault; `link` in words; `state` the card's, or of a slot
    whether it is empty.
    """

    address: str | None
    kind: str
    name: str | None = None
    slot: str | None = None
    under: str | None = None
    link: str | None = None
    state: str | None = None
    verdict: str | None = None
    on_path: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The answer of `diagnose`. `verdict` is fault, healthy or unknown."""

    verdict: str
    root_cause: Finding | None
    devices: tuple[DeviceVerdict, ...]
    findings: tuple[Finding, ...]
    layers: tuple[LayerState, ...]
    ruled_out: tuple[RuledOut, ...]
    unchecked: tuple[RuledOut, ...]
    timeline: tuple[Moment, ...]
    collect_next: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    clocks: tuple[Clock, ...] = ()
    timeline_left_out: int = 0
    topology: tuple[Spot, ...] = ()
