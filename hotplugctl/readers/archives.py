"""What people send -> evidence: told apart by content, not by name. The only reader that opens files with plain open.

The files are named by the user and lie outside any machine looked at, so no Host is asked for them. What comes out of a
compressed file is bounded, in bytes and in how much larger than the file it may get.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import importlib
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from ..errors import Exit, HotplugError
from ..model import Device, Gap, LogLine, Port
from .logs import decode, parse_log
from .lspci import looks_like_lspci, read_lspci

MOST_BYTES = 256 << 20          # of text out of one file: a kernel log buffer of 16 MiB, sixteen times over
MOST_RATIO = 1000               # gzip's own limit is 1032; log text reaches some 30
RATIO_FROM = 16 << 20           # small files may be anything: twenty kilobytes of spaces are no bomb
_CHUNK = 1 << 16         # what a damaged piece takes with it
# Pipes that somebody was told to write to: `dmesg | ... --from -` and `--from <(dmesg)`. Any other may have no writer.
_HANDED = re.compile(r"/dev/stdin|(?:/dev|/proc/self)/fd/(?P<number>\d{1,9})")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the files hold, together one case. `bundles` are paths that `Host.open` reads."""

    logs: tuple[LogLine, ...] = ()
    devices: tuple[Device, ...] = ()
    ports: tuple[Port, ...] = ()
    gaps: tuple[Gap, ...] = ()
    hosts: tuple[str, ...] = ()
    bundles: tuple[str, ...] = ()


def evidence(paths: Sequence[str]) -> Evidence:
    """The files read, each for what it is; `-` is the standard input.

    A file that cannot be used is a Gap beside the others. Raises HotplugError when none is left: unknown, or denied
    where every one of them was refused for lack of permission.
    """
    logs: list[LogLine] = []
    devices: dict[str | None, Device] = {}
    ports: dict[str, Port] = {}
    gaps: list[Gap] = []
    hosts: dict[str, None] = {}
    bundles: list[str] = []
    denied = 0
    for path in ("/dev/stdin" if name == "-" else name for name in paths):
        try:
            if kind_of(path) == "bundle":
                bundles.append(path)
                continue
            content = read_bounded(path)
        except OSError as error:
            denied += isinstance(error, PermissionError)
            gaps.append(Gap(path, error.strerror or type(error).__name__))
            continue
        except _Unusable as error:
            gaps.append(Gap(path, str(error)))
            continue
        text = decode(content)
        if not text.strip():
            gaps.append(Gap(path, "the file is empty"))
            continue
        source = os.path.basename(path)
        if looks_like_lspci(text):
            listing = read_lspci(text, source)
            devices.update({device.address: device for device in listing.devices})
            ports.update({port.address: port for port in listing.ports})
            if not parse_log(text, source).kernel:
                continue
        read = parse_log(text, source)
        logs.extend(read.lines)
        hosts.update(dict.fromkeys(read.hosts))
    if not logs and not devices and not ports and not bundles:
        _nothing(paths, gaps, denied)
    return Evidence(
        logs=tuple(logs), devices=tuple(devices.values()), ports=tuple(ports.values()), gaps=tuple(gaps),
        hosts=tuple(hosts), bundles=tuple(bundles),
    )


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


class _Unusable(Exception):  # noqa: N818 - not an error of the program, only of one file
    """A file that is there and cannot be used; the sentence says why."""


class _Torn(_Unusable):
    """What is compressed is damaged from here on."""


def kind_of(path: str) -> str:
    """`bundle` for what Host.open reads (a directory or tar with a manifest), else `file`."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        names = set(os.listdir(path))
        if names & {"manifest.json", "sys", "proc", "sos_commands"}:
            return "bundle"
        raise _Unusable("the directory is neither a bundle nor a sosreport")
    if stat.S_ISFIFO(mode):
        if _HANDED.fullmatch(path):
            return "file"       # what it holds can be read once only
        raise _Unusable("a named pipe, to which nobody may write: hand it over with --from - < PIPE")
    if not stat.S_ISREG(mode):
        raise _Unusable("not a file")
    with contextlib.suppress(_Torn), _opened(path) as stream:
        if (_read(stream, 512) or b"")[257:262] == b"ustar":
            return "bundle"
    return "file"


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
        raise _Unusable("not a file")
    return descriptor


def _read(stream: IO[bytes], size: int) -> bytes | None:
    """A piece of a file; None where it has nothing now and would have us wait. Raises _Torn for damaged compression."""
    try:
        return stream.read(size)
    except (EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise _Torn(f"damaged: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise _Torn(f"damaged: {error}") from error         # gzip and bz2 say so with an OSError of no number
    except Exception as error:
        if type(error).__name__ != "ZstdError":             # each of the zstd modules has one of its own
            raise
        raise _Torn(f"damaged: {error}") from error


@contextlib.contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
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
    raise _Unusable("zstd-compressed, and this Python has no zstd module: decompress it first (zstd -d)")


_OPENERS: dict[str, Callable[[Any], Any]] = {"gzip": gzip.open, "xz": lzma.open, "bzip2": bz2.open, "zstd": _zstd}


def read_bounded(path: str) -> bytes:
    """All of a file, decompressed; refuses what grows beyond bounds, keeps what came before a torn end."""
    packed = os.stat(path).st_size
    chunks: list[bytes] = []
    total = 0
    with _opened(path) as stream:
        while True:
            try:
                chunk = _read(stream, _CHUNK)
            except _Torn:
                if not chunks:
                    raise
                break
            if chunk is None and not chunks:
                raise BlockingIOError(errno.EAGAIN, "nothing to read in it now", path)
            if not chunk:
                break
            chunks.append(chunk)
            total += len(chunk)
            if total > MOST_BYTES:
                raise _Unusable(f"larger than {MOST_BYTES >> 20} MiB: cut it down to the time of the failure")
            if packed and total > RATIO_FROM and total > packed * MOST_RATIO:
                raise _Unusable(f"unpacks to more than {MOST_RATIO} times its size: refused")
    return b"".join(chunks)
