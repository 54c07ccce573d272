"""What people send -> evidence: told apart by content, not by name; a large log goes through a scan."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from ..errors import Exit, HotplugError
from ..model import Device, Gap, LogLine, Port
from . import gathered, hexdump
from .encodings import decode, without_controls
from .filling import filled
from .logs import LogText, parse_lines, parse_log
from .lspci import looks_like_lspci, read_lspci
from .sections import Section, is_report, sections
from .streams import Torn, Unusable, as_utf8, kind_of, opened, pieces

if TYPE_CHECKING:
    from .scan import Kept, Limits, Sieve

SMALL = 2 << 20                 # bytes that are read as a whole, since a scan costs its start
MOST_BYTES = 256 << 20          # read as a whole where nothing tells what is needed of it
MOST_DOCUMENT = 16 << 20        # of one JSON object or one report of many parts, which make sense as a whole only
MakeSieve: TypeAlias = "Callable[[int], Sieve | None]"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the files hold, together one case. `bundles` are paths that `Host.open` reads.

    `scanned` says of each large log how much of it was needed; `dumps` are listings with config space in them.
    """

    logs: tuple[LogLine, ...] = ()
    devices: tuple[Device, ...] = ()
    ports: tuple[Port, ...] = ()
    gaps: tuple[Gap, ...] = ()
    hosts: tuple[str, ...] = ()
    bundles: tuple[str, ...] = ()
    scanned: tuple[str, ...] = ()
    dumps: tuple[str, ...] = ()


@dataclass
class _Found:
    """The evidence while it is gathered."""

    logs: list[LogLine] = field(default_factory=list)
    devices: dict[str | None, Device] = field(default_factory=dict)
    ports: dict[str, Port] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    hosts: dict[str, None] = field(default_factory=dict)
    bundles: list[str] = field(default_factory=list)
    scanned: list[str] = field(default_factory=list)
    dumps: list[str] = field(default_factory=list)
    denied: int = 0


def evidence(
    paths: Sequence[str], sieve: MakeSieve | None = None, *, small: int = SMALL, limits: Limits | None = None
) -> Evidence:
    """The files read, each for what it is; `-` is the standard input.

    `sieve` makes, for a log of so many bytes, what tells the lines of it that are needed; without it every line is.
    A file that cannot be used, or only half, is a Gap beside the others. Raises HotplugError when none is left:
    unknown, or denied where every one of them was refused for lack of permission.
    """
    found = _Found()
    for path in ("/dev/stdin" if name == "-" else name for name in paths):
        try:
            kind = kind_of(path)
            if kind == "bundle":
                found.bundles.append(path)
            elif kind == "file":
                _read(found, path, sieve, small, limits)
            else:
                _gather(found, path, kind, sieve, small, limits)
        except OSError as error:
            found.denied += isinstance(error, PermissionError)
            found.gaps.append(Gap(path, error.strerror or type(error).__name__))
        except (Unusable, gathered.TooMuch) as error:
            found.gaps.append(Gap(path, str(error)))
    if not found.logs and not found.devices and not found.ports and not found.bundles:
        _nothing(paths, found.gaps, found.denied)
    return Evidence(
        logs=tuple(found.logs), devices=tuple(found.devices.values()), ports=tuple(found.ports.values()),
        gaps=tuple(found.gaps), hosts=tuple(found.hosts), bundles=tuple(found.bundles), scanned=tuple(found.scanned),
        dumps=tuple(found.dumps),
    )


# What people give that is no text, by what it begins with.
_NO_TEXT = {
    b"PK\x03\x04": "a zip archive: unpack it, and give the folder",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive: unpack it, and give the folder",
    b"\x7fELF": "a program, no log", b"\x89PNG": "a picture, no log", b"\xff\xd8\xff": "a picture, no log",
    b"%PDF": "a PDF: give the log itself, as text", b"\xed\xab\xee\xdb": "a package, no log",
}


def _nothing(paths: Sequence[str], gaps: Sequence[Gap], denied: int) -> None:
    why = "; ".join(f"{gap.path}: {gap.reason}" for gap in gaps)
    if denied and denied == len(gaps):
        raise HotplugError(
            "no evidence could be read", why=why, hint=f"sudo hotplugctl diagnose --from {paths[0]}", exit=Exit.DENIED
        )
    raise HotplugError(
        "nothing to go by", why=why or "no file was given",
        hint="dmesg > dmesg.txt; hotplugctl diagnose --from dmesg.txt", exit=Exit.UNKNOWN,
    )


