"""Which device a line is about when it does not say its address but a name that other lines tie to one.

Drivers give their cards names of their own: `nvme nvme5`, `/dev/accel/accel0`, Ascend's `dev_id=4`. The tie stands in
some line of the same evidence; names are taken over by other cards as cards come and go, so the nearest tie above a
line counts. Lines of one burst that name nothing (NVRM's, Ascend's by thread) go with their neighbours.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ..model import LogLine
from ..rules.hearing import seconds

# [ascend] [ERROR] [drv_pcie] [devdrv_probe 2049] <irq/51-pciehp:488:488> text
_ASCEND = re.compile(r"\[ascend\] (?:\[\w+\] )?\[\w+\] \[(?P<function>\w+) \d+\] <(?P<thread>[^>]+)> ")
_NPU = re.compile(
    r"\b(?:dev_?id|device_?id|index_id|deviceId|devid)[ =:]{1,3}(\d{1,3})\b|\bDevice\[(\d{1,3})\]|\bcardID\((\d{1,3})\)"
    r"|/dev/davinci(\d{1,3})\b|\bAscend\d+\w*-(\d{1,3})\b|\b(?:open|reset) device (\d{1,3})\b",
    re.IGNORECASE,
)
# One of these stands in whatever _NPU matches; looking for them first costs a tenth.
_NPU_WORDS = ("dev", "index_id", "cardid", "ascend")
_PREFIX = re.compile(r"(?P<driver>[a-z][\w-]+) (?:[0-9a-f:.]{12,16} )?(?P<name>[a-z][a-z_]*\d+)(?:n\d+)?: ")
_NODE = re.compile(r"/dev/(?:[\w-]+/)*(?P<name>[a-z][a-z_]*\d+)\b")
_VFIO = re.compile(r"\bvfio-[0-9a-f]{8,40}\b")      # what Kata and others call a device that they hand to a guest
_ACCEL_MINOR = re.compile(
    r"Initialized (?:intel_vpu|ivpu|habanalabs|qaic|amdxdna|rocket|ethosu) .* on minor (?P<minor>\d+)"
)
# What the driver calls a card of which it says nothing else: `habanalabs 0000:1a:00.0: Failed to initialize hl2.`
_CALLED = re.compile(r"Failed to initialize (?P<name>(?:hl|accel)\d+)\.")
_DRM_MINOR = re.compile(r"\[drm\] Initialized (?P<driver>\S+) .* on minor (?P<minor>\d+)")

_RECORDS = "[Hardware Error]: "
_RECORD = re.compile(r"(\{\d+\})\[Hardware Error\]: ")
# A row of npu-smi's table, whose other half is the line below it: `| 2  910B2 | OK | ...`, `| 0 | 0000:81:00.0 | ...`.
_ROW = re.compile(r"\|\s*(?P<number>\d+)\s+\S+\s*\|\s*[A-Za-z]+(?: [A-Za-z]+)?\s*\|")
_DEVICE = re.compile(r"\|\s*\d+\s+(?P<number>\d+)\s*\|")
_UPPER = re.compile(r"\|\s+\d+\s+\S.*\| [0-9A-F]{8}:")
_PROMPT = re.compile(r"(?:\S+@\S+[:~ ]\S* ?)?[$#] \S")
_SYSFS = re.compile(r"/sys/bus/pci/devices/([0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7])/")

# A bridge that is rescanned, and the id of the process that resets: neither is the card.
_NOT_THE_CARD = ("devdrv_device_bus_rescan",)
_BURST = 1.0        # seconds between lines of one burst
_THREAD = 10.0      # a probe's thread goes on with the same card


def settle(lines: Sequence[LogLine]) -> tuple[LogLine, ...]:
    """The lines, each with the address that a tie elsewhere in the evidence gives it."""
    settled = _by_row(_by_record(_by_command(_by_thread(list(lines)))))
    ties = _ties(settled)
    for i, line in enumerate(settled):
        if line.address is None:
            address = next((a for a in (_tied(ties, name, i, line, settled) for name in _names(line)) if a), None)
            if address is not None:
                settled[i] = replace(line, address=address)
    return tuple(_by_burst(_by_report(settled)))


def _names(line: LogLine) -> Iterator[str]:
    """The names a line calls its device by."""
    text = line.text
    folded = text.casefold()
    if any(word in folded for word in _NPU_WORDS):
        for match in _NPU.finditer(text):
            yield f"npu:{next(group for group in match.groups() if group is not None)}"
    if "vfio-" in text:
        yield from _VFIO.findall(text)
    prefix = _PREFIX.match(text)
    if prefix is not None:
        yield prefix["name"]
    for node in _NODE.finditer(text):
        if not node["name"].startswith("davinci"):
            yield node["name"]


def _ties(lines: Sequence[LogLine]) -> dict[str, list[tuple[int, str]]]:
    """For each name, where in the evidence it was tied to which address."""
    ties: dict[str, list[tuple[int, str]]] = {}
    for i, line in enumerate(lines):
        if line.address is None:
            continue
        found = list(_names(line)) if not any(f in line.text for f in _NOT_THE_CARD) else []
        accel, drm = _ACCEL_MINOR.search(line.text), _DRM_MINOR.search(line.text)
        if accel is not None:
            found.append(f"accel{accel['minor']}")
        elif drm is not None:
            found += [f"card{drm['minor']}", f"renderD{128 + int(drm['minor'])}"]
        row = _ROW.match(line.text)
        if row is not None:     # the number of the card; in the line below that of the device, where they differ
            device = _DEVICE.match(lines[i + 1].text) if i + 1 < len(lines) else None
            found.append(f"npu:{device['number'] if device is not None else row['number']}")
        called = _CALLED.search(line.text)
        if called is not None:
            found.append(called["name"])
        for name in found:
            ties.setdefault(name, []).append((i, line.address))
    return ties


def _tied(
    ties: dict[str, list[tuple[int, str]]], name: str, at: int, line: LogLine, lines: Sequence[LogLine]
) -> str | None:
    """The nearest tie above in the same log; else the first below; from another log, its last."""
    known = ties.get(name)
    if not known:
        return None
    own = [(i, address) for i, address in known if lines[i].source == line.source]
    if own:
        place = bisect_right(own, (at, "~")) - 1
        return own[max(place, 0)][1]
    return known[-1][1]


def _by_thread(lines: list[LogLine]) -> list[LogLine]:
    """Ascend's driver prints the address once; the thread that printed it goes on about the same card."""
    current: dict[str, tuple[str, float | None]] = {}
    for i, line in enumerate(lines):
        match = _ASCEND.match(line.text)
        if match is None:
            continue
        thread = match["thread"]
        if line.address is not None:
            if match["function"] not in _NOT_THE_CARD:
                current[thread] = (line.address, seconds(line))
            continue
        known = current.get(thread)
        if known is not None and _close(known[1], seconds(line), _THREAD):
            lines[i] = replace(line, address=known[0])
    return lines


