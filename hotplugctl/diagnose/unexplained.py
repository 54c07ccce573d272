"""Lines that speak of a failure and that no rule knows: they keep a verdict from being `healthy`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..model import LogLine
from ..rules.hearing import Hit
from .subjects import Place

_FAILURE = re.compile(
    r"\*ERROR\*|\[ERROR\]|\b(?:ERROR|CRITICAL|FATAL|Traceback|Xid|Oops|BUG)\b"
    r"|\b(?:fail(?:ed|ure|s)?|fatal|error|time(?:d )?[ -]?out|abort(?:ed)?|cannot|can't|unable to|refused|denied"
    r"|not responding|hung|lost|wedged|unusable|inaccessible|giving up)\b", re.IGNORECASE,
)
_FINE = re.compile(
    r"\b(?:no|0|without|clear(?:ed)?|recovered from) (?:\w+ )?(?:errors?|failures?|faults?)\b", re.IGNORECASE
)
_WARNING = 4        # syslog level; lines of a higher one are notices
_KERNEL_PREFIX = re.compile(r"(?:pcieport|pci|NVRM|\[ascend\]|[a-z][\w-]* [0-9a-f]{4,8}:[0-9a-f]{2}:)")


def unexplained(
    lines: Sequence[LogLine], heard: Mapping[str, Sequence[Hit]], places: Sequence[tuple[Place, int]]
) -> tuple[LogLine, ...]:
    """Failure lines about one of the places, or in a log that is not the kernel's, which no rule knows.

    Each place comes with the last line that shows its card at work: what a driver complained of before did not matter.
    """
    known = {hit.order for hits in heard.values() for hit in hits}
    settled = {p.address: last for p, last in places if p.accelerator or p.slot_name is not None}
    settled = settled or {place.address: last for place, last in places}
    return tuple(
        line for order, line in enumerate(lines)
        if order not in known and (line.priority is None or line.priority <= _WARNING)
        and _FAILURE.search(line.text) and not _FINE.search(line.text) and _concerns(line, order, settled)
    )


def _concerns(line: LogLine, order: int, settled: Mapping[str | None, int]) -> bool:
    if line.address is not None:
        return line.address in settled and order > settled[line.address]
    if line.monotonic is not None or _KERNEL_PREFIX.match(line.text):
        return line.text.startswith(("NVRM", "[ascend]"))
    return True