def _read(found: _Found, path: str, sieve: MakeSieve | None, small: int, limits: Limits | None) -> None:
    """One file: a small one as a whole, a large one as far as it is needed. Raises OSError and Unusable."""
    torn: list[Torn] = []
    content = _until_torn(pieces(path), torn)
    start: list[bytes] = []
    size = 0
    document = False
    for piece in content:
        document = _is_document(piece) if not start else document
        if not start and (other := next((what for mark, what in _NO_TEXT.items() if piece.startswith(mark)), None)):
            raise Unusable(other)
        start.append(piece)
        size += len(piece)
        if size > (max(small, MOST_DOCUMENT) if document else small):
            break
    if torn and not size:
        raise torn[0]
    large = size > (max(small, MOST_DOCUMENT) if document else small)
    wanted = sieve(max(size, os.stat(path).st_size)) if large and sieve is not None else None
    if wanted is None:
        _whole(found, path, b"".join(_bounded(chain(start, content))))
    else:
        from .scan import LIMITS, keep

        kept = keep(wanted, as_utf8(chain(start, content)), limits or LIMITS)
        _needed(found, path, os.path.basename(path), kept, wanted.engine)
        if document:
            found.gaps.append(Gap(path, "so large a document was read line by line, not as a whole", half=True))
    if torn:
        found.gaps.append(Gap(path, f"{torn[0]}; what came before was read", half=True))


def _gather(
    found: _Found, path: str, kind: str, sieve: MakeSieve | None, small: int, limits: Limits | None
) -> None:
    """The files of a folder or archive, each for what it is. Raises OSError, Unusable and TooMuch."""
    parts = list(
        gathered.of_archive(path, lambda: opened(path)) if kind == "archive" else gathered.of_directory(path))
    members = [part for part in parts if isinstance(part, gathered.Member)]
    found.gaps.extend(part for part in parts if isinstance(part, Gap))
    if not members:
        found.gaps.append(Gap(path, "it holds no text of a log or listing"))
    for name, text in gathered.once([(member.name, decode(member.content)) for member in members]):
        large = len(text) > (max(small, MOST_DOCUMENT) if is_report(text) else small)
        wanted = sieve(len(text)) if large and sieve is not None else None
        if wanted is None and text.strip():
            _text(found, name, text)
        elif wanted is not None:
            from .scan import LIMITS, keep

            kept = keep(wanted, [text.encode("utf-8", "replace")], limits or LIMITS)
            _needed(found, f"{path}/{name}", name, kept, wanted.engine)


def _is_document(start: bytes) -> bool:
    """Is it one JSON object over many lines (`dmesg -J`), rather than an object a line, or a report of many parts?"""
    if is_report(start[:4096].decode("utf-8", "replace")):
        return True
    first = start.lstrip().split(b"\n", 1)[0].rstrip()
    return first.startswith(b"{") and not first.endswith(b"}")


def _until_torn(content: Iterable[bytes], torn: list[Torn]) -> Iterator[bytes]:
    """What comes before the damage, which goes to `torn`."""
    try:
        yield from content
    except Torn as error:
        torn.append(error)


def _bounded(content: Iterable[bytes]) -> Iterator[bytes]:
    total = 0
    for piece in content:
        total += len(piece)
        if total > MOST_BYTES:
            raise Unusable(f"larger than {MOST_BYTES >> 20} MiB: cut it down to the time of the failure")
        yield piece


def _whole(found: _Found, path: str, content: bytes) -> None:
    text = decode(content)
    if text.strip():
        _text(found, os.path.basename(path), text)
    else:
        found.gaps.append(Gap(path, "the file is empty"))


def _text(found: _Found, source: str, text: str) -> None:
    """A whole text: of a report each part by itself, with the lines numbered as in the file."""
    parts = sections(text)
    for part in parts:
        _take(found, f"{source}: {part.title}", part.text, partial(_log_of, part))
    if not parts:
        _take(found, source, text, lambda name: parse_log(text, name))


def _log_of(part: Section, source: str) -> LogText:
    read = parse_log(part.text, source)
    above = part.line - 1
    return replace(read, lines=tuple(
        replace(line, line=line.line + above) if line.line is not None else line for line in read.lines))


def _needed(found: _Found, path: str, source: str, kept: Kept, engine: str) -> None:
    lines = [(number, without_controls(decode(raw)).removesuffix("\r")) for number, raw in kept.lines]
    text = "\n".join(raw for _, raw in lines)
    if not text.strip():
        found.gaps.append(Gap(path, "the file is empty"))
        return
    _take(found, source, text, lambda name: parse_lines(lines, name))
    found.scanned.append(f"{path}: {kept.read:,} lines read, {len(lines):,} of them needed ({engine})")
    if kept.repeats:
        found.gaps.append(Gap(
            path, f"{kept.repeats:,} of {kept.read:,} lines, which repeat others, were counted only", half=True))
    if kept.pieces:
        found.gaps.append(Gap(path, "very long lines in it were read in pieces", half=True))


def _take(found: _Found, source: str, text: str, read_log: Callable[[str], LogText]) -> None:
    """What a text tells, as a listing, a log or both."""
    read = None
    if looks_like_lspci(text):
        listing = read_lspci(text, source)
        for device in listing.devices:
            known = found.devices.get(device.address)
            found.devices[device.address] = filled(device, known) if known is not None else device
        for port in listing.ports:
            seen = found.ports.get(port.address)
            found.ports[port.address] = filled(port, seen) if seen is not None else port
        if hexdump.parse_hex_dump(text):
            found.dumps.append(text)
        read = read_log(source)
        if not read.kernel:
            return
    read = read or read_log(source)
    found.logs.extend(read.lines)
    found.hosts.update(dict.fromkeys(read.hosts))
