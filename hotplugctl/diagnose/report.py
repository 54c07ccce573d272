"""The parts of a Diagnosis that are told rather than decided: layers, what to collect next. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..model import Finding, Layer, LayerState, LogLine, Machine, Profile, Rule, Severity
from .excerpt import excerpt
from .rank import Ranked

# A rule of root cause `none` proves its layer ok; its id begins with the layer's abbreviation.
_PREFIX = {"hw": Layer.HARDWARE, "drv": Layer.DRIVER, "rt": Layer.RUNTIME, "app": Layer.APPLICATION}
# Who writes a line tells its layer: the PCI core, a kernel driver, a program, or a vendor's runtime.
_SPEAKERS: tuple[tuple[re.Pattern[str], Layer], ...] = (
    (re.compile(r"(?:pcieport|pci|pci_bus|pciehp|shpchp|DMAR|AMD-Vi)\b"), Layer.HARDWARE),
    (re.compile(r"NVRM|\[ascend\]|[a-z][\w-]* [0-9a-f]{4,8}:[0-9a-f]{2}:"), Layer.DRIVER),
    (re.compile(r"Traceback|panic: |terminate called"), Layer.APPLICATION),
)
_PLAIN = re.compile(r"[\w./@+-]{1,60}")        # a file's name that has a place in a command
_XID = re.compile(r"NVRM: Xid \([^)]*\): (\d+)")


def layer_states(
    found: Sequence[Ranked], fine: Sequence[tuple[Rule, str]], pending: Sequence[tuple[Rule, str]],
    odd: Sequence[LogLine],
) -> tuple[LayerState, ...]:
    """Each layer: fault where a finding stands; unknown where something follows from another layer's fault, is not
    explained or not finished; ok by proof.

    `fine` and `pending` are harmless rules with their titles, `odd` the failure lines that no rule knows.
    """
    states = []
    for layer in Layer:
        own = [one for one in found if one.finding.layer is layer and one.finding.severity.at_least(Severity.WARNING)]
        fault = next((one.finding.title for one in own if one.finding.follows_from is None), None)
        folded = next((f"{one.finding.title}, which follows from {one.finding.follows_from}" for one in own), None)
        strange = [line for line in odd if layer_of(line) is layer]
        open_end, proof = (_titled(rules, layer) for rules in (pending, fine))
        if fault is not None:
            states.append(LayerState(layer, "fault", fault))
        elif folded is not None:
            states.append(LayerState(layer, "unknown", folded))
        elif strange:
            states.append(LayerState(layer, "unknown", _not_understood(strange)))
        elif open_end is not None:
            states.append(LayerState(layer, "unknown", open_end))
        elif proof is not None:
            states.append(LayerState(layer, "ok", proof))
        else:
            states.append(LayerState(layer, "unknown", "nothing in the evidence tells how it is"))
    return tuple(states)


def _titled(rules: Sequence[tuple[Rule, str]], layer: Layer) -> str | None:
    return next((title for rule, title in rules if _PREFIX.get(rule.id.split(".")[0]) is layer), None)


def layer_of(line: LogLine) -> Layer:
    """Whose complaint a line is, as far as the way it is written tells."""
    known = next((layer for pattern, layer in _SPEAKERS if pattern.match(line.text.lstrip())), None)
    return known or (Layer.DRIVER if line.monotonic is not None else Layer.RUNTIME)


def _not_understood(lines: Sequence[LogLine]) -> str:
    count = "a failure" if len(lines) == 1 else f"{len(lines)} failures"
    first = excerpt(lines[0].text.strip())
    return f"{count} without a known cause{'' if len(lines) == 1 else ', the first'}: {first}"


def collect_next(
    machine: Machine, verdict: str, root: Finding | None, odd: Sequence[LogLine], *, live: bool,
    profile: Profile | None = None, absent: Sequence[str] = (), lacking: Sequence[str] = (),
) -> tuple[str, ...]:
    """Exact commands that would tell more, most useful first; none where the answer is certain.

    A machine that was looked at (`live`) needs no capture of it: what it did not tell comes from elsewhere.
    `lacking`: what fits the stations of the walk that could not be looked at.
    """
    if verdict == "healthy" or (root is not None and root.confidence == "certain"):
        return ()
    address = (root.address if root is not None else None) or next((line.address for line in odd if line.address), None)
    commands = _beside(machine, address, profile, absent) if live else _instead(machine, address)
    if verdict == "unknown":
        commands += [command for command in lacking if command not in commands]
    if root is None or root.layer in (Layer.RUNTIME, Layer.APPLICATION):
        commands.append("sudo journalctl -b -o short-iso > journal.txt")
    if odd:
        commands[:1] = [f"{commands[0]}  # without a known cause: {_named(odd)}"] if commands else []
    return tuple(commands)


def _beside(machine: Machine, address: str | None, profile: Profile | None, absent: Sequence[str]) -> list[str]:
    """What a look at a machine does not show."""
    commands = [f"hotplugctl list --all-pci  # nothing is at {one} that is known as an accelerator" for one in absent]
    if not machine.devices and not machine.slots and not absent:
        commands += ["hotplugctl list --all-pci", "lspci -nn"]
    if not machine.logs and any("log" in gap.path for gap in machine.gaps):
        commands.append("sudo dmesg --time-format iso > dmesg.txt")
    at = address or next((device.address for device in machine.devices if device.address), None)
    check = profile.handshake if profile is not None else None
    if check is not None and at is not None and not any("{index}" in part for part in check.argv):
        commands.append(" ".join(part.format(address=at) for part in check.argv))
    return commands


def _instead(machine: Machine, address: str | None) -> list[str]:
    """What an archive lacks of a machine."""
    commands = []
    if not any(line.monotonic is not None or "pci" in line.text for line in machine.logs):
        commands.append("sudo dmesg --time-format iso > dmesg.txt")
    if not machine.devices and not machine.ports:
        commands.append(f"sudo lspci -vvv -nn{f' -s {address}' if address is not None else ''} > lspci.txt")
    return [*commands, "sudo hotplugctl diagnose --capture case.tar"]


def _named(odd: Sequence[LogLine]) -> str:
    """The lines by code or by number: what a log says has no place in a command that people paste."""
    codes = {int(code[1]): None for line in odd if (code := _XID.match(line.text.lstrip())) is not None}
    others = [f"{line.source}:{line.line}" if _PLAIN.fullmatch(line.source) else f"line {line.line}"
              for line in odd if _XID.match(line.text.lstrip()) is None]
    parts = [f"Xid {', '.join(map(str, codes))}"] if codes else []
    if others:
        parts.append(", ".join(others[:5]))
    return " and ".join(parts) + (", ..." if len(others) > 5 else "")
