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
_KERNEL_PREFIX = re.compile(r"(?:pcieport|pci|NVRM|\[ascend\]|[a-z][\w-]* [0-9a-f]{4,8}:[0-9a-f]{2}:)")


def unexplained(
    lines: Sequence[LogLine], heard: Mapping[str, Sequence[Hit]], places: Sequence[Place]
) -> tuple[LogLine, ...]:
    """Failure lines about one of the places, or in a log that is not the kernel's, which no rule knows."""
    known = {hit.order for hits in heard.values() for hit in hits}
    addresses = {place.address for place in places if place.accelerator or place.slot_name is not None}
    addresses = addresses or {place.address for place in places}
    return tuple(
        line for order, line in enumerate(lines)
        if order not in known and _FAILURE.search(line.text) and not _FINE.search(line.text)
        and _concerns(line, addresses)
    )


def _concerns(line: LogLine, addresses: set[str | None]) -> bool:
    if line.address is not None:
        return line.address in addresses
    if line.monotonic is not None or _KERNEL_PREFIX.match(line.text):
        return line.text.startswith(("NVRM", "[ascend]"))
    return True
