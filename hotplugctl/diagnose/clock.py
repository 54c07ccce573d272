"""Which logs can be put on one clock, and by what: nothing is put in an order that the evidence does not tell. Pure.

Scales (`stamps`) become one clock where a line stands on both, where the machine told both at once, or where times
without a zone fit to be the machine's own. Each tie says why; what nothing ties stays apart.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import pairwise

from ..model import LogLine, Machine
from .stamps import BOOT, LOCAL, NONE, UTC, YEARLESS, Scale, Stamp, Stamps, kind_of, said, wall

# Which of its scales a clock is counted in: the one that says most of the day.
_RANK = (UTC, LOCAL, YEARLESS, BOOT, NONE)
_TELLING = 16           # characters: a shorter line may well be said twice
_WINDOW = 2.0           # seconds within which the offsets of one pair of scales lie
_ENOUGH = 2000          # lines to learn an offset from
_MANY = 200_000         # lines: of more, only those about a device are compared word for word
_SAME_ZONE = 1800.0     # seconds: less than what two time zones mostly differ by
_QUARTER = 900.0        # every zone is a whole number of these from UTC
_SAME_BOOT = 1e-5       # seconds: two boots print the same lines, but hardly at the same microsecond
_ROUGH = 0.05           # seconds: what is known less well is told in whole seconds
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UTC = Scale(UTC, "")


@dataclass(frozen=True, slots=True)
class Tie:
    """`at` on `one` is `at + offset` on `other`; `fine`: give or take, in seconds."""

    one: Scale
    other: Scale
    offset: float
    because: str
    fine: float = 0.0


@dataclass
class Joined:
    """Scales that are tied: what to add to each of them to count in `base`, why, and how exactly."""

    base: Scale
    offsets: dict[Scale, float]
    because: list[str] = field(default_factory=list)
    fine: float = 0.0
    zone: float = 0.0           # seconds east of UTC in which times of day are told

    def time(self, at: float) -> str | None:
        """The time of day as ISO 8601, as far as it is known."""
        if self.base.kind not in (UTC, LOCAL, YEARLESS):
            return None
        try:
            moment = (_EPOCH + timedelta(seconds=at)).astimezone(timezone(timedelta(seconds=self._shown_in())))
        except (OverflowError, ValueError):
            return None
        text = moment.isoformat(timespec="seconds" if self.fine >= _ROUGH else "milliseconds")
        text = text if self.base.kind == UTC else text[:-6]
        return f"--{text[5:]}" if self.base.kind == YEARLESS else text

    def _shown_in(self) -> float:
        return self.zone if self.base.kind == UTC else 0.0

    def monotonic(self, at: float) -> float | None:
        """Seconds since boot, where the clock counts one boot only and knows them well."""
        boots = {round(offset, 3) for scale, offset in self.offsets.items() if scale.kind == BOOT}
        return round(at - boots.pop(), 3) if len(boots) == 1 and self.fine < _ROUGH else None


@dataclass(frozen=True, slots=True)
class Instant:
    """Where a line stands: on which clock, when, and whether the line itself says so."""

    clock: int
    at: float
    own: bool


def read(
    lines: Sequence[LogLine], matter: Sequence[int], machine: Machine, kernel_log: str,
) -> tuple[list[Joined], dict[int, Instant]]:
    """The clocks, and where each of the lines that `matter` (their places in `lines`) stands."""
    stamps = Stamps(lines)
    near = stamps.near(matter)
    ties = [*_told_twice(stamps), *_said_twice(stamps), *_told_by_machine(stamps, machine, kernel_log)]
    ties += _zones(stamps, near, ties)
    clocks = _join({stamp.scale for stamp, _ in near.values()}, ties)
    for clock in clocks:
        clock.zone = _zone(lines) or 0.0
    where = {scale: number for number, clock in enumerate(clocks) for scale in clock.offsets}
    return clocks, {
        order: Instant(where[stamp.scale], stamp.at + clocks[where[stamp.scale]].offsets[stamp.scale], own)
        for order, (stamp, own) in near.items()
    }


def _told_twice(stamps: Stamps) -> Iterator[Tie]:
    """Lines that carry both their second since boot and the time of day."""
    pairs: dict[tuple[Scale, Scale], list[tuple[Stamp, Stamp]]] = {}
    for order in stamps.both[::len(stamps.both) // _ENOUGH + 1]:
        boot, day = stamps.since_boot(order), stamps.of_day(order)
        if boot is not None and day is not None:
            pairs.setdefault((boot.scale, day.scale), []).append((boot, day))
    for (one, other), samples in pairs.items():
        offset = _offset(samples)
        if offset is not None:
            count = f"lines of {one.of} carry" if len(samples) > 1 else f"a line of {one.of} carries"
            yield Tie(one, other, offset[0], f"{count} both seconds since boot and the time of day", offset[1])


def _said_twice(stamps: Stamps) -> Iterator[Tie]:
    """Lines that stand word for word in two sources, once in each."""
    if len([source for source, kinds in stamps.kinds.items() if kinds]) < 2:
        return
    texts: dict[str, dict[str, int]] = {}
    often: Counter[tuple[str, str]] = Counter()
    whole = len(stamps.lines) <= _MANY
    for order, line in enumerate(stamps.lines):
        text = said(line) if whole or line.address is not None else ""
        if len(text) >= _TELLING and (line.monotonic is not None or line.time is not None):
            texts.setdefault(text, {})[line.source] = order
            often[text, line.source] += 1
    common: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for text, at in texts.items():
        once = sorted(source for source in at if often[text, source] == 1)
        for number, one in enumerate(once):
            for other in once[number + 1:]:
                common.setdefault((one, other), []).append((at[one], at[other]))
    pairs: dict[tuple[Scale, Scale, str, str], list[tuple[Stamp, Stamp]]] = {}
    for (one, other), orders in common.items():
        for here, there in orders[::len(orders) // _ENOUGH + 1]:
            first, second = stamps.own(here), stamps.own(there)
            if first is not None and second is not None and first.scale != second.scale:
                pairs.setdefault((first.scale, second.scale, one, other), []).append((first, second))
    for (first_scale, second_scale, one, other), samples in pairs.items():
        offset = _offset(samples)
        if offset is not None and _possible(first_scale, second_scale, offset[0]):
            count = f"{len(common[one, other]):,} lines stand" if len(common[one, other]) > 1 else "a line stands"
            yield Tie(first_scale, second_scale, offset[0], f"{count} in both {one} and {other}", offset[1])


def _possible(one: Scale, other: Scale, offset: float) -> bool:
    """Can two scales lie this far apart?"""
    kinds = {one.kind, other.kind}
    if kinds == {BOOT}:
        return abs(offset) < _SAME_BOOT
    if kinds <= {UTC, LOCAL}:
        return abs(offset - round(offset / _QUARTER) * _QUARTER) <= _WINDOW
    return True


def _offset(samples: Sequence[tuple[Stamp, Stamp]]) -> tuple[float, float] | None:
    """What to add to the first stamps to get the second ones, give or take; None where the pairs disagree.

    A boot's first lines are written down late by rsyslog, and a suspended machine's seconds stand still: what most
    pairs say counts. Whole seconds are cut off, so that each pair leaves room for less than one.
    """
    differences = sorted(other.at - one.at for one, other in samples)
    start, end = max(_windows(differences), key=lambda window: window[1] - window[0])
    window = differences[start:end]
    if len(window) * 2 <= len(differences):
        return None
    first, second = (max(pair[side].fine for pair in samples) for side in (0, 1))
    if max(first, second) < 1:
        return statistics.median(window), max(1e-6, (window[-1] - window[0]) / 2)
    low, high = window[-1] - (first if first >= 1 else 0), window[0] + (second if second >= 1 else 0)
    if low <= high:
        return (low + high) / 2, max((high - low) / 2, 1e-6)
    return statistics.median(window), _WINDOW


def _windows(differences: Sequence[float]) -> Iterator[tuple[int, int]]:
    end = 0
    for start, first in enumerate(differences):
        while end < len(differences) and differences[end] - first <= _WINDOW:
            end += 1
        yield start, end


def _told_by_machine(stamps: Stamps, machine: Machine, kernel_log: str) -> Iterator[Tie]:
    """A machine that was looked at told the time of day and how long it had been up."""
    taken = wall(machine.taken_at.replace("Z", "+00:00")) if machine.taken_at.endswith("Z") else None
    if taken is not None and isinstance(machine.uptime, float) and BOOT in stamps.kinds.get(kernel_log, ()):
        yield Tie(Scale(BOOT, kernel_log), _UTC, taken - machine.uptime,
                  f"at {machine.taken_at} the machine had been up for {machine.uptime:,.0f} seconds", 1.0)


def _zones(
    stamps: Stamps, near: Mapping[int, tuple[Stamp, bool]], ties: Sequence[Tie],
) -> Iterator[Tie]:
    """Times without a zone, taken as the machine's own where what they tell of is then no half hour away."""
    at: dict[Scale, list[float]] = {}
    for stamp, _ in near.values():
        at.setdefault(stamp.scale, []).append(stamp.at)
    scales = sorted(scale for scale in at if scale.kind in (LOCAL, YEARLESS))
    if not scales:
        return
    times = {line.time for line in stamps.lines if line.time is not None}
    zone = _zone(stamps.lines)
    years = Counter(time[:4] for time in times if not time.startswith("--"))
    turn = _turn(int(years.most_common(1)[0][0])) if years else None
    tied = {tie.one for tie in ties if tie.other == _UTC} | {tie.other for tie in ties if tie.one == _UTC}
    for number, scale in enumerate(scales):
        year = turn if scale.kind == YEARLESS else 0.0
        if scale in tied or year is None:
            continue
        ways = [(other, f"taken as the machine's local time, as in {other.of}") for other in scales[:number]
                if other.kind == LOCAL or turn is not None]
        offsets = [year - ((turn or 0.0) if other.kind == YEARLESS else 0.0) for other, _ in ways]
        if zone is not None:
            ways.insert(0, (_UTC, "taken in the zone that the other times carry"))
            offsets.insert(0, year - zone)
        for (other, because), offset in zip(ways, offsets, strict=True):
            if _close([own + offset for own in at[scale]], _of_utc(at, ties) if other == _UTC else at[other]):
                yield Tie(scale, other, offset, f"{scale.of} names no time zone: {because}")
                break


