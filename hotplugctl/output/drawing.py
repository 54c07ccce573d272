"""A timeline drawn to scale: where each moment stands, and the picture of it as SVG. Pure.

A gap that would squash what is on one side of it is cut out; each segment between two cuts has a scale of its own,
which is written below it. Places are percentages of the width, so that texts keep their size on any screen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..model import Clock, Moment
from .markup import Html, join, lasted, tag

MOST_SEGMENTS = 5
MOST_LANES = 8
_SQUASHED = 0.08        # of a segment's width: less than that, and the lines there cannot be told apart
_FAR = 4                # times as long as what is squashed beside it: only such a gap is worth a cut,
_WIDE = 0.25            # and of the segment's width, unless the proof of the root cause is what is squashed
_GAP, _LEAST = 4.0, 13.0        # percent of the width
_TOP, _LANE, _AXIS = 26, 52, 42     # pixels
# How near two numbers may stand, in percent, where the page is wide and where it is narrow.
_NEAR = (("wide", 4.5), ("narrow", 13.0))
_KINDS = {
    "proof": ("M0-8L8 0L0 8L-8 0Z", "proof of a finding"),
    "trouble": ("M0-7L7 6H-7Z", "may tell of a finding"),
    "step": ("M5 0A5 5 0 1 1-5 0A5 5 0 1 1 5 0Z", "harmless step"),
}
_CUT = "M-6 9L-1-9M1 9L6-9"


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of time and the part of the width that it has, in percent; `gap` is what was cut out before it."""

    first: float
    last: float
    left: float
    width: float
    gap: float | None = None

    def x(self, at: float) -> float:
        """Where a moment stands, in percent of the whole width; a single moment in the middle."""
        span = self.last - self.first
        return self.left + self.width * ((at - self.first) / span if span > 0 else 0.5)


def segments(times: Iterable[float], weighty: Iterable[float] = ()) -> tuple[Segment, ...]:
    """The stretches of time that are drawn, each to its own scale; the `weighty` times are to be told apart first."""
    distinct, heavy = sorted(set(times)), frozenset(weighty)
    if not distinct:
        return ()
    parts = [distinct]
    while len(parts) < MOST_SEGMENTS:
        cut = max(((gap, n, at) for n, part in enumerate(parts) for gap, at in _cuts(part, heavy)), default=None)
        if cut is None:
            break
        _, n, at = cut
        parts[n:n + 1] = [parts[n][:at], parts[n][at:]]
    free = 100.0 - _GAP * (len(parts) - 1) - _LEAST * len(parts)
    weights = [math.sqrt(len(part)) if len(part) > 1 else 0.0 for part in parts]
    whole = sum(weights) or 1.0
    # Single moments only: they share the width evenly.
    weights = weights if any(weights) else [1 / len(parts)] * len(parts)
    found: list[Segment] = []
    left = 0.0
    for part, weight in zip(parts, weights, strict=True):
        width = _LEAST + free * weight / (whole if sum(weights) > 1 else 1.0)
        found.append(Segment(part[0], part[-1], left, width, part[0] - found[-1].last if found else None))
        left += width + _GAP
    return tuple(found)


def _cuts(part: Sequence[float], heavy: frozenset[float]) -> Iterator[tuple[float, int]]:
    """The gaps beside which several moments would be squashed."""
    span = part[-1] - part[0]
    for at, (one, other) in enumerate(pairwise(part), 1):
        gap = other - one
        for side in (part[:at], part[at:]):
            length = side[-1] - side[0]
            squashed = len(side) > 1 and length < _SQUASHED * span and gap > _FAR * length
            if squashed and (gap > _WIDE * span or not heavy.isdisjoint(side)):
                yield gap, at


def kind(moment: Moment) -> str:
    """How a moment is drawn."""
    return "proof" if moment.proof else "trouble" if moment.root_cause is not None else "step"


