"""Reading files below a root that nobody has to trust.

`Directory` is a folder on disk, `Memory` holds a tar or made-up files; both resolve symbolic links inside the root, so
that an absolute link in a captured tree points into the tree.
"""

from __future__ import annotations

import errno
import lzma
import os
import re
import stat
import tarfile
import zlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from ..errors import Exit, HotplugError
from ..model import Kind, Unknown

# A removed device gives ENODEV or ENXIO on a file that was just listed; a file below a file gives ENOTDIR.
GONE = {errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO}
MAX_LINKS = 40
MAX_ARCHIVE_BYTES = 512 << 20
MAX_PASSED_OVER = 8 << 30
MAX_MEMBERS = 200_000
# What fills an archive of a machine and is no text: the journal's own files, the samples of sysstat.
_NEVER_READ = re.compile(r"/var/log/(?:journal|sa)/")
MAX_PATH = 4096          # PATH_MAX, include/uapi/linux/limits.h


def answer(error: OSError) -> Unknown | None:
    """What a failed system call means: not there (None), or could not look."""
    if error.errno in GONE:
        return None
    kind = Kind.DENIED if error.errno in (errno.EACCES, errno.EPERM) else Kind.IO
    return Unknown(f"{error.filename or 'read'}: {error.strerror}", kind)


def decode(raw: bytes) -> str:
    """Text as people see it in a sysfs file: no trailing white space, undecodable bytes as `\\xNN`."""
    return raw.decode("utf-8", errors="backslashreplace").rstrip()


def read(path: str, limit: int, *, directory: int | None = None, flags: int = 0) -> bytes:
    """At most `limit` bytes of a regular file. Raises OSError; EINVAL for a pipe, socket or device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | flags, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        parts = []
        while limit > 0 and (chunk := os.read(descriptor, limit)):
            parts.append(chunk)
            limit -= len(chunk)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def read_end(path: str, most: int) -> tuple[bytes, bool]:
    """The last bytes of a regular file, and whether they are all of it. Raises OSError as `read` does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        file.seek(max(0, status.st_size - most))
        return file.read(most), status.st_size <= most


def write_whole(path: str, text: str, *, sync: bool = False) -> None:
    """Replace a file by another text, readable by all: a reader, or a crash, sees the old one or the new one, whole.

    The unfinished one is a dot file beside it: node_exporter reads `*.prom`, node-feature-discovery leaves dot files
    alone. `sync`: it is on the disk when this returns. Raises OSError.
    """
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            os.fchmod(descriptor, 0o644)  # whatever the umask: the reader is another user
            file.write(text)
            if sync:
                file.flush()
                os.fsync(descriptor)
        os.replace(partial, path)
        if sync:        # the name too: fsync(2) of a file says nothing of the entry in its folder
            entry = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(entry)
            finally:
                os.close(entry)
    except OSError:
        with suppress(OSError):
            os.unlink(partial)
        raise


class Store(Protocol):
    """Files, links and names below a root; raise OSError as the system calls do."""

    def read(self, path: str, limit: int) -> bytes:
        """At most `limit` bytes of a file."""

    def names(self, path: str) -> list[str]:
        """The names in a directory."""

    def link(self, path: str) -> str:
        """Where a link points, as written."""

    def real(self, path: str) -> str:
        """The path without links; ENOENT when a part of it is not there."""


def resolve(path: str, readlink: Callable[[str], str | None], known: dict[str, str]) -> str:
    """`path` with every link resolved inside the root: `..` stops at the root, absolute links start there.

    `readlink` answers None for what is no link. `known` caches resolved directories. Raises OSError(ELOOP).
    """
    at: list[str] = []
    todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    hops = 0
    while todo:
        part = todo.pop()
        if part == "..":
            if at:
                at.pop()
            continue
        here = "/".join(["", *at, part])
        if (seen := known.get(here)) is not None:
            at = seen.split("/")[1:]
            continue
        target = readlink(here)
        if target is None:
            at.append(part)
            known[here] = here
            continue
        hops += 1
        if hops > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith("/"):
            at = []
        todo.extend(p for p in reversed(target.split("/")) if p not in ("", "."))
    return "/".join(["", *at]) or "/"


