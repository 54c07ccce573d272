"""What one process has of a card: its descriptors and its mappings.

By what a descriptor is (`st_rdev`, an inode, what fdinfo says), not by its name, so that other mount namespaces,
renamed and deleted nodes count as well.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial

from . import Sought

DRM_MAJORS = {226, 261}         # include/drm/drm_file.h DRM_MAJOR, include/drm/drm_accel.h ACCEL_MAJOR
RAW = re.compile(r"resource\d+(?:_wc)?|config|rom")         # drivers/pci/pci-sysfs.c: files that reach the card
VFIO_DEVICE = "anon_inode:[vfio-device]"
DMA_BUF = "/dmabuf:"            # drivers/dma-buf/dma-buf.c, dmabuffs_dname
DELETED = " (deleted)"
DEVICES = "/sys/dev/char"       # every character device that the kernel has a device for, by its number
KIND = 0o170000                 # S_IFMT; asked of every descriptor, so no call for it
NEVER = {stat.S_IFSOCK, stat.S_IFIFO, stat.S_IFDIR}     # most descriptors of a machine, and no way to have a card

_PDEV = re.compile(r"^drm-pdev:\s*(\S+)", re.M)                        # Documentation/gpu/drm-usage-stats.rst
_SYSPATH = re.compile(r"^vfio-device-syspath:\s*(\S+)", re.M)          # Linux 6.18
_EXPORTER = re.compile(r"^exp_name:\s*(\S+)", re.M)                    # Documentation/filesystems/proc.rst
# A line of /proc/PID/maps with a file behind it: the range, the file's device and inode, its path.
_MAPPING = re.compile(rb"^([0-9a-f]+-[0-9a-f]+) \S+ \S+ (\S+ [1-9]\d*) +(.+)$", re.M)

Numbers = tuple[int, int]       # S_IFCHR or S_IFBLK, and the device number
Hit = tuple[str, str]           # via, path
UNTOLD: Hit = ("unseen", VFIO_DEVICE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is sought, as numbers to compare with.

    `mapped` remembers mapped files that were looked at, `devices` which file systems hold exported memory, `alive`
    which numbers the kernel has a device for.
    """

    numbers: Mapping[Numbers, str] = field(default_factory=dict)
    files: Mapping[int, str] = field(default_factory=dict)
    addresses: frozenset[str] = frozenset()
    sole: str | None = None
    passed_through: bool = False
    mapped: dict[tuple[bytes, bytes], Hit | None] = field(default_factory=dict)
    devices: dict[int, bool] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    known: str = DEVICES
    alive: dict[int, bool] = field(default_factory=dict)


def wanted(sought: Sought, known: str = DEVICES) -> Wanted:
    """The numbers of what is sought, as they are now. `known` has an entry for each device that the kernel has."""
    numbers: dict[Numbers, str] = {}
    for path, major, minor in sought.nodes:
        if major is not None and minor is not None:
            numbers[stat.S_IFCHR, os.makedev(major, minor)] = path
        else:
            try:
                status = os.stat(path)
            except OSError:
                continue
            if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
                numbers[stat.S_IFMT(status.st_mode), status.st_rdev] = path
    files: dict[int, str] = {}
    for _, folder in sought.functions:
        try:
            files |= {e.inode(): e.path for e in os.scandir(folder) if RAW.fullmatch(e.name)}
        except OSError:
            continue
    return Wanted(
        numbers, files, frozenset(address for address, _ in sought.functions), sought.sole,
        any(path.startswith("/dev/vfio/") for path, _, _ in sought.nodes), gone=sought.gone,
        controls=sought.controls, known=known,
    )


def held(base: str, want: Wanted) -> tuple[list[Hit], int]:
    """What the process or thread below `base`, a directory of /proc, has of it, and how many descriptors it has.

    Raises OSError.
    """
    found, count = descriptors(base, want)
    found += mappings(base, want)
    if UNTOLD in found and _tells_its_functions(base):
        found = [hit for hit in found if hit != UNTOLD]
    return list(dict.fromkeys(found)), count


def _tells_its_functions(base: str) -> bool:
    """Does a virtual machine have groups or devices open by name, or does fdinfo tell? Those were compared already."""
    for name in os.listdir(f"{base}/fd"):
        path = os.readlink(f"{base}/fd/{name}")
        if path.startswith("/dev/vfio/") and path != "/dev/vfio/vfio":      # that one is shared by all
            return True
        if path == VFIO_DEVICE and _SYSPATH.search(_info(base, name)):
            return True
    return False


