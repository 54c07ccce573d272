"""A large log in pieces -> the lines of it that a diagnosis can need, with their numbers, in bounded memory.

Needed are the lines that match a pattern, those that belong to them (a printk of several lines, the stack below a hung
task, the functions below an lspci heading), and the first and last lines. Where even those are too many, lines that
repeat others are counted instead.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..rules.weaken import finds_anything, weaker
from .encodings import CONTROL, SEQUENCES
from .engines import Finder, finder
from .located import BEHIND_A_WORD, CARD, FULL, LIBVIRT, SLOT
from .lspci import HEAD, HEADING

MOST_LINE = 1 << 17         # bytes of a line; a longer one is read in pieces
MOST_CONTINUED = 200        # lines that one line may have below it
_SEQUENCES = re.compile(SEQUENCES.encode())
_INDENTED = (b" ", b"\t", b"\r", b"\n", b">")      # so may begin what belongs to the line above; `>` quotes a mail
_QUOTED = re.compile(rb"(?:>(?: |(?! )))*[ \t\r\n]")
_DIGITS = re.compile(rb"\d+")
_PCI = re.compile(rb"[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]")
_HEADING = re.compile(HEAD.pattern.encode())
_STAMP = re.compile(rb"\[ *\d{1,15}\.\d{1,12}\]")
_LOOKS = 8
_LSPCI_LINES = 400          # of one function, its config space in hex included
# What the readers themselves look for: addresses, slots, lspci headings; and what hides the text from a pattern until
# they take it out: escapes in records of /dev/kmsg, control characters.
READ = (
    FULL.pattern, CARD.pattern, LIBVIRT.pattern, BEHIND_A_WORD, SLOT.pattern, HEADING,
    r"\d,\d+,\d+,[^;]*;.*\\x[0-9a-fA-F]{2}", CONTROL,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes of needed lines kept of the beginning, the end and between; lines kept of a kind between, and always."""

    part: int = 4 << 20
    of_a_kind: int = 20
    kinds: int = 20_000
    head: int = 2000        # in so many the lspci reader looks for a heading
    tail: int = 50


LIMITS = Limits()
_LINE_COST = 200            # bytes beside its own that a line takes


@dataclass(frozen=True, slots=True)
class Sieve:
    """What to look for: a Finder, and how many lines to keep below a line that holds one of some words."""

    engine: str
    find: Finder
    followed: Mapping[bytes, int]

    def follows(self, line: bytes) -> int:
        """How many lines below this one belong to it."""
        if (line[2:3] == b":" or line[4:5] == b":") and _HEADING.match(line):
            return _LSPCI_LINES
        return max((count for word, count in self.followed.items() if word in line), default=0)


@dataclass(frozen=True, slots=True)
class Kept:
    """The needed lines with their numbers; how many lines there were, and what was made of them.

    `repeats`: needed lines that were only counted; `pieces`: lines too long to be read at once.
    """

    lines: tuple[tuple[int, bytes], ...]
    read: int
    repeats: int
    pieces: int


def sieve(patterns: Iterable[str], followed: Mapping[str, int], size: int, engine: str | None = None) -> Sieve | None:
    """A Sieve for a log of so many bytes; None where the patterns find every line."""
    wanted = (*patterns, *READ)
    if any(finds_anything(weaker(pattern)) for pattern in wanted):
        return None
    name, find = finder(wanted, size, engine)
    return Sieve(name, find, {word.encode(): count for word, count in followed.items()})


