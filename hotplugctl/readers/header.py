"""The header of a function: the 64 bytes of config space that anybody may read."""

from __future__ import annotations

from dataclasses import dataclass

from ..model import Kind, Maybe, Unknown

HEADER = 64
BAR_COUNT = {0: 6, 1: 2}         # by header type: endpoint, bridge

DEAD = Unknown("the function does not answer: its config space reads all ones", Kind.IO)
NO_HEADER = Unknown("less than a header of config space was read", Kind.NOT_CAPTURED)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a function is, from its header. Ids are lower-case hex; buses are set for bridges only."""

    vendor_id: str
    device_id: str
    class_: str
    revision: str
    header_type: int
    multi_function: bool
    primary_bus: int | None = None
    secondary_bus: int | None = None
    subordinate_bus: int | None = None


@dataclass(frozen=True, slots=True)
class BarRegister:
    """A base address register that is in use. `kind` is io, mem32, mem64 or mem64pref; `address` None = holds none."""

    index: int
    kind: str
    address: int | None


def number(config: bytes, at: int, size: int) -> int:
    """A little-endian number of `size` bytes."""
    return int.from_bytes(config[at:at + size], "little")


def answering(config: bytes) -> bool:
    """Does the function answer? False when all of its first 16 bytes are ones, or there are none.

    Vendor and device id alone prove nothing: a virtual function reads ffff:ffff there and is well (SR-IOV, 9.3.4.1).
    Four bytes are judged as they are.
    """
    return config[:16].strip(b"\xff") != b""


def unreadable(config: bytes) -> Unknown | None:
    """Why nothing can be decoded, if so: no answer, or less than a header."""
    if not answering(config) and config:
        return DEAD
    return NO_HEADER if len(config) < HEADER else None


def identity(config: bytes) -> Maybe[Identity]:
    """Ids, class and header type; of a bridge its bus numbers too. 64 bytes are enough."""
    if (why := unreadable(config)) is not None:
        return why
    kind = config[0x0E] & 0x7F
    buses = tuple(config[0x18:0x1B]) if kind in (1, 2) else (None, None, None)
    return Identity(
        f"{number(config, 0, 2):04x}", f"{number(config, 2, 2):04x}", f"{number(config, 9, 3):06x}",
        f"{config[8]:02x}", kind, bool(config[0x0E] & 0x80), *buses,
    )


def bar_registers(config: bytes) -> Maybe[tuple[BarRegister, ...]]:
    """The base address registers in use, out of the first 64 bytes.

    A register of zero is left out: not implemented, or 32-bit memory without an address; the bytes do not tell which.
    A virtual function's are all zero: its physical function holds them (SR-IOV, 9.3.4.1.11).
    """
    if (why := unreadable(config)) is not None:
        return why
    bars, index, count = [], 0, BAR_COUNT.get(config[0x0E] & 0x7F, 0)
    while index < count:
        low = number(config, 0x10 + 4 * index, 4)
        wide = low & 0b111 == 0b100 and index + 1 < count
        if low:
            address = low & (~0b11 if low & 1 else ~0b1111)
            if wide:
                address |= number(config, 0x14 + 4 * index, 4) << 32
            kind = "io" if low & 1 else ("mem64pref" if low & 0b1000 else "mem64") if wide else "mem32"
            bars.append(BarRegister(index, kind, address or None))
        index += 2 if wide else 1
    return tuple(bars)
