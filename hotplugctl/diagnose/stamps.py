"""When each line of the evidence was written, and on which scale: seconds since a boot, UTC, or one log's own. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import lru_cache
from typing import NamedTuple

from ..model import LogLine

BOOT, UTC, LOCAL, YEARLESS, NONE = "boot", "utc", "local", "yearless", "none"
# rsyslog keeps the kernel's own stamp in the text: `Mar  2 08:10:01 host kernel: [   12.345678] ...`.
_INNER = re.compile(r"\[ *(\d{1,9}\.\d{6})\] ")
_BACK = 1.0             # seconds: processors log a little out of order, a new boot starts over


class Scale(NamedTuple):
    """One way of counting time: `of` is its source, empty for UTC; `part` counts the boots within a source."""

    kind: str
    of: str
    part: int = 0


class Stamp(NamedTuple):
    """When, on which scale; `fine` is how exactly it is written, in seconds."""

    scale: Scale
    at: float
    fine: float


class Stamps:
    """What the lines say of their time, read when asked; a boot begins where a source's seconds start over."""

    def __init__(self, lines: Sequence[LogLine]) -> None:
        self.lines = lines
        self.both: list[int] = []               # lines with two stamps
        self.kinds: dict[str, set[str]] = {}    # of each source
        self._boots: dict[str, list[int]] = {}
        last: dict[str, float] = {}
        for order, line in enumerate(lines):
            seconds, source = boot_seconds(line), line.source
            kinds = self.kinds.setdefault(source, set())
            if seconds is not None:
                if seconds < last.get(source, seconds) - _BACK:
                    self._boots.setdefault(source, []).append(order)
                last[source] = seconds
                kinds.add(BOOT)
            if line.time is not None:
                kinds.add(kind_of(line.time))
                if seconds is not None:
                    self.both.append(order)

    def since_boot(self, order: int) -> Stamp | None:
        """The line's second since boot."""
        line = self.lines[order]
        seconds = boot_seconds(line)
        if seconds is None:
            return None
        return Stamp(Scale(BOOT, line.source, bisect_right(self._boots.get(line.source, ()), order)), seconds, 1e-6)

    def of_day(self, order: int) -> Stamp | None:
        """The line's time of day."""
        time, source = self.lines[order].time, self.lines[order].source
        at = wall(time) if time is not None else None
        if time is None or at is None:
            return None
        kind = kind_of(time)
        return Stamp(Scale(kind, "" if kind == UTC else source), at, 1e-6 if "." in time else 1.0)

    def own(self, order: int) -> Stamp | None:
        """The more exact of the two."""
        return self.since_boot(order) or self.of_day(order)

    def near(self, matter: Sequence[int]) -> dict[int, tuple[Stamp, bool]]:
        """The stamp of each line that matters, and whether the line itself carries it.

        Else it is that of the nearest line above it in its source, else of the nearest below. A time of whole seconds
        is not before the line above it within that second.
        """
        wanted, found = set(matter), dict[int, tuple[Stamp, bool]]()
        above: dict[str, Stamp] = {}
        open_: dict[str, list[int]] = {}
        for order, line in enumerate(self.lines):
            bare = line.monotonic is None and line.time is None
            stamp = None if bare else self.own(order)
            known = above.get(line.source)
            if stamp is not None:
                if stamp.fine >= 1 and known is not None and known.scale == stamp.scale:
                    behind = known.at - stamp.at
                    stamp = stamp._replace(at=known.at) if 0 < behind < stamp.fine else stamp
                above[line.source] = stamp
                for waiting in open_.pop(line.source, ()):
                    found[waiting] = stamp, False
            if order in wanted:
                if stamp is not None or known is not None:
                    found[order] = (stamp, True) if stamp is not None else (above[line.source], False)
                else:
                    open_.setdefault(line.source, []).append(order)
        for source, orders in open_.items():
            found.update({order: (Stamp(Scale(NONE, source), 0.0, 0.0), False) for order in orders})
        return found


def boot_seconds(line: LogLine) -> float | None:
    """Seconds since boot, where the line has them."""
    if line.monotonic is not None or line.time is None:
        return line.monotonic
    match = _INNER.match(line.text)
    return float(match[1]) if match is not None else None


def said(line: LogLine) -> str:
    """What a line says, without stamps."""
    text = line.text.strip()
    return text if line.time is None else _INNER.sub("", text, count=1) if _INNER.match(text) else text


def kind_of(time: str) -> str:
    """How a written time is to be read: with a zone, without, or without a year as well."""
    if time.startswith("--"):
        return YEARLESS
    return UTC if time[-6:-5] in ("+", "-") and time[-3:-2] == ":" and len(time) > 19 else LOCAL


@lru_cache(maxsize=8192)
def wall(time: str) -> float | None:
    """Seconds since 1970, in UTC or as if it were; without a year, of the year 2000, which has every day."""
    try:
        moment = datetime.fromisoformat(f"2000-{time[2:]}" if time.startswith("--") else time)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
