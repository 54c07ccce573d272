"""A socket filter that keeps the kernel's uevents of other subsystems from ever waking us. Pure: names in, program out.

A uevent is `action@devpath\\0ACTION=action\\0DEVPATH=devpath\\0SUBSYSTEM=name\\0...` (lib/kobject_uevent.c,
kobject_uevent_env). With p the place of the first NUL, action and devpath are p - 1 bytes together, each is written
twice, and so SUBSYSTEM= stands at 2p + 17, whatever the action. Classic BPF cannot loop: one test for each place.

Whatever does not look like that passes: the filter saves work, the reader behind it decides.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

# linux/bpf_common.h: class | size | mode. Loads of several bytes are big-endian; one beyond the end drops the message.
LOAD_BYTE, LOAD_WORD, LOAD_LENGTH, LOAD_X = 0x30, 0x20, 0x80, 0x01
LOAD_WORD_AT_X, LOAD_HALF_AT_X, LOAD_BYTE_AT_X = 0x40, 0x48, 0x50
IF_EQUAL, IF_NOT_LESS, IF_NOT_LESS_THAN_X, GO, MINUS_X, RETURN = 0x15, 0x35, 0x3D, 0x05, 0x1C, 0x06

# The place of the first NUL: no head is shorter than add@/x, and a longer one than LAST passes. LAST_SMALL is for
# kernels before 6.7, where a socket's options may take 20480 bytes (net.core.optmem_max) and 128 places take 17000.
FIRST, LAST, LAST_SMALL = 6, 400, 128
KEY = b"SUBSYSTEM="

Step = tuple[int, int, int, int]  # code, steps to pass over when true, when false, operand
PASS: Step = (RETURN, 0, 0, 0xFFFFFFFF)
DROP: Step = (RETURN, 0, 0, 0)


def program(subsystems: Iterable[str], last: int = LAST) -> bytes:
    """The steps (struct sock_filter[]) that pass kernel uevents of these subsystems and drop those of all others."""
    values = [name.encode() + b"\0" for name in sorted(subsystems)]
    # libudev's own framing, which device simulators send in the kernel's group too, is for the reader.
    libudev = [(LOAD_WORD, 0, 0, 0), (IF_EQUAL, 0, 1, _number(b"libu")), PASS]
    find = []
    for place in range(FIRST, last):
        onward = 4 * (last - 1 - place) + 1
        find += [(LOAD_BYTE, 0, 0, place), (IF_EQUAL, 0, 2, 0), (LOAD_X, 0, 0, 2 * place + 17), (GO, 0, 0, onward)]
    find += [PASS]
    # No load below reaches beyond the end: what is too short for the longest comparison passes.
    room = len(KEY) + max(map(len, values), default=0) + 4
    compare = [
        (LOAD_LENGTH, 0, 0, 0), (IF_NOT_LESS_THAN_X, 1, 0, 0), PASS,
        (MINUS_X, 0, 0, 0), (IF_NOT_LESS, 1, 0, room), PASS,
        *_equal(KEY, 0), (GO, 0, 0, 1), PASS,
    ]
    for value in values:
        compare += [*_equal(value, len(KEY)), PASS]
    return b"".join(struct.pack("=HBBI", *step) for step in (*libudev, *find, *compare, DROP))


def _equal(wanted: bytes, offset: int) -> list[Step]:
    """Go on when the message has `wanted` at X + offset; if not, pass over one step more."""
    pieces: list[tuple[int, int, bytes]] = []
    while wanted:
        size, load = next(row for row in ((4, LOAD_WORD_AT_X), (2, LOAD_HALF_AT_X), (1, LOAD_BYTE_AT_X))
                          if row[0] <= len(wanted))
        pieces.append((load, offset, wanted[:size]))
        offset, wanted = offset + size, wanted[size:]
    steps: list[Step] = []
    for left, (load, place, piece) in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
        steps += [(load, 0, 0, place), (IF_EQUAL, 0, 2 * left + 1, _number(piece))]
    return steps


def _number(piece: bytes) -> int:
    return int.from_bytes(piece, "big")