def _of_utc(at: Mapping[Scale, Sequence[float]], ties: Iterable[Tie]) -> list[float]:
    """When the lines that matter were written, of those whose time in UTC is known directly or by one tie."""
    found = list(at.get(_UTC, ()))
    for tie in ties:
        if tie.other == _UTC:
            found += [moment + tie.offset for moment in at.get(tie.one, ())]
        elif tie.one == _UTC:
            found += [moment - tie.offset for moment in at.get(tie.other, ())]
    return found


def _zone(lines: Sequence[LogLine]) -> float | None:
    """The one time zone, in seconds east of UTC, that all times with a zone carry; None where there are several."""
    zones = {line.time[-6:] for line in lines if line.time is not None and kind_of(line.time) == UTC}
    return _seconds(zones.pop()) if len(zones) == 1 else None


def _turn(year: int) -> float | None:
    """What to add to a time of the year 2000 so that it lies in this one."""
    try:
        return (datetime(year, 3, 1, tzinfo=timezone.utc) - datetime(2000, 3, 1, tzinfo=timezone.utc)).total_seconds()
    except ValueError:
        return None


def _seconds(zone: str) -> float | None:
    hours, minutes = zone[1:3], zone[4:6]
    if not (hours.isdigit() and minutes.isdigit()):
        return None
    return (int(hours) * 3600 + int(minutes) * 60) * (-1 if zone[0] == "-" else 1)