def _by_command(lines: list[LogLine]) -> list[LogLine]:
    """What a command about one device's sysfs files printed is about that device."""
    about: str | None = None
    for i, line in enumerate(lines):
        if line.monotonic is not None:
            about = None
        elif _PROMPT.match(line.text) or line.time is not None:
            path = _SYSFS.search(line.text) if _PROMPT.match(line.text) else None
            about = path[1] if path is not None else None
        elif i and line.source != lines[i - 1].source:
            about = None
        elif about is not None and line.address is None:
            lines[i] = replace(line, address=about)
    return lines


def _by_record(lines: list[LogLine]) -> list[LogLine]:
    """A record of the firmware's (GHES) is about the device that one of its lines names."""
    named: dict[tuple[str, str], str] = {}
    if not any(_RECORDS in line.text for line in lines):
        return lines
    for line in lines:
        record = _RECORD.match(line.text)
        if record is not None and line.address is not None:
            named.setdefault((line.source, record[1]), line.address)
    for i, line in enumerate(lines):
        record = _RECORD.match(line.text) if line.address is None else None
        about = named.get((line.source, record[1])) if record is not None else None
        if about is not None:
            lines[i] = replace(line, address=about)
    return lines


def _by_row(lines: list[LogLine]) -> list[LogLine]:
    """Both halves of a row in a vendor tool's table are about the device that one of them names."""
    for i, (line, below) in enumerate(pairwise(lines)):
        if not (line.text.startswith("|") and below.text.startswith("|")) or (line.address is None) is (
                below.address is None) or line.source != below.source or below.line - line.line != 1:
            continue
        if line.address is None and _ROW.match(line.text):
            lines[i] = replace(line, address=below.address)
        elif line.address is not None and _UPPER.match(line.text):      # nvidia-smi has the address in the upper half
            lines[i + 1] = replace(below, address=line.address)
    return lines


def _by_report(lines: list[LogLine]) -> list[LogLine]:
    """An error report of several lines, indented below the first, is about the one device that any of them names."""
    start = 0
    for i in range(1, len(lines) + 1):
        if i < len(lines) and lines[i].monotonic is None and lines[i].text[:1] in (" ", "\t") \
                and lines[i].source == lines[start].source:
            continue
        named = {line.address for line in lines[start:i]} - {None} if i - start > 1 else set()
        if len(named) == 1:
            (address,) = named
            lines[start:i] = [replace(line, address=address) if line.address is None else line
                              for line in lines[start:i]]
        start = i
    return lines


def _by_burst(lines: list[LogLine]) -> list[LogLine]:
    """NVRM's lines without an address go with the nearest line of the driver within a second, above first."""
    at = [i for i, line in enumerate(lines) if line.text.lstrip().startswith(("NVRM:", "nvidia", "nvidia:"))]
    for place, i in enumerate(at):
        line = lines[i]
        if line.address is not None or not line.text.lstrip().startswith("NVRM:"):
            continue
        for near in (*reversed(at[max(0, place - 8):place]), *at[place + 1:place + 9]):
            other = lines[near]
            if other.address is None or other.source != line.source:
                continue
            if _close(seconds(other), seconds(line), _BURST):
                lines[i] = replace(line, address=other.address)
                break
    return lines


def _close(one: float | None, other: float | None, within: float) -> bool:
    return one is not None and other is not None and abs(one - other) <= within
