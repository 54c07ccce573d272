"""Directories and archives of many files -> the members that are evidence, each read within bounds.

Nothing is unpacked to disk, no link is followed, and what is no regular file is passed over: a name in an archive is a
label and never a path. What is larger than the bounds is read at its end, where a log has its failure.
"""

from __future__ import annotations

import bz2
import fnmatch
import lzma
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from ..model import Gap
from . import layouts

MOST_MEMBERS = 200_000
MOST_READ = 2_000               # files of one collection
MOST_MEMBER = 32 << 20          # bytes of one file
MOST_TOTAL = 256 << 20          # bytes of all files together
MOST_UNPACKED = 8 << 30         # bytes that an archive unpacks to, those passed over included
MOST_RATIO = 1000
DEEPEST = 24
_JOURNAL_FILE = b"LPKSHHRH"     # systemd, journal-def.h: the signature of a journal file
_PIECE = 1 << 16
_STAMP = re.compile(r"(?m)^(?:<\d+>)?\[ *(\d{1,12}\.\d+)\]")
_EARLY = 5.0            # seconds after the boot by which the kernel has written its first line
_KERNELS = re.compile(r"(?m)^\S.{0,90} kernel: .*$")      # the line goes, its number stays


class TooMuch(Exception):  # noqa: N818 - a bound that a file passes, not an error of the program
    """The archive unpacks to more than the bounds allow; the sentence says so."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file of a collection: its name below the top folder, and what is in it, decompressed."""

    name: str
    content: bytes


def of_directory(path: str) -> Iterator[Member | Gap]:
    """The evidence in a folder. Raises OSError when the folder itself cannot be listed."""
    names, left_out = _walk(path)
    if left_out:
        yield Gap(path, f"only its first {MOST_MEMBERS:,} files were looked at", half=True)
    yield from _read_all(path, names, lambda name, most: _end_of(os.path.join(path, name), most))


def of_archive(path: str, opened: Callable[[], Any]) -> Iterator[Member | Gap]:
    """The evidence in a tar; `opened` gives its bytes from the start, decompressed, and is asked twice.

    Raises TooMuch and whatever reading the stream raises.
    """
    packed = os.stat(path).st_size
    names, torn = _listed(path, opened, packed)
    if torn is not None:
        yield torn
    chosen = frozenset(layouts.wanted(names))
    top = layouts.top_folder(names)
    kept = total = 0
    with opened() as stream:
        try:
            for name, file in _members(stream, packed):
                if name not in chosen:
                    continue
                if kept >= MOST_READ or total >= MOST_TOTAL:
                    yield _rest(path, len(chosen) - kept)
                    return
                content, gap = unpacked(_tail(file, MOST_MEMBER), MOST_MEMBER, name.removeprefix(top))
                kept, total = kept + 1, total + len(content)
                yield from _told(path, name.removeprefix(top), content, gap)
        except tarfile.TarError:
            return      # said already


