"""From what a person typed after --root (or --from) to a Host. Told apart by content, not by name."""

from __future__ import annotations

import errno
import lzma
import os
import tarfile
import zlib
from importlib import resources

from ..errors import Exit, HotplugError
from . import Host, dump, report
from .files import Below, Directory, Store, load_tar, read
from .live import Live
from .tree import Bundle, Tree

DEMO = "demo"
DUMP_LIMIT = 64 << 20


def open_host(path: str) -> Host:
    """The machine to look at: `/` is this one, `demo` the one that ships, else a bundle or a tree.

    Raises HotplugError: nothing there or nothing usable (UNKNOWN), not permitted (DENIED).
    """
    if path == DEMO:
        return open_host(demo_path())
    try:
        if os.path.realpath(path) == "/":
            return Live()
        if os.path.isdir(path):
            return _from_store(Directory(path), path)
        if (store := open_archive(path)) is not None:
            return _from_store(store, path)
        if (found := dump.from_text(read(path, DUMP_LIMIT).decode("utf-8", "replace"))) is not None:
            return found
    except OSError as error:
        raise cannot_open(path, error) from error
    raise HotplugError(
        f"cannot look at {path}", why="it is no directory, archive or lspci -xxxx dump of a machine",
        hint=f"hotplugctl diagnose --from {path}", exit=Exit.UNKNOWN,
    )


def is_machine(path: str) -> bool:
    """Is this a bundle or a tree (rather than a log or a listing)? Raises OSError when it cannot be looked at."""
    if path == DEMO or os.path.isdir(path):
        return True
    return open_archive(path) is not None


def open_archive(path: str) -> Store | None:
    """A tar's content as a store; None when the file is no tar. Raises OSError."""
    head = read(path, 262)     # a regular file: a pipe that nobody writes to would be waited for
    compressed = head[:2] == b"\x1f\x8b" or head[:3] == b"BZh" or head[:6] == b"\xfd7zXZ\x00"
    if head[257:262] != b"ustar" and not (compressed and _tar_inside(path)):
        return None
    return load_tar(path)


def _tar_inside(path: str) -> bool:
    """Is a compressed file a tar rather than a log? Where it is cut too short to tell, its name decides."""
    try:
        return tarfile.is_tarfile(path)
    except (EOFError, zlib.error, lzma.LZMAError):
        return path.endswith((".tar.gz", ".tgz", ".tar.xz", ".tar.bz2"))


def demo_path() -> str:
    """Where the captured machine that ships with the package lies."""
    return str(resources.files("hotplugctl") / "data" / "demo.tar.gz")


def cannot_open(path: str, error: OSError) -> HotplugError:
    """The one sentence for a path that cannot be opened."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return HotplugError(
            f"cannot open {path}", why="permission denied", hint="run as root, or make it readable", exit=Exit.DENIED
        )
    return HotplugError(
        f"cannot open {path}", why=str(error.strerror).lower(), hint="check the path", exit=Exit.UNKNOWN
    )


def _from_store(store: Store, origin: str) -> Host:
    top = store.names("/")
    if len(top) == 1 and top[0] not in ("sys", "manifest.json"):
        try:  # an archive of one folder: the machine lies inside
            inside = Below(store, f"/{top[0]}")
            top, store = inside.names("/"), inside
        except OSError:
            pass
    if "manifest.json" in top:
        return Bundle(store, origin)
    if report.is_report(top):
        return report.Report(store)
    if "sys" in top:
        return Tree(store, os.path.basename(os.path.abspath(origin)))
    raise HotplugError(
        f"cannot look at {origin}",
        why="it holds no manifest.json (a bundle), sos_commands/ (a sosreport) or sys/ directory (a tree)",
        hint="capture one on the machine: hotplugctl diagnose --capture machine.tar.gz", exit=Exit.UNKNOWN,
    )
