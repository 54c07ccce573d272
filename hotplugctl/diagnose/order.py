"""Log lines in the order in which they were written, each once, as far as their stamps tell. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from ..model import LogLine
from ..rules.hearing import seconds

# One in so many of the stamped lines is earlier than the one above it. A reboot is one such place, and processors that
# print at once swap neighbours; neither makes a fifth of the lines.
_SHARE = 5
_LEAST = 2


def in_order(lines: Sequence[LogLine]) -> tuple[LogLine, ...]:
    """The lines, those of a file out of order sorted by their stamps; one without a stamp follows the one above it.

    The kernel stamps lines to the microsecond: the same text with the same stamp is the same line, sent twice.
    """
    return tuple(
        line for _, group in groupby(_once(lines), key=lambda line: line.source) for line in _sorted(list(group)))


def _once(lines: Sequence[LogLine]) -> Iterator[LogLine]:
    seen: set[tuple[float, str]] = set()
    for line in lines:
        if line.monotonic is not None:
            key = (line.monotonic, line.text)
            if key in seen:
                continue
            seen.add(key)
        yield line


def _sorted(lines: list[LogLine]) -> list[LogLine]:
    # Lines about a device or slot tell, which are there also where a scan has left others out.
    stamps = [seconds(line) if line.address or line.slot else None for line in lines]
    known = [stamp for stamp in stamps if stamp is not None]
    descents = sum(later < earlier for earlier, later in pairwise(known))
    if descents < _LEAST or descents * _SHARE < len(known):
        return lines
    last, keys = known[0], []
    for line, stamp in zip(lines, stamps, strict=True):
        last = stamp if stamp is not None else last
        own = seconds(line)
        keys.append(last if own is None else own)
    return [line for _, line in sorted(zip(keys, lines, strict=True), key=lambda pair: pair[0])]