def once(texts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The texts, the kernel's lines once: a sosreport has them in dmesg and again in the journal.

    The journal's count where the kernel's buffer has lost its beginning, else those of dmesg.
    """
    dmesg = next(((name, text) for name, text in texts if _named(name, layouts.KERNEL)), None)
    if dmesg is None or not any(_named(name, layouts.JOURNAL) for name, _ in texts):
        return list(texts)
    first = _STAMP.search(dmesg[1])
    if first is None or float(first[1]) > _EARLY:
        journals = "".join(text for name, text in texts if _named(name, layouts.JOURNAL))
        return [(name, text) for name, text in texts if name != dmesg[0]] if " kernel: " in journals else list(texts)
    return [(name, _KERNELS.sub("", text) if _named(name, layouts.JOURNAL) else text) for name, text in texts]


def _named(name: str, choice: layouts.Choice) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in choice.globs)


def is_bundle(names: Iterator[str] | list[str]) -> bool:
    """Does an archive or folder of these files hold a machine as `Host.open` reads it, rather than files to read?"""
    for name in names:
        parts = name.strip("/").split("/")
        if parts[-1] == "manifest.json" and len(parts) <= 2:
            return True
        if "sos_commands" in parts[:2]:
            return False
        if "/".join(parts[:4]) == "sys/bus/pci/devices" or "/".join(parts[1:5]) == "sys/bus/pci/devices":
            return True
    return False


def names_in(path: str, opened: Callable[[], Any]) -> Iterator[str]:
    """The names in a tar, as far as it can be read."""
    with opened() as stream:
        try:
            for name, _ in _members(stream, os.stat(path).st_size, every=True):
                yield name
        except (tarfile.TarError, TooMuch):
            return


def _listed(path: str, opened: Callable[[], Any], packed: int) -> tuple[list[str], Gap | None]:
    names: list[str] = []
    with opened() as stream:
        try:
            names.extend(name for name, _ in _members(stream, packed))
        except tarfile.TarError as error:
            return names, Gap(path, f"damaged or cut short ({error}); what came before was read", half=True)
    return names, None


def _members(stream: IO[bytes], packed: int, *, every: bool = False) -> Iterator[tuple[str, IO[bytes]]]:
    """The regular files of a tar, one after another; `every`: folders and links too, with nothing in them."""
    bounded: Any = _Bounded(stream, packed)
    with tarfile.open(fileobj=bounded, mode="r|") as tar:
        for count, member in enumerate(tar):
            if count >= MOST_MEMBERS:
                raise TooMuch(f"more than {MOST_MEMBERS:,} files in it")
            name = "/".join(part for part in member.name.split("/") if part not in ("", ".", ".."))
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None or every:
                yield name, file  # type: ignore[misc]


class _Bounded:
    """A stream that refuses to unpack without end."""

    def __init__(self, stream: IO[bytes], packed: int) -> None:
        self._stream = stream
        self._packed = packed
        self._total = 0
        self._empty = 0

    def read(self, size: int) -> bytes:
        """As of a file."""
        try:
            piece = self._stream.read(size)
        except (EOFError, zlib.error, lzma.LZMAError) as error:
            raise tarfile.ReadError(str(error)) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise tarfile.ReadError(str(error)) from error      # gzip and bz2 say so with an OSError of no number
        self._total += len(piece)
        self._empty = 0 if piece else self._empty + 1
        if self._empty > 100:       # tarfile skips what a header promises, however much that is, read by read
            raise tarfile.ReadError("it ends before what it promises")
        if self._total > MOST_UNPACKED:
            raise TooMuch(f"unpacks to more than {MOST_UNPACKED >> 30} GiB: unpack it and give the directory")
        if self._total > 16 << 20 and self._total > self._packed * MOST_RATIO:
            raise TooMuch(f"unpacks to more than {MOST_RATIO} times its size: refused")
        return piece


def _walk(root: str) -> tuple[list[str], bool]:
    """The regular files below a folder, by their names from there; no link is followed."""
    found: list[str] = []
    folders: list[tuple[str, int]] = [("", 0)]
    while folders:
        here, depth = folders.pop()
        try:
            entries = sorted(os.scandir(os.path.join(root, here)), key=lambda entry: entry.name)
        except OSError:
            if not here:
                raise
            continue
        for entry in entries:
            name = os.path.join(here, entry.name)
            if entry.is_dir(follow_symlinks=False) and depth < DEEPEST:
                folders.append((name, depth + 1))
            elif entry.is_file(follow_symlinks=False):
                found.append(name)
            if len(found) >= MOST_MEMBERS:
                return found, True
    return sorted(found), False


def _read_all(path: str, names: list[str], read: Callable[[str, int], bytes]) -> Iterator[Member | Gap]:
    chosen = layouts.wanted(names)
    top = layouts.top_folder(names)
    total = 0
    for count, name in enumerate(chosen):
        if count >= MOST_READ or total >= MOST_TOTAL:
            yield _rest(path, len(chosen) - count)
            return
        try:
            content, gap = unpacked(read(name, MOST_MEMBER + 1), MOST_MEMBER, name)
        except OSError as error:
            yield Gap(f"{path}/{name}", error.strerror or type(error).__name__)
            continue
        total += len(content)
        yield from _told(path, name.removeprefix(top), content, gap)


def _rest(path: str, left: int) -> Gap:
    return Gap(path, f"{left:,} more files in it were not read: give the folder of the failure alone", half=True)


def _told(path: str, name: str, content: bytes, gap: str | None) -> Iterator[Member | Gap]:
    if gap is not None:
        yield Gap(f"{path}/{name}", gap, half=bool(content))
    if content.startswith(_JOURNAL_FILE):
        base = os.path.basename(name)
        yield Gap(f"{path}/{name}", f"a binary journal: journalctl --file {base} -o json > journal.json")
    elif content and not _binary(content[:4096]):
        yield Member(name, content)


def _binary(start: bytes) -> bool:
    """No text: zeros that are not every second byte, as they are in UTF-16."""
    if b"\0" not in start or start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return False
    return min(start[::2].count(0), start[1::2].count(0)) > 0 or start.count(0) < len(start) // 3


def _end_of(path: str, most: int) -> bytes:
    """A regular file's last bytes. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b""
        if status.st_size > most and file.read(6)[:2] not in (b"\x1f\x8b", b"BZ", b"\xfd7"):
            file.seek(-most, os.SEEK_END)
        else:
            file.seek(0)
        return file.read(most)


def _tail(file: IO[bytes], most: int) -> bytes:
    """What a stream ends with, at most so many bytes and one more as a sign that there was more."""
    pieces: list[bytes] = []
    size = 0
    while piece := file.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        while size - len(pieces[0]) > most:
            size -= len(pieces.pop(0))
    return b"".join(pieces)


_PACKED: tuple[tuple[bytes, Callable[[], Any]], ...] = (
    (b"\x1f\x8b", lambda: zlib.decompressobj(31)), (b"BZh", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\x00", lzma.LZMADecompressor),
)


def unpacked(content: bytes, most: int, name: str) -> tuple[bytes, str | None]:
    """A file's content, decompressed within bounds, and what of it is missing."""
    make = next((make for magic, make in _PACKED if content.startswith(magic)), None)
    if make is None:
        cut = content[-most:] if len(content) > most else content
        return cut, f"larger than {most >> 20} MiB: its end was read" if cut is not content else None
    plain, left, torn = b"", content, None
    while left and len(plain) < most and torn is None:      # a file may hold several, one behind the other
        one = make()
        try:
            plain += one.decompress(left, most - len(plain))
        except (zlib.error, lzma.LZMAError, OSError, EOFError) as error:
            torn = f"damaged: {error}"
            break
        if not one.eof and len(plain) < most:
            torn = "it ends in the middle; what came before was read"
        left = one.unused_data.lstrip(b"\0")
    if torn is not None and not plain:
        return b"", torn
    if plain[257:262] == b"ustar":
        return b"", f"an archive in an archive: give it by itself (--from {os.path.basename(name)})"
    return plain, f"unpacks to more than {most >> 20} MiB: its beginning was read" if len(plain) >= most else torn