def descriptors(base: str, want: Wanted) -> tuple[list[Hit], int]:
    """What the descriptors below `base`, a directory of /proc, have of it, and how many there are. Raises OSError."""
    found: list[Hit] = []
    folder = os.open(f"{base}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        names = os.listdir(folder)
        for name in names:
            try:
                status = os.stat(name, dir_fd=folder)
                kind = status.st_mode & KIND
                if kind in NEVER:
                    continue
                number, inode, device = status.st_rdev, status.st_ino, status.st_dev
            except OSError:     # closed meanwhile, or on a server that is gone; its name may still tell
                _must_be_named(folder, name)
                kind = number = inode = device = 0
            if kind in (stat.S_IFCHR, stat.S_IFBLK):
                if (kind, number) in want.numbers:
                    found.append(("fd", want.numbers[kind, number]))
                elif kind == stat.S_IFCHR and want.gone and not _alive(number, want):
                    found += left_behind(_link(folder, name), number, want)
                elif kind == stat.S_IFCHR and os.major(number) in DRM_MAJORS:
                    found += drm_client(_link(folder, name), _info(base, name), want)
            elif kind == stat.S_IFREG and inode in want.files:
                found += raw_file("fd", _link(folder, name), inode, want)
            elif kind == stat.S_IFREG and want.controls and device == _sysfs():
                found += [("control", path) for path in (_link(folder, name),) if _matches(path, want.controls)]
            elif kind in (0, stat.S_IFREG) and _may_be_anonymous(folder, name, kind, device, want):
                found += anonymous(_link(folder, name), partial(_info, base, name), want)
    finally:
        os.close(folder)
    return found, len(names)


def _alive(number: int, want: Wanted) -> bool:
    if number not in want.alive:
        want.alive[number] = os.path.exists(f"{want.known}/{os.major(number)}:{os.minor(number)}")
    return want.alive[number]


def left_behind(path: str, number: int, want: Wanted) -> list[Hit]:
    """A node of a device that is no more.

    Not every driver makes a device for its nodes (NVIDIA's does not), so that its absence alone proves nothing: the
    node must be deleted too, or be one of DRM, which always makes one.
    """
    node = path.removesuffix(DELETED)
    over = node != path or os.major(number) in DRM_MAJORS
    return [("gone", node)] if over and _matches(node, want.gone) else []


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


@cache
def _sysfs() -> int | None:
    """The device number of sysfs; the same in every mount of it within one network namespace."""
    try:
        return os.stat("/sys").st_dev
    except OSError:
        return None


def _may_be_anonymous(folder: int, name: str, kind: int, device: int, want: Wanted) -> bool:
    """Is it worth a look at its name? The kernel's own files have no type, or lie on a file system of their own."""
    if want.sole is None and not want.passed_through:
        return False
    if not kind:
        return True
    # Exported memory is a regular file since Linux 6.16 (fs/libfs.c, alloc_anon_inode), all of it on one file system.
    if device not in want.devices:
        want.devices[device] = _link(folder, name).startswith(DMA_BUF)
    return want.devices[device]


def drm_client(path: str, info: str, want: Wanted) -> list[Hit]:
    """A DRM node that is not known as the card's: its client may still be (amdgpu's partitions are other devices)."""
    told = _PDEV.search(info)
    return [("drm", path)] if told and told[1] in want.addresses else []


def raw_file(via: str, path: str, inode: int, want: Wanted) -> list[Hit]:
    """A file with the inode of one of the functions' own: is it that file, and not another of the same number?"""
    tail = "/".join(want.files[inode].rsplit("/", 2)[1:])
    return [(via, want.files[inode])] if path.removesuffix(DELETED).endswith(f"/{tail}") else []


def anonymous(path: str, info: Callable[[], str], want: Wanted) -> list[Hit]:
    """A descriptor without a file: a function handed to a virtual machine, or memory that a driver exported."""
    if path == VFIO_DEVICE and want.passed_through:
        told = _SYSPATH.search(info())
        if told:
            return [("vfio", told[1])] if told[1].rsplit("/", 1)[1] in want.addresses else []
        return [("vfio", path) if want.sole is not None else UNTOLD]
    if path.startswith((DMA_BUF, "anon_inode:dmabuf")) and want.sole is not None:
        told = _EXPORTER.search(info())
        return [("dma-buf", path)] if told and told[1].replace("-", "_") == want.sole.replace("-", "_") else []
    return []


def mappings(base: str, want: Wanted) -> list[Hit]:
    """What is mapped below `base`, also after its descriptor was closed. Raises OSError."""
    with open(f"{base}/maps", "rb") as file:
        text = file.read()
    found: list[Hit] = []
    for span, inode, path in _MAPPING.findall(text):
        # Most files are libraries that many processes have mapped: each is looked at once.
        key = (inode, path)
        if key not in want.mapped:
            want.mapped[key] = _mapped(base, span, int(inode.split()[1]), os.fsdecode(path), want)
        if (hit := want.mapped[key]) is not None:
            found.append(hit)
    return found


def _mapped(base: str, span: bytes, inode: int, path: str, want: Wanted) -> Hit | None:
    if path == VFIO_DEVICE:
        return (("vfio", path) if want.sole is not None else UNTOLD) if want.passed_through else None
    if inode in want.files and (hits := raw_file("map", path, inode, want)):
        return hits[0]
    # map_files names ranges without leading zeros (fs/proc/base.c), and needs CAP_CHECKPOINT_RESTORE.
    start, end = (edge.lstrip("0") or "0" for edge in span.decode().split("-"))
    for same in (f"{base}/map_files/{start}-{end}", f"{base}/root{path}"):
        try:
            status = os.stat(same)
        except OSError:
            continue
        node = want.numbers.get((stat.S_IFMT(status.st_mode), status.st_rdev))
        return ("map", node) if node is not None else None
    named = path.removesuffix(DELETED)
    return ("map", named) if named in want.numbers.values() else None


def _must_be_named(folder: int, name: str) -> None:
    """Raises PermissionError for a descriptor of a process that may not be looked into.

    Listing /proc/PID/fd takes less than what is in it (fs/proc/fd.c). A FUSE file of somebody else gives the same error
    to stat, but has a name.
    """
    with suppress(FileNotFoundError):
        os.readlink(name, dir_fd=folder)


def _link(folder: int, name: str) -> str:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return ""


def _info(base: str, name: str) -> str:
    try:
        with open(f"{base}/fdinfo/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
