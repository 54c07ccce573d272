"""One long text that a vendor's report script wrote -> its parts, each with the command or file it came from. Pure.

`nvidia-bug-report.sh` sets a line of underscores before each part, then the command (`/sbin/lspci -nn`, `dmesg:`) or
`*** /path/of/file` and what ls says of it; since 2012 at least, in all of its versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RULE = re.compile(r"^_{20,}$", re.MULTILINE)
_FILE = re.compile(r"\*\*\* (?P<path>/\S+)")
_ABSENT = re.compile(r"(?:\*\*\* )?(?:/\S+ does not exist|Skipping )")
# Parts that say how the machine is set up, not what went wrong with a card; X servers write (EE) for much that is fine.
_BESIDE = re.compile(
    r"Xorg|XFree86|xorg\.conf|ldd |Vulkan|vulkan|glx|xset|xrandr|xprop|nvidia-settings|lsusb|dmidecode|/proc/asound|"
    r"/proc/(?:cpuinfo|meminfo|interrupts|mtrr|iomem|pci)|/etc/|gcc|acpidump|nvidia-debugdump|base64|Start of NVIDIA|"
    r"coredumpctl|nvidia-suspend|window manager|modinfo|"
    r"/usr/share|\.nv/|_COMM=(?:X|gdm)|ls /|Running |/sys/class/drm|nvidia-xconfig",
    re.IGNORECASE)
_SCAN = "Scanning kernel log files"       # lines of dmesg and of earlier boots once more
_DMESG = re.compile(r"^(?:\S*/)?dmesg:?\s*$|^journalctl -(?:k|b)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report: what it came from, the line it begins at, and its text."""

    title: str
    line: int
    text: str


def is_report(start: str) -> bool:
    """Does a text begin as such a report does?"""
    return _RULE.search(start) is not None and "bug report" in start


def sections(text: str) -> tuple[Section, ...]:
    """The parts of a report that are evidence; none when the text is no such report."""
    marks = list(_RULE.finditer(text))
    if len(marks) < 3:
        return ()
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    parts = []
    line = text.count("\n", 0, marks[0].end()) + 1
    for mark, end in zip(marks, ends, strict=True):
        body = text[mark.end():end]
        head = _heading(body)
        if head is not None:
            parts.append(Section(head, line, body))
        line += body.count("\n") + text.count("\n", end, end + 1)
    whole_log = any(_DMESG.match(part.title) and part.text.count("\n") > 5 for part in parts)
    return tuple(
        part for part in parts
        if not _BESIDE.search(part.title) and not (whole_log and part.title.startswith(_SCAN)))


def _heading(body: str) -> str | None:
    """The command or file of a part; None for one that holds nothing."""
    first = next((line.strip() for line in body.split("\n") if line.strip()), "")
    if not first or _ABSENT.match(first):
        return None
    file = _FILE.match(first)
    return file["path"] if file else first[:80]