def mark(name: str) -> Html:
    """The sign of a kind of moment, for a legend or a list."""
    shape, means = _KINDS[name]
    return tag("svg", tag("title", means), tag("path", d=shape), class_=f"mark {name}", viewBox="-9 -9 18 18",
               width=14, height=14, role="img", aria_label=means)


def legend(moments: Sequence[Moment]) -> Html:
    """What the signs mean, of the kinds that occur."""
    kinds = {kind(moment) for moment in moments}
    signs = [tag("span", mark(name), " ", means) for name, (_, means) in _KINDS.items() if name in kinds]
    dashes = tag("svg", tag("line", x1=7, x2=7, y1=0, y2=14, class_="first"), width=14, height=14, aria_hidden="true")
    return tag("p", *signs, tag("span", dashes, " the first proof") if "proof" in kinds else None, class_="legend")


def drawing(clock: Clock, numbered: Sequence[tuple[int, Moment]], root: str | None) -> Html:
    """The moments of one clock, in a lane for each device; empty where none has a time."""
    timed = [(number, moment, moment.after) for number, moment in numbered if moment.after is not None]
    parts = segments((after for _, _, after in timed),
                     (after for _, moment, after in timed if moment.proof and moment.device == root))
    if not parts:
        return Html("")
    lanes = _lanes([moment for _, moment, _ in timed], root)
    height = _TOP + _LANE * len(lanes) + _AXIS
    floor = _TOP + _LANE * len(lanes)
    inside: list[Html] = [_segment(part, floor, number, len(parts)) for number, part in enumerate(parts)]
    proof = next((after for _, moment, after in timed if moment.proof), None)
    if proof is not None:
        x = _percent(_part(parts, proof).x(proof))
        inside.append(tag("line", x1=x, x2=x, y1=_TOP - 4, y2=floor, class_="first"))
    for row, (lane, names) in enumerate(lanes):
        y = _TOP + _LANE * row + 24
        here = [(number, moment, _part(parts, after), after) for number, moment, after in timed
                if moment.device in names]
        inside.append(tag("text", lane, x=0, y=y - 13, class_="lane"))
        inside += [
            tag("line", x1=_percent(part.left), x2=_percent(part.left + part.width), y1=y, y2=y, class_="track")
            for part in parts]
        # What proves something is drawn last, on top.
        inside += [_mark(number, moment, part.x(after), y)
                   for number, moment, part, after in sorted(here, key=lambda one: one[1].proof)]
        placed = [(part.x(after), number, part) for number, _, part, after in here]
        inside += [
            tag("text", label, x=_percent(x), y=y + 20, class_=f"number {name}") for name, near in _NEAR
            for group in _beside(placed, parts, near) for x, label in _labels(group, near)]
    name = f"timeline-{clock.number}"
    return tag(
        "svg", tag("title", f"Timeline of {', '.join(clock.sources)}", id=f"{name}-title"),
        tag("desc", _described(parts, len(timed), len(lanes)), id=f"{name}-desc"), *inside,
        class_="timeline", width="100%", height=height, role="img", aria_labelledby=f"{name}-title {name}-desc")


def _described(parts: Sequence[Segment], count: int, lanes: int) -> str:
    said = f"{count} lines in {lanes} lanes over {lasted(parts[-1].last - parts[0].first)}"
    cuts = ", ".join(lasted(part.gap) for part in parts if part.gap is not None)
    return f"{said}; gaps left out: {cuts}. The list below says the same." if cuts else (
        f"{said}. The list below says the same.")


def _lanes(moments: Sequence[Moment], root: str | None) -> list[tuple[str, frozenset[str | None]]]:
    """What is at fault first, then the devices with most lines; the rest share a lane."""
    devices = list(dict.fromkeys(moment.device for moment in moments))
    counts = {device: sum(moment.device == device for moment in moments) for device in devices}
    devices.sort(key=lambda device: (device != root or root is None, device is None, -counts[device]))
    shown = devices if len(devices) <= MOST_LANES else devices[:MOST_LANES - 1]
    rest = devices[len(shown):]
    lanes = [(device or "no device named", frozenset({device})) for device in shown]
    return lanes + ([(f"{len(rest)} others", frozenset(rest))] if rest else [])


