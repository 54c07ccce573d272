"""The live table of `watch`: Changes in, the lines of a table out, for a width, a height and a moment. Pure.

One line a device, always: what does not fit is cut, since the event lines above the table say it whole.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..model import LADDER, Budget, Change, ChangeKind, Device, Severity, State
from . import changes
from .tables import STYLES, cell, safe

GAP = 2                       # between columns
LEAST_MODEL, LEAST_REMARK = 8, 12
FOR_EVENTS = 5                # rows left to the event lines, where the screen has them
HEADS = ("SLOT", "ADDRESS", "MODEL", "LADDER", "ELAPSED", "REMARK")
NOTHING = "no accelerator here; waiting for one"

_CAME = (ChangeKind.ADDED, ChangeKind.REPLACED)
_CLIMBS = (*_CAME, ChangeKind.PROGRESS, ChangeKind.LATE)
_GONE = (ChangeKind.REMOVED, ChangeKind.SURPRISE_REMOVED)
_SETTLES = (ChangeKind.READY, ChangeKind.FAILED, *_GONE)
_TROUBLE = (ChangeKind.FAILED, ChangeKind.LATE, ChangeKind.DEGRADED, ChangeKind.FLAPPING)
_NO_TROUBLE = (ChangeKind.READY, ChangeKind.RECOVERED, *_CAME, *_GONE)
_AWAY = (State.REMOVED, State.ABSENT)


@dataclass(frozen=True, slots=True)
class Place:
    """One row. Times are monotonic seconds. `since`: on its way since then; `rung`: the highest known on the ladder."""

    device: Device
    rung: State | None = None
    since: float | None = None
    budget: Budget | None = None
    deadline: float | None = None
    trouble: ChangeKind | None = None
    said: str = ""

    @property
    def bar(self) -> str:
        """The ladder: `####--`; the rung it failed at is an `x`, the one it is late for a `!`."""
        reached = LADDER.index(self.rung) + 1 if self.rung in LADDER and self.device.state not in _AWAY else 0
        bar = "#" * reached + "-" * (len(LADDER) - reached)
        sign = "x" if self.failed else "!" if self.trouble is ChangeKind.LATE else ""
        at = min(reached, len(LADDER) - 1)
        return bar[:at] + sign + bar[at + 1:] if sign else bar

    @property
    def failed(self) -> bool:
        """It will not go on by itself."""
        return self.trouble is ChangeKind.FAILED or self.device.state is State.FAILED

    @property
    def word(self) -> str:
        """Where it stands, in a word; the trouble, where there is some."""
        if self.failed:
            return State.FAILED.value
        state = self.device.state.value + ("" if self.device.sure or self.device.state in _AWAY else "?")
        if self.trouble is ChangeKind.LATE:
            return f"{state}, late"
        return self.trouble.value if self.trouble is not None else state

    @property
    def mark(self) -> State | Severity:
        """What the colour of its word stands for."""
        return changes.MARKS[self.trouble] if self.trouble is not None else self.device.state

    @property
    def remark(self) -> str:
        """What was last said of it, else what it lacks, else its notes."""
        device = self.device
        if self.said or device.state in _AWAY:
            return self.said
        return device.error or device.missing or "; ".join(note.text for note in device.notes)

    def elapsed(self, now: float, limit_s: float) -> str:
        """The time so far against the budget, the time left, or the time it took."""
        if self.since is not None:
            took = f"{max(0.0, now - self.since):.1f}"
            # The budget begins when the bus shows the card.
            return f"{took} s" if self.device.address is None or limit_s == float("inf") else f"{took}/{limit_s:g} s"
        if self.deadline is not None:
            return f"{max(0.0, self.deadline - now):.0f} s left"
        return f"{self.budget.took_s:.2f}/{self.budget.limit_s:g} s" if self.budget is not None else ""

    @property
    def rank(self) -> int:
        """How much it needs a look, 0 the most."""
        asks = (
            self.failed, self.trouble is ChangeKind.LATE, self.trouble is not None, self.since is not None,
            self.device.state is State.DRAINING, self.device.state not in (State.READY, State.DRAINED, *_AWAY),
            self.device.state is State.READY,
        )
        return asks.index(True) if True in asks else len(asks)


@dataclass(frozen=True, slots=True)
class Drawing:
    """Lines for the terminal, each with its end, and how many characters wide each is there."""

    text: str = ""
    cells: tuple[int, ...] = ()

    def rows(self, width: int) -> int:
        """How many rows of the screen it takes, after the terminal has wrapped it to `width`."""
        return sum(max(1, -(-cells // width)) for cells in self.cells)


class _Line(NamedTuple):
    """A row's cells as they are shown; the fourth is coloured by `mark`."""

    cells: tuple[str, ...]
    mark: State | Severity | None = None


