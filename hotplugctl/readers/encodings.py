"""Bytes of whatever encoding -> text without what only a terminal would obey. Pure."""

from __future__ import annotations

import re

_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))
_LOOK = 4096        # bytes that tell the encoding of a text without a mark
# What is written for a terminal and is no text: sequences as of ECMA-48, and the other control characters. Serial
# consoles and programs with progress bars write them between the words, and files after a crash hold zeros.
CONTROL = r"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f]"
SEQUENCES = (
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-Z\\`-~]"
)
# The same with their 8-bit introducers, and the marks that turn the direction of writing around.
_CONTROLS = re.compile(
    rf"{SEQUENCES}|\x9b[0-?]*[ -/]*[@-~]|[\x90\x98\x9d-\x9f][^\x07\x1b\x9c\n]*(?:\x07|\x9c|\x1b\\)?"
    rf"|{CONTROL}|[\x80-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]|\r(?=[^\r\n])"
)


def without_controls(text: str) -> str:
    """The text without what only a terminal would obey."""
    return _CONTROLS.sub("", text)


def decode(content: bytes) -> str:
    """Text of bytes in whatever encoding: UTF-16 by its mark or its zeros, else UTF-8, other bytes as `\\xNN`."""
    mark, encoding = encoding_of(content)
    return content[len(mark):].decode(encoding, "backslashreplace" if encoding == "utf-8" else "replace")


def encoding_of(content: bytes) -> tuple[bytes, str]:
    """The byte order mark with which a text begins, if any, and its encoding: UTF-8, or UTF-16 of either order.

    Without a mark every second byte of UTF-16 is a zero, as long as the text is mostly ASCII.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return mark, encoding
    start = content[:_LOOK]
    if b"\0" in start:
        for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
            zeros, others = start[first::2], start[1 - first::2]
            if zeros.count(0) > len(zeros) * 0.6 and others.count(0) < len(others) * 0.1:
                return b"", encoding
    return b"", "utf-8"