def _part(parts: Sequence[Segment], at: float) -> Segment:
    return next((part for part in parts if at <= part.last), parts[-1])


def _percent(value: float) -> str:
    return f"{value:.3f}%"


def _mark(number: int, moment: Moment, x: float, y: int) -> Html:
    name = kind(moment)
    said = f"{number}: +{moment.after:.3f} s  {moment.text[:120]}"
    return tag("svg", tag("title", said), tag("path", d=_KINDS[name][0]), x=_percent(x), y=y,
               class_=f"mark {name}", overflow="visible")


def _beside(
    placed: Sequence[tuple[float, int, Segment]], parts: Sequence[Segment], near: float,
) -> list[list[tuple[float, int]]]:
    """What may share a number: all of a lane where a cut is too narrow to tell, else what is in one segment."""
    if near > 2 * _GAP:
        return [[(x, number) for x, number, _ in placed]]
    return [[(x, number) for x, number, own in placed if own is part] for part in parts]


def _labels(placed: Sequence[tuple[float, int]], near: float) -> Iterator[tuple[float, str]]:
    """Numbers below the marks; those of marks that stand close are one, `3-7`."""
    groups: list[list[tuple[float, int]]] = []
    for x, number in sorted(placed):
        if groups and x - sum(at for at, _ in groups[-1]) / len(groups[-1]) < near:
            groups[-1].append((x, number))
        else:
            groups.append([(x, number)])
    for group in groups:
        numbers = sorted(number for _, number in group)
        label = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        yield sum(x for x, _ in group) / len(group), label


def _segment(part: Segment, floor: int, number: int, count: int) -> Html:
    """The scale of a stretch: ticks, when it begins, how long it is; and the cut before it.

    Where there are many stretches, a narrow screen has no room for what stands below each of them.
    """
    marks = []
    long = "span wide" if count > 2 else "span"
    start = "start wide" if count > 3 and number % 2 else "start"
    if part.gap is not None:
        x = _percent(part.left - _GAP / 2)
        marks.append(tag("svg", tag("path", d=_CUT), x=x, y=floor, class_="cut", overflow="visible"))
        marks.append(tag("text", lasted(part.gap), x=x, y=12, class_="gap"))
    end = part.left + part.width
    marks.append(tag("line", x1=_percent(part.left), x2=_percent(end), y1=floor, y2=floor, class_="axis"))
    for at in _ticks(part):
        x = _percent(part.x(at))
        marks.append(tag("line", x1=x, x2=x, y1=floor, y2=floor + 4, class_="axis"))
    middle = part.last == part.first
    marks.append(tag("text", _point(part.first, part), x=_percent(part.x(part.first)), y=floor + 17,
                     class_=f"{start} middle" if middle else start))
    if not middle:
        marks.append(tag("text", f"{lasted(part.last - part.first)} long", x=_percent(part.left), y=floor + 32,
                         class_=long))
        if part.width > 2 * _LEAST:
            marks.append(tag("text", _point(part.last, part), x=_percent(end), y=floor + 17, class_="end wide"))
    return join(*marks)


def _point(at: float, part: Segment) -> str:
    """When, as exactly as the stretch needs to tell its ends apart."""
    span = part.last - part.first
    digits = min(6, max(2, 1 - math.floor(math.log10(span)))) if span > 0 else 3
    return f"+{at:,.{digits}f} s" if at < 600 or digits > 2 else f"+{lasted(at)}"


def _ticks(part: Segment) -> Iterator[float]:
    """Round times within a stretch, some ten over the whole width."""
    span = part.last - part.first
    if span <= 0:
        return
    rough = span / max(2.0, part.width / 8)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough)
    for n in range(math.ceil(part.first / step), math.floor(part.last / step) + 1):
        yield n * step
