"""Protocol Buffers as bytes: the fields of a message, enough to read what a kubelet wrote. Pure.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of each length-delimited field; numbers are passed over. Raises ValueError on other bytes."""
    here = 0
    while here < len(message):
        tag, here = _varint(message, here)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            _, here = _varint(message, here)
        elif kind in (EIGHT, FOUR):
            here += 8 if kind == EIGHT else 4
        elif kind == LENGTH:
            size, here = _varint(message, here)
            if here + size > len(message):
                raise ValueError("a field is longer than its message")
            yield number, message[here:here + size]
            here += size
        else:
            raise ValueError(f"wire type {kind}")
    if here > len(message):
        raise ValueError("the message is cut short")


def inside(message: bytes, number: int) -> Iterator[bytes]:
    """The contents of one field, in order."""
    return (content for found, content in fields(message) if found == number)


def text(message: bytes, number: int) -> str:
    """A field as text: the last one counts; empty when it is not there."""
    found = ""
    for content in inside(message, number):
        found = content.decode("utf-8", errors="backslashreplace")
    return found


def pairs(message: bytes, number: int) -> Iterator[tuple[str, str]]:
    """A map<string, string>: a repeated message of key (1) and value (2)."""
    return ((text(entry, 1), text(entry, 2)) for entry in inside(message, number))


def _varint(message: bytes, here: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if here >= len(message):
            raise ValueError("the message is cut short")
        byte = message[here]
        here += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, here
    raise ValueError("a number has no end")
