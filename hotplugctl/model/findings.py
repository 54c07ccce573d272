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
    """A line of the timeline."""

    time: str | None
    monotonic: float | None
    source: str
    line: int | None
    text: str
    device: str | None
    meaning: str


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
