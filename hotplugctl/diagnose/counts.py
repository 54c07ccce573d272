"""How many accelerators each layer says there are: facts for rules, read from tools' output in the evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..model import LogLine, Machine
from ..rules.facts import NO_COUNT, NO_LIST, Surroundings

# What `nvidia-smi -L`, `npu-smi info -m` and `rocm-smi --showid` print for each card.
_LISTED = re.compile(r"^GPU (?P<nvidia>\d+): \S|^GPU\[(?P<amd>\d+)\]\s*: |^NPU ID\s*: (?P<npu>\d+)")
_NO_CARD = re.compile(r"^No devices were found")
_COMMAND = re.compile(r"^\$ (?P<command>.*)")
_ALLOCATABLE = re.compile(r"allocatable|capacity|ListAndWatch")
_RESOURCE = re.compile(
    r"(?:nvidia\.com/gpu|huawei\.com/Ascend\w+|amd\.com/gpu|habana\.ai/gaudi)\"?[:=]\s*\"?(?P<count>\d{1,3})\b"
)
_BARE = re.compile(r"^\s*(?P<count>\d{1,3})\s*$")
_DEVICE_COUNT = re.compile(r"device_count\(\)\s*(?:->|=|:)?\s*(?P<count>\d{1,3})\b")


def surroundings_of(machine: Machine, lines: Sequence[LogLine]) -> Surroundings:
    """Modules and counts of the machine."""
    listed: set[str] = set()
    seen_none = False
    advertised: int | None = None
    command = ""
    for line in lines:
        text = line.text
        asked = _COMMAND.match(text)
        if asked is not None:
            command = asked["command"]
        card = _LISTED.match(text)
        if card is not None:
            listed.add(next(group for group in card.groups() if group is not None))
        seen_none = seen_none or _NO_CARD.match(text) is not None
        count = _RESOURCE.search(text) or _DEVICE_COUNT.search(text)
        if count is None and _ALLOCATABLE.search(command):
            count = _BARE.match(text)
        if count is not None:
            advertised = int(count["count"])
    return Surroundings(
        modules=machine.modules,
        listed=len(listed) if listed or seen_none else NO_LIST,
        advertised=advertised if advertised is not None else NO_COUNT,
    )
