"""What a port can still take: free address space and bus numbers, and whether a card of some size would fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .look import Look
from .model import Kind, Maybe, Port, Room, Unknown
from .readers import pci, slots


def room(seen: Look, port: Port, sizes: Sequence[int] = ()) -> Room:
    """What a port can still take; `sizes` in bytes are asked of its prefetchable window."""
    taken = {
        f.address: _ranges(seen, f) for f in seen.functions if f.above and f.above[-1] == port.address
    }
    found = slots.room(port, seen.functions, taken)
    return replace(found, fits={str(size): _fits(found, size) for size in sizes})


def _ranges(seen: Look, function: pci.Function) -> tuple[tuple[int, int], ...]:
    """Address ranges a function occupies: its BARs, and its windows where it is a bridge."""
    power = pci.power(seen.host, function)
    bars = pci.bars(seen.host, function, pci.config(seen.host, function, power))
    placed = [
        (b.address, b.address + b.size - 1) for b in (bars if isinstance(bars, tuple) else ())
        if isinstance(b.address, int) and isinstance(b.size, int) and b.kind != "io"
    ]
    windows = pci.windows(seen.host, function) if function.is_bridge else ()
    return (*placed, *((w.start, w.end) for w in (windows if isinstance(windows, tuple) else ()) if w.kind != "io"))


def _fits(room: Room, size: int) -> Maybe[bool]:
    """Does a BAR of this size find a free range? Any may go into the 32-bit window, only 64-bit ones into the other.

    One that does not may still fit: the kernel enlarges the window of an empty port if it can.
    """
    for free in (room.mem, room.prefetchable):
        if isinstance(free, int) and size <= free:
            return True
    if isinstance(room.prefetchable, Unknown):
        return room.prefetchable
    return Unknown("not in the windows as they are; the kernel may enlarge them", Kind.IO)
