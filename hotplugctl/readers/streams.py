"""Files that people send, opened for what they are: bundle or file, plain or compressed, in pieces of plain bytes.

The files are named by the user and lie outside any machine looked at, so no Host is asked for them; they are opened
with plain open. What comes out of a compressed file is bounded by how much larger than the file it may get.
"""

from __future__ import annotations

import bz2
import codecs
import contextlib
import errno
import gzip
import importlib
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from typing import IO, Any

from . import gathered
from .encodings import encoding_of

MOST_RATIO = 1000               # gzip's own limit is 1032; log text reaches some 30
RATIO_FROM = 16 << 20           # small files may be anything: twenty kilobytes of spaces are no bomb
PIECE = 1 << 18                 # fits into the processor's cache
# Pipes that somebody was told to write to: `dmesg | ... --from -` and `--from <(dmesg)`. Any other may have no writer.
_HANDED = re.compile(r"/dev/stdin|(?:/dev|/proc/self)/fd/(?P<number>\d{1,9})")


class Unusable(Exception):  # noqa: N818 - not an error of the program, only of one file
    """A file that is there and cannot be used; the sentence says why."""


class Torn(Unusable):
    """What is compressed is damaged from here on."""


def kind_of(path: str) -> str:
    """`bundle` for what Host.open reads (a manifest, or a tree of sysfs), `folder` or `archive` of files, or `file`."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        return "bundle" if _is_machine(path) else "folder"
    if stat.S_ISFIFO(mode):
        if _HANDED.fullmatch(path):
            return "file"       # what it holds can be read once only
        raise Unusable("a named pipe, to which nobody may write: hand it over with --from - < PIPE")
    if not stat.S_ISREG(mode):
        raise Unusable("not a file")
    with contextlib.suppress(Torn), opened(path) as stream:
        if (_read(stream, 512) or b"")[257:262] == b"ustar":
            return "bundle" if gathered.is_bundle(gathered.names_in(path, lambda: opened(path))) else "archive"
    return "file"


def _is_machine(path: str) -> bool:
    """Does a folder hold a bundle or a tree of sysfs, perhaps in the one folder in it? A sosreport is files to read."""
    names = os.listdir(path)
    only = f"{names[0]}/" if len(names) == 1 else ""
    return not os.path.isdir(f"{path}/{only}sos_commands") and any(
        os.path.exists(f"{path}/{below}{name}") for below in ("", only)
        for name in ("manifest.json", "sys/bus/pci/devices"))


_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\x00", "xz"), (b"BZh", "bzip2"), (b"\x28\xb5\x2f\xfd", "zstd"),
)


def _descriptor(path: str) -> int:
    """The file, opened so that nothing waits: /proc/kmsg is regular by its mode, a file may be swapped for a pipe."""
    handed = _HANDED.fullmatch(path)
    if handed is not None and stat.S_ISFIFO(os.stat(path).st_mode):
        return os.dup(int(handed["number"] or 0))       # opened anew, a named pipe would wait for another writer
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unusable("not a file")
    return descriptor


def _read(stream: Any, size: int) -> bytes | None:
    """A piece of a file; None where it has nothing now and would have us wait. Raises Torn for damaged compression.

    Of what is compressed, what one read of the file gives: damage takes nothing with it that came before.
    """
    try:
        read: Callable[[int], bytes | None] = stream.read if isinstance(stream, BufferedReader) else stream.read1
        return read(size)
    except (EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise Torn(f"damaged: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise Torn(f"damaged: {error}") from error         # gzip and bz2 say so with an OSError of no number
    except Exception as error:
        if type(error).__name__ != "ZstdError":             # each of the zstd modules has one of its own
            raise
        raise Torn(f"damaged: {error}") from error


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """The file, or what is in it when it is compressed."""
    with open(_descriptor(path), "rb") as file:
        start = file.peek(8)[:8]
        form = next((name for magic, name in _MAGIC if start.startswith(magic)), None)
        if form is None:
            yield file
            return
        with _OPENERS[form](file) as stream:
            yield stream


def _zstd(file: IO[bytes]) -> Any:
    for module in ("compression.zstd", "zstandard", "pyzstd"):      # the first came with Python 3.14
        with contextlib.suppress(ImportError):
            opener: Any = importlib.import_module(module)
            return opener.open(file, "rb")
    raise Unusable("zstd-compressed, and this Python has no zstd module: decompress it first (zstd -d)")


_OPENERS: dict[str, Callable[[Any], Any]] = {"gzip": gzip.open, "xz": lzma.open, "bzip2": bz2.open, "zstd": _zstd}


def pieces(path: str) -> Iterator[bytes]:
    """A file piece by piece, decompressed.

    Raises OSError and Unusable: what grows beyond bounds; Torn, after what came before the damage.
    """
    packed = os.stat(path).st_size
    total = held = 0
    parts: list[bytes] = []
    with opened(path) as stream:
        while True:
            try:
                piece = _read(stream, PIECE)
            except Torn:
                yield b"".join(parts)
                raise
            if piece is None and not total:
                raise BlockingIOError(errno.EAGAIN, "nothing to read in it now", path)
            total += len(piece or b"")
            if packed and total > RATIO_FROM and total > packed * MOST_RATIO:
                raise Unusable(f"unpacks to more than {MOST_RATIO} times its size: refused")
            parts.append(piece or b"")
            held += len(parts[-1])
            if held >= PIECE or not piece:
                yield b"".join(parts)
                parts, held = [], 0
            if not piece:
                return


def as_utf8(content: Iterable[bytes]) -> Iterator[bytes]:
    """The same text in UTF-8 where its first bytes tell of another encoding; without a byte order mark."""
    decoder: Any = None
    for number, piece in enumerate(content):
        if not number:
            mark, encoding = encoding_of(piece)
            piece = piece[len(mark):]
            decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding != "utf-8" else None
        yield decoder.decode(piece).encode("utf-8", "replace") if decoder is not None else piece