def keep(wanted: Sieve, pieces: Iterable[bytes], limits: Limits = LIMITS) -> Kept:
    """The needed lines of a log that comes in pieces."""
    scan = _Scan(wanted, limits)
    held = b""
    for block in _blocks(pieces):
        if held:
            scan.take(held)
        held = block
    scan.take(held, last=True)
    return scan.result()


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes without what colours them, cut where a line begins that belongs to none above."""
    rest = b""
    for piece in pieces:
        data = rest + piece
        cut = _cut(data)
        if not cut and len(data) > MOST_LINE:
            cut = data.rfind(b"\n") + 1 or len(data)
        if cut:
            yield _plain(data[:cut])
        rest = data[cut:]
    if rest:
        yield _plain(rest)


def _plain(block: bytes) -> bytes:
    if b"\0" in block:      # files after a crash hold megabytes of them, and each would be a find of its own
        block = block.replace(b"\0", b"")
    return _SEQUENCES.sub(b"", block) if b"\x1b" in block else block


def _cut(data: bytes) -> int:
    at = len(data)
    for _ in range(MOST_CONTINUED):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return 0
        if at + 1 < len(data) and data[at + 1:at + 2] not in _INDENTED:
            return at + 1
    return data.rfind(b"\n") + 1


class _Scan:
    """The way through one log: which line it is at, and how many lines are owed to one that was needed."""

    def __init__(self, wanted: Sieve, limits: Limits) -> None:
        self._sieve, self._limits = wanted, limits
        self._kept = _Store(limits)
        self._number = 1            # of the line at `_at`
        self._at = 0                # what lies before it in the block is decided
        self._owed = limits.head
        self._pieces = 0
        self._broken = False
        self._kernel = False

    def take(self, block: bytes, *, last: bool = False) -> None:
        """Keep what is needed of a block of whole lines."""
        self._at = 0
        for place in self._places(block):
            start = max(block.rfind(b"\n", 0, place) + 1, self._at)
            if self._owed:
                self._pay(block, start)
            end = block.find(b"\n", place) + 1 or len(block)
            if end > self._at:
                self._keep(block, _above(block, start, self._at), end)
                self._owed = max(self._owed, self._sieve.follows(block[start:end]))
        self._pay(block, len(block))
        if last:
            self._keep(block, max(self._at, _tail(block, self._limits.tail)), len(block))
        self._number += block.count(b"\n", self._at)
        ended = block.endswith(b"\n")
        self._pieces += not ended and not last and not self._broken
        self._broken = not ended

    def _places(self, block: bytes) -> Iterable[int]:
        """Where something needed stands; the first line that only a kernel log has is (it tells that one was sent)."""
        found = self._sieve.find(block)
        if not self._kernel:
            stamped = _stamped(block)
            if stamped is not None:
                self._kernel = True
                return sorted((*found, stamped))
        return found

    def result(self) -> Kept:
        """What was kept, when all blocks were taken."""
        read = self._number - (0 if self._broken else 1)
        return Kept(tuple(self._kept.lines()), read, self._kept.repeats, self._pieces)

    def _pay(self, block: bytes, until: int) -> None:
        """Keep the lines from here on that are owed."""
        end = self._at
        while self._owed and end < until:
            start, end = end, block.find(b"\n", end) + 1 or len(block)
            self._owed -= not block[start:end].isspace()
        self._keep(block, self._at, end)

    def _keep(self, block: bytes, start: int, end: int) -> None:
        if start >= end:
            return
        self._number += block.count(b"\n", self._at, start)
        lines = block[start:end].split(b"\n")
        for raw in lines if lines[-1] else lines[:-1]:
            self._kept.add(self._number, raw)
            self._number += 1
        self._number -= lines[-1] != b""
        self._at = end


def _above(block: bytes, start: int, decided: int) -> int:
    """Where the message begins that the line at `start` belongs to."""
    for _ in range(MOST_CONTINUED):
        if start <= decided or block[start:start + 1] not in _INDENTED or not _QUOTED.match(block, start):
            break
        start = max(block.rfind(b"\n", 0, start - 1) + 1, decided)
    return start


def _stamped(block: bytes) -> int | None:
    """A line of the block with a kernel's own time, if it is among the first that begin like one."""
    at = 0
    for _ in range(_LOOKS):
        if _STAMP.match(block, at):
            return at
        at = block.find(b"\n[", at) + 1
        if not at:
            break
    return None


def _tail(block: bytes, lines: int) -> int:
    at = len(block) - block.endswith(b"\n")
    for _ in range(lines):
        at = block.rfind(b"\n", 0, at)
        if at < 0:
            return 0
    return at + 1


class _Store:
    """The first and the last needed lines, and of those between some of every kind.

    Lines are of one kind that differ in numbers only, and not in the device they name.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._first: list[tuple[int, bytes]] = []
        self._middle: list[tuple[int, bytes]] = []
        self._last: deque[tuple[int, bytes]] = deque()
        self._room = [limits.part, limits.part]      # at the beginning and between
        self._late = 0
        self._kinds: dict[bytes, int] = {}
        self.repeats = 0

    def add(self, number: int, raw: bytes) -> None:
        """One more needed line."""
        cost = len(raw) + _LINE_COST
        if self._room[0] > 0:
            self._room[0] -= cost
            self._first.append((number, raw))
            return
        self._last.append((number, raw))
        self._late += cost
        while self._late > self._limits.part:
            old = self._last.popleft()
            self._late -= len(old[1]) + _LINE_COST
            self._between(old)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Everything kept, in order."""
        yield from self._first
        yield from self._middle
        yield from self._last

    def _between(self, line: tuple[int, bytes]) -> None:
        raw = line[1]
        kind = b" ".join((_DIGITS.sub(b"0", raw[:1000]), *_PCI.findall(raw[:1000])))
        count = self._kinds.get(kind, 0)
        full = count >= self._limits.of_a_kind or self._room[1] <= 0
        if full or (not count and len(self._kinds) >= self._limits.kinds):
            self.repeats += 1
            return
        self._kinds[kind] = count + 1
        self._room[1] -= len(raw) + _LINE_COST
        self._middle.append(line)
