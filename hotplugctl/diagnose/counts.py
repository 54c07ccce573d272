"""How many accelerators each layer says there are: facts for rules, read from tools' output in the evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..model import LogLine, Machine
from ..rules.facts import NO_COUNT, NO_LIST, Surroundings

# What `nvidia-smi -L`, its table, `npu-smi info`, its `-m` and `rocm-smi --showid` print for each card.
LISTED = re.compile(
    r"^GPU (?P<nvidia>\d+): \S|^\|\s+(?P<table>\d+)\s+\S.*\| [0-9A-F]{8}:"
    r"|^GPU\[(?P<amd>\d+)\]\s*: |^NPU ID\s*: (?P<npu>\d+)|^\|\s*(?P<ascend>\d+)\s+\S+\s*\|\s*OK\s*\|"
)
NO_CARD = re.compile(r"^No devices were found")
_COMMAND = re.compile(r"^\$ (?P<command>.*)")
# A node's allocatable devices; what a pod asks for looks the same and is not meant. So many lines below it may be its.
ALLOCATABLE_LINES = 100
ALLOCATABLE = re.compile(r"\b[Aa]llocatable\b")
_SECTION = re.compile(r"^[A-Z][\w ]+:")
_RESOURCE = re.compile(
    r"(?:nvidia\\?\.com/gpu|huawei\\?\.com/Ascend\w+|amd\\?\.com/gpu|habana\\?\.ai/gaudi)\"?[:=]\s*\"?(?P<count>\d{1,3})\b"
)
_BARE = re.compile(r"^\s*(?P<count>\d{1,3})\s*$")
# `nvidia-smi -L | wc -l` prints nothing but the number; a jsonpath of several fields prints them side by side.
COUNTED = re.compile(
    r"^(?:[\w.@~:-]{0,40})?[$#] (?:nvidia-smi -L|npu-smi info -m|rocm-smi --showid|hl-smi -L)\b.*\| *wc -l *$")
_FIELDS = re.compile(r"\{[^{}]*\}")
NUMBERS = re.compile(r"^\s*\d{1,3}(?: +\d{1,3})+\s*$")
DEVICE_COUNT = re.compile(r"device_count\(\)\s*(?:->|=|:)?\s*(?P<count>\d{1,3})\b")
# Whose tool lists a card, by the group of LISTED, and whose resource a count is of.
_TOOLS = {"nvidia": "nvidia", "table": "nvidia", "amd": "amd", "npu": "huawei", "ascend": "huawei"}
_VENDOR = re.compile(r"\b(nvidia|huawei|amd|habana|intel)\\?\.(?:com|ai)")
# What the kubelet says of a device plugin that offers nothing.
NOTHING_OFFERED = re.compile(r"no healthy devices present|\bhealthyCount=0\b|[Nn]ew list of resources: \[\]")
OFFERED = re.compile(r"\bhealthyCount=(?P<count>[1-9]\d{0,2})\b")
MASKED = re.compile(r"VISIBLE_DEVICES=\S")


def surroundings_of(machine: Machine, lines: Sequence[LogLine]) -> Surroundings:
    """Modules and counts of the machine."""
    lines = [line for line in lines if line.monotonic is None]      # the kernel counts nothing of this
    listed: dict[str, set[str]] = {}
    nobody = any(NO_CARD.match(line.text) for line in lines)
    counted, asked = None, False
    for line in lines:
        if asked and _BARE.match(line.text):
            counted = int(line.text)
        asked = COUNTED.match(line.text) is not None
        card = LISTED.match(line.text)
        if card is not None and card.lastgroup is not None:
            listed.setdefault(_TOOLS[card.lastgroup], set()).add(card[card.lastgroup])
    advertised, vendor = _advertised(lines)
    if vendor is not None and listed and vendor not in listed:      # cards of another vendor than the tool's
        advertised = None
    cards = listed.get(vendor or "") or {card for own in listed.values() for card in own}
    return Surroundings(
        modules=machine.modules,
        listed=len(cards) if cards or nobody else counted if counted is not None else NO_LIST,
        advertised=advertised if advertised is not None else NO_COUNT,
    )


def _advertised(lines: Sequence[LogLine]) -> tuple[int | None, str | None]:
    """The last count of what a node or program has to give, and whose cards they are where it says so.

    A program whose devices are masked counts for nothing.
    """
    masked = any(MASKED.search(line.text) for line in lines)
    found, whose, about = None, None, LogLine("", 0, "")
    for line in lines:
        text = line.text
        offered = OFFERED.search(text)
        if offered is not None or NOTHING_OFFERED.search(text):
            found, whose = int(offered["count"]) if offered is not None else 0, _vendor(text)
            continue
        heading = _COMMAND.match(text) or _SECTION.match(text)
        if heading is not None:
            about = line
        if NUMBERS.match(text):
            fields = _FIELDS.findall(_said_above(about, line))
            chosen = [n for field, n in zip(fields, text.split(), strict=False) if ALLOCATABLE.search(field)]
            found, whose = (int(chosen[0]), _vendor(about.text)) if chosen else (found, whose)
            continue
        count = _RESOURCE.search(text) or _BARE.match(text)
        if count is None or not ALLOCATABLE.search(f"{_said_above(about, line)} {text}"):
            count = None if masked else DEVICE_COUNT.search(text)
        if count is not None:
            found, whose = int(count["count"]), _vendor(f"{_said_above(about, line)} {text}")
    return found, whose


def _vendor(text: str) -> str | None:
    named = _VENDOR.search(text)
    return named[1] if named is not None else None


def _said_above(heading: LogLine, line: LogLine) -> str:
    near = heading.source == line.source and line.line - heading.line <= ALLOCATABLE_LINES
    return heading.text if near else ""
