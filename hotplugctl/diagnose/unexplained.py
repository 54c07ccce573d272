"""Lines that speak of a failure and that no rule explains: they keep a verdict from being `healthy`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

from ..model import LogLine
from ..rules.hearing import seconds
from .subjects import Place

FAILURE = re.compile(
    r"\*ERROR\*|\[ERROR\]|\b(?:ERROR|CRITICAL|FATAL|Traceback|Xid|Oops|(?-i:BUG))\b"
    r"|\b(?:fail(?:ed|ure|s)?|fatal|error|time(?:d )?[ -]?out|abort(?:ed)?|cannot|can't|unable to|refused|denied"
    r"|not responding|hung|lost|wedged|unusable|inaccessible|giving up)\b", re.IGNORECASE,
)
_FINE = re.compile(
    r"\b(?:no|0|without|clear(?:ed)?|recovered from) (?:\w+ )?(?:errors?|failures?|faults?)\b"
    r"|\btimeout (?:is )?set to\b", re.IGNORECASE
)
# The kernel itself is in trouble; whether a card's driver is concerned the report's stack tells.
STUCK = (
    "blocked for more than", "soft lockup", "hard LOCKUP", "detected stall", "Oops: ", "BUG: ",
    "general protection fault",
)
_STACK = ("pciehp", "local_pci_probe", "pci_device_remove")     # frames that concern any card
REPORT = 60         # lines, and within seconds of its first
_REPORT_TIME = 2.0
_WARNING = 4        # syslog level; lines of a higher one are notices
_KERNEL_PREFIX = re.compile(r"(?:pcieport|pci|NVRM|\[ascend\]|[a-z][\w-]* [0-9a-f]{4,8}:[0-9a-f]{2}:)")


def unexplained(
    lines: Sequence[LogLine], explained: Set[int], troubles: Set[int], places: Sequence[tuple[Place, int]]
) -> tuple[LogLine, ...]:
    """Failure lines about one of the places, or in a log that is not the kernel's, which no rule accounts for.

    `explained`: the lines that a rule rests on or has an excuse for; half of what a rule needs is no account.
    `troubles`: the lines of which a rule says that they tell of a failure, and not of its cause.
    Each place comes with the last line that shows its card at work: what a driver complained of before did not matter.
    A report of a hung or crashed kernel thread counts where its stack names a driver of one of the cards.
    """
    settled = {p.address: last for p, last in places if p.accelerator or p.slot_name is not None}
    settled = settled or {place.address: last for place, last in places}
    drivers = {name for place, _ in places if place.profile is not None for name in place.profile.drivers}
    frames = re.compile("|".join(map(re.escape, (*_STACK, *sorted(drivers)))))

    def counts(line: LogLine, order: int) -> bool:
        text = line.text
        if any(word in text for word in STUCK):        # rules know such a line together with its stack only
            return order > max(settled.values(), default=-1) and _names(lines, order, frames)
        # What it concerns is told faster than what it says.
        return order not in explained and _concerns(line, order, settled) and bool(
            order in troubles or (FAILURE.search(text) and not _FINE.search(text))
        )

    return tuple(
        line for order, line in enumerate(lines)
        if (line.priority is None or line.priority <= _WARNING) and counts(line, order)
    )


def _names(lines: Sequence[LogLine], at: int, frames: re.Pattern[str]) -> bool:
    """Does the report that begins there name one of the frames?"""
    start = seconds(lines[at])
    for line in lines[at:at + REPORT]:
        now = seconds(line)
        if line.source != lines[at].source or (start is not None and now is not None and now - start > _REPORT_TIME):
            return False
        if frames.search(line.text):
            return True
    return False


def _concerns(line: LogLine, order: int, settled: Mapping[str | None, int]) -> bool:
    if line.address is not None:
        return line.address in settled and order > settled[line.address]
    if line.monotonic is not None or _KERNEL_PREFIX.match(line.text):
        return line.text.startswith(("NVRM", "[ascend]"))
    return True