@dataclass
class Board:
    """What stands where, from one Change to the next. `limit_s` is the budget of a card that comes."""

    limit_s: float
    places: dict[tuple[str, str], Place] = field(default_factory=dict)

    def take(self, change: Change) -> None:
        """Remember what a Change says of its device, or of all of them."""
        for device in change.standing or ():
            known = self.places.get(_key(device))
            self._put(replace(known, device=device, rung=_rung(device, known)) if known is not None
                      else Place(device, _rung(device, None)))
        if change.device is not None:
            key = _key(change.device)
            seated = self.places.get((key[0], "")) if key[0] else None     # the slot saw it before the bus did
            self._put(_next(self.places.get(key) or seated, change, change.device))

    def moving(self, now: float) -> bool:
        """Is there a row that changes with time alone?"""
        return any(p.since is not None or (p.deadline is not None and p.deadline > now) for p in self.places.values())

    def draw(
        self, width: int, height: int, now: float, *, color: bool = False, encoding: str = "utf-8"
    ) -> Drawing:
        """The table for a screen of that size; `encoding` is what the terminal can show."""
        room = max(1, height - 1 - min(FOR_EVENTS, height // 4))     # the last row is the cursor's
        head = 2 if room >= 5 else 0
        places = sorted(self.places.values(), key=_order)
        hidden: Sequence[Place] = ()
        if len(places) > room - head:
            places.sort(key=lambda place: place.rank)
            places, hidden = places[:room - head - 1], places[room - head - 1:]
        lines = [_Line(HEADS), *(self._line(place, now, encoding) for place in places)] if places else []
        texts = _laid_out(lines, width - 1, color=color)
        note = _more(hidden, alone=not places) if hidden else "" if places else NOTHING
        if note:
            texts.append((_cut(note, width - 1), ""))
        if head:
            texts.insert(0, ("-" * (width - 1), ""))
        else:
            texts = texts[1:] if places else texts
        from rich.cells import cell_len

        return Drawing("".join(f"{shown or plain}\n" for plain, shown in texts),
                       tuple(cell_len(plain) for plain, _ in texts))

    def _line(self, place: Place, now: float, encoding: str) -> _Line:
        device = place.device
        ids = f"{device.vendor_id}:{device.device_id}" if isinstance(device.vendor_id, str) else device.model
        name = next((name for name in (device.model, device.vendor) if isinstance(name, str)), ids)
        shown = (cell(device.slot), cell(device.address), cell(name), f"{place.bar} {place.word}",
                 place.elapsed(now, self.limit_s), safe(place.remark))
        # What the terminal cannot show is written as Python would, and counted so.
        return _Line(tuple(text.encode(encoding, "backslashreplace").decode(encoding) for text in shown), place.mark)

    def _put(self, place: Place) -> None:
        slot, address = _key(place.device)
        if slot and place.device.state not in _AWAY:     # what was in the slot before is no row of its own
            gone = [key for key, other in self.places.items() if key[0] == slot and key[1] != address
                    and (not key[1] or not address or other.device.state in _AWAY)]
            for key in gone:
                del self.places[key]
        self.places[slot, address] = place


def event(change: Change, *, color: bool = False) -> str:
    """The event line of a Change, with its end."""
    mark = changes.MARKS.get(change.kind)
    text = changes.line(change)
    return (_paint(text, STYLES[mark]) if color and mark is not None else text) + "\n"


def _key(device: Device) -> tuple[str, str]:
    return device.slot if isinstance(device.slot, str) else "", device.address or ""


def _rung(device: Device, known: Place | None) -> State | None:
    """Its rung; of a card that fell off the ladder, the last one it had."""
    return device.rung if device.rung in LADDER else known.rung if known is not None else None


def _next(known: Place | None, change: Change, device: Device) -> Place:
    kind = change.kind
    old = known if known is not None and kind not in _CAME else Place(device)
    trouble = kind if kind in _TROUBLE else None if kind in _NO_TROUBLE else old.trouble
    said = change.diagnosis.title if change.diagnosis is not None else "; ".join(change.because)
    said = said.removeprefix(f"{device.address}: ")     # its row says that already
    return Place(
        device, _rung(device, known), None if kind in _SETTLES else _since(known, change, device),
        change.budget if kind in (ChangeKind.READY, *_GONE) else old.budget,
        change.monotonic + change.deadline_s if change.deadline_s is not None else None, trouble, said,
    )


def _since(known: Place | None, change: Change, device: Device) -> float | None:
    """When it began its way: a Change says how long ago its rungs were reached, the highest no later than now."""
    reached = [seconds for stage, seconds in change.timings.items() if stage != "queued"]
    began = change.monotonic - (change.budget.took_s if change.budget is not None else max(reached, default=0.0))
    if known is None or change.kind in _CAME:
        return began if change.kind in _CLIMBS else None
    if known.since is None or (known.device.address is None and device.address is not None):
        return began if known.since is not None else None
    return min(known.since, began)


def _order(place: Place) -> tuple[object, ...]:
    """By slot as people count them, those without a slot last; by address within."""
    slot, address = _key(place.device)
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", slot) if part]
    return not slot, parts, address


def _more(hidden: Sequence[Place], *, alone: bool) -> str:
    counts = Counter(place.word.split(", ")[-1] for place in hidden)     # of "bound, late" the worse
    return f"{len(hidden)} {'devices' if alone else 'more'}: " + ", ".join(f"{n} {word}" for word, n in counts.items())


def _laid_out(lines: Sequence[_Line], width: int, *, color: bool) -> list[tuple[str, str]]:
    """Each line plain, and as it is shown when that is coloured; none wider than `width`."""
    from rich.cells import cell_len

    if not lines:
        return []
    natural = [max(cell_len(line.cells[at]) for line in lines) for at in range(len(HEADS))]
    rows = [line.cells for line in lines]
    slot, address, model, ladder, elapsed, remark = (
        size if any(row[at] not in ("", "-", "?") for row in rows[1:]) else 0 for at, size in enumerate(natural))
    if slot and _total(slot, address, ladder) > width:     # the slot stands where an address is missing
        rows = [(one, f"slot {one}" if two == "-" else two, *rest) for one, two, *rest in rows]
        address = max(cell_len(row[1]) for row in rows)
        slot = 0
    if _total(slot, address, ladder, elapsed) > width:
        elapsed = 0
    model, remark = _shared(width - _total(slot, address, ladder, elapsed) - GAP, model, remark)
    sizes = (slot, address, model, ladder, elapsed, remark)
    return [_row(cells, sizes, width, line.mark, color=color, head=line is lines[0])
            for cells, line in zip(rows, lines, strict=True)]


def _total(*sizes: int) -> int:
    kept = [size for size in sizes if size]
    return sum(kept) + GAP * (len(kept) - 1)


def _shared(left: int, model: int, remark: int) -> tuple[int, int]:
    """What is left of the line for the model and the remark: the remark first, a third at least for the model."""
    if not remark:
        return (min(model, left) if left >= LEAST_MODEL else 0), 0
    name = min(model, max(left - remark - GAP, left // 3))
    if model and (name < min(model, LEAST_MODEL) or left - name - GAP < min(remark, LEAST_REMARK)):
        name = 0
    rest = min(remark, left - (name + GAP if name else 0))
    return name, rest if rest >= LEAST_REMARK or rest == remark else 0


def _row(
    cells: Sequence[str], sizes: Sequence[int], width: int, mark: State | Severity | None, *, color: bool, head: bool
) -> tuple[str, str]:
    from rich.cells import cell_len

    plain, shown = "", ""
    for at, (text, size) in enumerate(zip(cells, sizes, strict=True)):
        room = min(size, width - cell_len(plain) - (GAP if plain else 0))
        if room <= 0:
            continue
        before = " " * GAP if plain else ""
        text = _cut(text, room)
        pad = " " * (room - cell_len(text))
        style = "bold" if head else STYLES[mark] if mark is not None and at == 3 else ""
        plain += before + text + pad
        shown += before + (_paint(text, style) if color and style else text) + pad
    return plain.rstrip(), shown.rstrip() if color else ""


def _cut(text: str, width: int) -> str:
    """The text in at most `width` characters of the terminal."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 2) + ".." if width > 4 else set_cell_size(text, max(0, width))


def _paint(text: str, style: str) -> str:
    from rich.color import ColorSystem
    from rich.style import Style

    return Style.parse(style).render(text, color_system=ColorSystem.STANDARD) if style else text