class Directory:
    """A folder as a root. Directories are opened part by part without following links; their files by descriptor."""

    OPEN_DIRECTORIES = 64

    def __init__(self, root: str) -> None:
        self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._real: dict[str, str] = {}
        self._open: OrderedDict[str, int] = OrderedDict()

    def read(self, path: str, limit: int) -> bytes:
        """As in Store."""
        parent, _, name = path.rpartition("/")
        try:
            return read(name, limit, directory=self._directory(parent), flags=os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        parent, _, name = self.real(path).rpartition("/")  # the file itself is a link: go where it points
        return read(name, limit, directory=self._directory(parent), flags=os.O_NOFOLLOW)

    def names(self, path: str) -> list[str]:
        """As in Store."""
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._directory(path))
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)

    def link(self, path: str) -> str:
        """As in Store."""
        parent, _, name = path.rpartition("/")
        return os.readlink(name, dir_fd=self._directory(parent))

    def real(self, path: str) -> str:
        """As in Store."""
        real = resolve(path, self._readlink, self._real)
        parent, _, name = real.rpartition("/")
        if name:
            os.stat(name, dir_fd=self._directory(parent), follow_symlinks=False)
        return real

    def _readlink(self, path: str) -> str | None:
        try:
            return os.readlink(path.lstrip("/"), dir_fd=self._root)
        except OSError:
            return None

    def _directory(self, path: str) -> int:
        """A descriptor of a directory; the 64 last used stay open."""
        if (descriptor := self._open.get(path)) is not None:
            self._open.move_to_end(path)
            return descriptor
        descriptor = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._root)
        for part in resolve(path, self._readlink, self._real).split("/"):
            if not part:
                continue
            try:
                deeper = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = deeper
        self._open[path] = descriptor
        if len(self._open) > self.OPEN_DIRECTORIES:
            os.close(self._open.popitem(last=False)[1])
        return descriptor

    def __del__(self) -> None:
        for descriptor in (*getattr(self, "_open", {}).values(), getattr(self, "_root", None)):
            if descriptor is not None:
                with suppress(OSError):
                    os.close(descriptor)


class Memory:
    """Files and links held in memory as a root. `path` names are absolute."""

    def __init__(self, files: dict[str, bytes], links: dict[str, str], directories: tuple[str, ...] = ()) -> None:
        self._files = files
        self._links = links
        self._names: dict[str, set[str]] = {"": set()}
        self._real: dict[str, str] = {}
        for name in directories:
            self._names.setdefault(name, set())
            self._enter(name)
        for name in (*files, *links):
            self._enter(name)

    def put(self, name: str, content: bytes) -> None:
        """Add a file, or give it other content."""
        self._files[name] = content
        self._real.clear()
        self._enter(name)

    def _enter(self, name: str) -> None:
        while name:
            parent, _, last = name.rpartition("/")
            siblings = self._names.setdefault(parent, set())
            if last in siblings:
                break
            siblings.add(last)
            name = parent

    def read(self, path: str, limit: int) -> bytes:
        """As in Store."""
        real = self.real(path)
        if real not in self._files:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return self._files[real][:limit]

    def names(self, path: str) -> list[str]:
        """As in Store."""
        real = self.real(path).rstrip("/")
        if real not in self._names:
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return list(self._names[real])

    def link(self, path: str) -> str:
        """As in Store."""
        parent, _, name = path.rpartition("/")
        target = self._links.get(f"{self.real(parent or '/').rstrip('/')}/{name}")
        if target is None:
            self.real(path)
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        return target

    def real(self, path: str) -> str:
        """As in Store."""
        real = resolve(path, self._links.get, self._real)
        if real != "/" and real not in self._files and real not in self._names:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return real


def load_tar(path: str) -> Memory:
    """A tar, compressed or not, as a root. Nothing of it is written to disk; devices and pipes in it are left out.

    Raises HotplugError when it is damaged, cut short or too large; OSError when it cannot be opened.
    """
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    directories: list[str] = []
    total = passed = 0
    try:
        with tarfile.open(path, "r:*") as tar:
            for count, member in enumerate(tar):
                never = _NEVER_READ.search(f"/{member.name}") is not None
                total += 0 if never else member.size
                passed += member.size if never else 0
                if total > MAX_ARCHIVE_BYTES or passed > MAX_PASSED_OVER or count > MAX_MEMBERS:
                    raise HotplugError(
                        f"{path} is too large", why=f"more than {MAX_ARCHIVE_BYTES >> 20} MiB or {MAX_MEMBERS} files",
                        hint="unpack it and give the directory", exit=Exit.UNKNOWN,
                    )
                if len(member.name) > MAX_PATH:
                    raise ValueError("a path in it is longer than any file system allows")
                name = "".join(f"/{part}" for part in member.name.split("/") if part not in ("", ".", ".."))
                if never:
                    continue
                if member.isfile():
                    content = tar.extractfile(member)
                    files[name] = content.read() if content else b""
                elif member.issym():
                    links[name] = member.linkname
                elif member.isdir():
                    directories.append(name)
    except (PermissionError, FileNotFoundError):
        raise
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise HotplugError(
            f"cannot read the archive {path}", why=f"it is damaged or cut short ({error})",
            hint="have it sent again, and compare its size with the original", exit=Exit.UNKNOWN,
        ) from error
    return Memory(files, links, tuple(directories))


class Below:
    """A folder inside a store as a root of its own: what an archive with one top folder holds."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def read(self, path: str, limit: int) -> bytes:
        """As in Store."""
        return self._store.read(self._prefix + path, limit)

    def names(self, path: str) -> list[str]:
        """As in Store."""
        return self._store.names(self._prefix + path)

    def link(self, path: str) -> str:
        """As in Store."""
        return self._store.link(self._prefix + path)

    def real(self, path: str) -> str:
        """As in Store."""
        return self._store.real(self._prefix + path).removeprefix(self._prefix)