def _close(own: Sequence[float], theirs: Sequence[float]) -> bool:
    merged = sorted([*((at, 0) for at in own), *((at, 1) for at in theirs)])
    return any(a[1] != b[1] and b[0] - a[0] < _SAME_ZONE for a, b in pairwise(merged))


def _join(used: set[Scale], ties: Sequence[Tie]) -> list[Joined]:
    """The clocks of the scales that are used, by the most exact ties; over further scales where those lead on."""
    left = sorted(used | {scale for tie in ties for scale in (tie.one, tie.other)},
                  key=lambda scale: (_RANK.index(scale.kind), scale))
    clocks = []
    while left:
        clock = Joined(left[0], {left[0]: 0.0})
        while True:
            ways = [
                (tie.fine, there, clock.offsets[here] + sign * tie.offset, tie.because) for tie in ties
                for there, here, sign in ((tie.one, tie.other, 1), (tie.other, tie.one, -1))
                if here in clock.offsets and there not in clock.offsets
            ]
            if not ways:
                break
            fine, there, offset, because = min(ways)
            clock.offsets[there] = offset
            clock.because.append(because)
            clock.fine = max(clock.fine, fine)
        left = [scale for scale in left if scale not in clock.offsets]
        if used & clock.offsets.keys():
            clocks.append(clock)
    return clocks
