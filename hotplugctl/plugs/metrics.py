"""What a monitoring system asks of a watch, in Prometheus' text format; for node_exporter's textfile collector.

https://prometheus.io/docs/instrumenting/exposition_formats/. Counters begin at 0 with each watch, as counters may.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..model import Change, ChangeKind, Device, State

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)
# Timings are cumulative and come with every change of a card, so one card counts once: where its way ends.
ENDS = (ChangeKind.READY, ChangeKind.REMOVED, ChangeKind.SURPRISE_REMOVED)
Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Histogram:
    """How long something took: `counts` by bucket, the last for what is longer than all."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[next((n for n, limit in enumerate(BUCKETS) if seconds <= limit), len(BUCKETS))] += 1
        self.total += seconds


@dataclass(slots=True)
class Metrics:
    """All that is counted. `spool_*` and `refused` are by sink, set by whoever has the spool."""

    devices: dict[tuple[str, str], Device] = field(default_factory=dict)   # by slot and address, "" = has none
    changes: Counter[ChangeKind] = field(default_factory=Counter)
    transitions: Counter[tuple[State, State]] = field(default_factory=Counter)
    stages: dict[str, Histogram] = field(default_factory=dict)
    lost: int = 0
    spool_depth: Mapping[str, int] = field(default_factory=dict)
    spool_dropped: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)

    def observe(self, change: Change) -> None:
        """Take a change into account."""
        self.changes[change.kind] += 1
        self.lost += change.lost or 0
        if change.standing is not None:
            self.devices = {_place(device): device for device in change.standing}
        if change.device is not None:
            self._place(change.device)
        if change.before is not None and change.after is not None and change.before is not change.after:
            self.transitions[change.before, change.after] += 1
        if change.kind in ENDS:
            for stage, seconds in change.timings.items():
                self.stages.setdefault(stage, Histogram()).add(seconds)

    def _place(self, device: Device) -> None:
        """A card in a slot takes the place of what was known of the slot: nothing, or a card that has gone."""
        slot, address = _place(device)
        for other in [key for key in self.devices if slot and key[0] == slot and key[1] != address]:
            if not other[1] or self.devices[other].state in (State.REMOVED, State.ABSENT):
                del self.devices[other]
        self.devices[slot, address] = device


def render(metrics: Metrics) -> str:
    """The text of the file, the same for the same metrics."""
    return "".join(_families(metrics))


def _families(m: Metrics) -> Iterator[str]:
    states = Counter(device.state for device in m.devices.values())
    yield _family("devices", "gauge", "Devices by state.",
                  [((("state", state.value),), states[state]) for state in State])
    yield _family("device_state", "gauge", "The state each device is in; its labels have the prefix label_.",
                  [(_of_device(m.devices[place]), 1) for place in sorted(m.devices)])
    yield _family("changes_total", "counter", "Changes seen, by kind.",
                  [((("kind", kind.value),), m.changes[kind]) for kind in ChangeKind])
    yield _family("transitions_total", "counter", "Moves of devices from one state to another.", [
        ((("from", before.value), ("to", after.value)), count)
        for (before, after), count in sorted(m.transitions.items())])
    yield _histograms("stage_seconds", "Seconds from a card's enumeration until a rung was reached, once a card; "
                      "queued: the time before it; removal: from its start until it was seen.", m.stages)
    yield _family("events_lost_total", "counter", "Kernel events that were lost, and made good by looking anew.",
                  [((), m.lost)])
    yield _family("spool_events", "gauge", "Events that wait for a sink.", _by_sink(m.spool_depth))
    yield _family("spool_dropped_total", "counter", "Events dropped for want of room in the spool.",
                  [((), m.spool_dropped)])
    yield _family("sink_refused_total", "counter", "Events that a sink refused for good.", _by_sink(m.refused))


def _family(name: str, kind: str, help: str, samples: Iterable[tuple[Labels, float]]) -> str:
    lines = [f"hotplugctl_{name}{_labels(labels)} {_number(value)}\n" for labels, value in samples]
    return f"# HELP hotplugctl_{name} {help}\n# TYPE hotplugctl_{name} {kind}\n{''.join(lines)}"


def _histograms(name: str, help: str, stages: Mapping[str, Histogram]) -> str:
    lines = []
    for stage, histogram in sorted(stages.items()):
        sum_so_far = 0
        for limit, count in zip([*map(_number, BUCKETS), "+Inf"], histogram.counts, strict=True):
            sum_so_far += count
            lines.append(f"hotplugctl_{name}_bucket{_labels((('stage', stage), ('le', limit)))} {sum_so_far}\n")
        lines.append(f"hotplugctl_{name}_sum{_labels((('stage', stage),))} {_number(histogram.total)}\n")
        lines.append(f"hotplugctl_{name}_count{_labels((('stage', stage),))} {sum_so_far}\n")
    return f"# HELP hotplugctl_{name} {help}\n# TYPE hotplugctl_{name} histogram\n{''.join(lines)}"


def _by_sink(counts: Mapping[str, int]) -> list[tuple[Labels, float]]:
    return [((("sink", sink),), count) for sink, count in sorted(counts.items())]


def _of_device(device: Device) -> Labels:
    slot, address = _place(device)
    known = (("address", address), ("slot", slot), ("profile", _text(device.profile)), ("model", _text(device.model)),
             ("state", device.state.value))
    # Rules may set labels that are no Prometheus names, and two that become one: the last counts.
    own = {"label_" + re.sub(r"[^a-zA-Z0-9_]", "_", name): value for name, value in sorted(device.labels.items())}
    return (*known, *own.items())


def _place(device: Device) -> tuple[str, str]:
    return _text(device.slot), device.address or ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".") or "0"
