"""The parts of a Diagnosis that are told rather than decided: layers, timeline, what to collect next. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..model import Finding, Layer, LayerState, LogLine, Machine, Moment, Rule
from ..rules.hearing import Hit, patterns_of
from .rank import Ranked
from .subjects import Place

_MOST_MOMENTS = 200
# A rule of root cause `none` proves its layer ok; its id begins with the layer's abbreviation.
_PREFIX = {"hw": Layer.HARDWARE, "drv": Layer.DRIVER, "rt": Layer.RUNTIME, "app": Layer.APPLICATION}


def layer_states(faults: Sequence[Ranked], fine: Sequence[tuple[Rule, str]]) -> tuple[LayerState, ...]:
    """Each layer: fault where a finding stands, ok where a line proves it, else unknown."""
    states = []
    for layer in Layer:
        fault = next((one.finding for one in faults if one.finding.layer is layer), None)
        proof = next((title for rule, title in fine if _PREFIX.get(rule.id.split(".")[0]) is layer), None)
        if fault is not None:
            states.append(LayerState(layer, "fault", fault.title))
        elif proof is not None:
            states.append(LayerState(layer, "ok", proof))
        else:
            states.append(LayerState(layer, "unknown", "nothing in the evidence speaks of it"))
    return tuple(states)


def timeline(heard: Mapping[str, Sequence[Hit]], rules: Sequence[Rule], places: Sequence[Place]) -> tuple[Moment, ...]:
    """The lines that some rule knows, in their order, with what they mean and whom they are about."""
    meaning: dict[str, str] = {}
    for rule in rules:
        for pattern in patterns_of({key: value for key, value in rule.when.items() if key != "unless"}):
            meaning.setdefault(pattern, rule.cause)
    owner = {
        hit.order: place.address
        for place in places for hits in place.heard.values() for hit in hits
    }
    moments: dict[int, Moment] = {}
    for pattern, hits in heard.items():
        for hit in hits:
            if pattern in meaning and hit.order not in moments:
                line = hit.line
                moments[hit.order] = Moment(
                    line.time, line.monotonic, line.source, line.line, line.text, owner.get(hit.order), meaning[pattern]
                )
    return tuple(moments[order] for order in sorted(moments))[:_MOST_MOMENTS]


def collect_next(
    machine: Machine, verdict: str, root: Finding | None, odd: Sequence[LogLine], *, live: bool
) -> tuple[str, ...]:
    """Exact commands that would tell more, most useful first; none where the answer is certain."""
    if verdict == "healthy" or (root is not None and root.confidence == "certain"):
        return ()
    kernel = any(line.monotonic is not None or "pci" in line.text for line in machine.logs)
    address = (root.address if root is not None else None) or next((line.address for line in odd if line.address), None)
    at = f" -s {address}" if address is not None else ""
    commands = []
    if live:
        commands.append(f"sudo hotplugctl probe {address} --capture case.tar" if address else
                        "sudo hotplugctl diagnose --capture case.tar")
    else:
        if not kernel:
            commands.append("sudo dmesg --time-format iso > dmesg.txt")
        if not machine.devices:
            commands.append(f"sudo lspci -vvv -nn{at} > lspci.txt")
        commands.append("sudo hotplugctl diagnose --capture case.tar")
    if root is None or root.layer in (Layer.RUNTIME, Layer.APPLICATION):
        commands.append("sudo journalctl -b -o short-iso > journal.txt")
    return tuple(commands)
