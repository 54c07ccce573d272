"""Uevents: what the kernel, and udev after its rules, say of devices at the moment it happens.

The kernel's group is read straight from its socket: pyudev takes twice the time and four times the CPU for it, and
ends for good when a storm overruns its buffer. udev's group comes through pyudev, and its end is repaired here.

Events are a reason to look, never the truth: some are lost, and that is counted. SEQNUM counts the events of all
namespaces, so holes in it are normal (lib/kobject_uevent.c).
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..host import Host
from ..model import Kind, Maybe, Uevent, Unknown
from . import uevent_filter

if TYPE_CHECKING:
    import pyudev  # type: ignore[import-untyped]

KOBJECT_UEVENT = 15                     # linux/netlink.h
KERNEL_GROUP = 1                        # systemd, device-monitor.c: 1 = kernel, 2 = udev
SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_MEMINFO = 26, 33, 55   # asm-generic/socket.h
MEMINFO = struct.Struct("9I")           # linux/sock_diag.h; the last is SK_MEMINFO_DROPS
MESSAGE = 8 << 10                       # the kernel's keys take no more than 2048 bytes (UEVENT_BUFFER_SIZE)
BUFFER = 16 << 20                       # kernel memory, taken only while events wait: some 40,000 of them
LIMIT = 1000

LIBUDEV = struct.Struct("=8s4sIII")     # systemd, monitor_netlink_header: prefix, magic, size, where and how long
LIBUDEV_MAGIC = bytes.fromhex("feedcafe")


@dataclass(frozen=True, slots=True)
class Heard:
    """What one read brought. `seen` counts messages taken from the socket, of whatever subsystem; `lost` those that
    were dropped or cannot be understood. A lost event may have been about anything: look at everything.
    """

    events: list[Uevent]
    lost: int
    seen: int


def parse(raw: bytes, at: float, group: str) -> Uevent | None:
    """The event in a message of the kernel's framing or of libudev's; None for what is neither, or was cut short.

    Bytes that are no UTF-8 become `\\xNN`; values may hold newlines. Of a key given twice the first counts.
    """
    body = _libudev_body(raw) if raw.startswith(b"libudev\0") else _kernel_body(raw)
    if not body.endswith(b"\0"):
        return None
    properties: dict[str, str] = {}
    for pair in body[:-1].decode("utf-8", errors="backslashreplace").split("\0"):
        key, equals, value = pair.partition("=")
        if equals:
            properties.setdefault(key, value)
    seq = properties.get("SEQNUM", "")
    if not (seq.isascii() and seq.isdigit() and len(seq) <= 20):  # %llu
        return None
    try:
        action, subsystem, devpath = properties["ACTION"], properties["SUBSYSTEM"], properties["DEVPATH"]
    except KeyError:
        return None
    return Uevent(int(seq), action, subsystem, devpath, properties, at, group)


def _kernel_body(raw: bytes) -> bytes:
    head, _, body = raw.partition(b"\0")
    return body if b"@/" in head else b""


def _libudev_body(raw: bytes) -> bytes:
    if len(raw) < LIBUDEV.size:
        return b""
    _, magic, _, start, length = LIBUDEV.unpack_from(raw)
    if magic != LIBUDEV_MAGIC or start < LIBUDEV.size or start + length > len(raw):
        return b""
    return raw[start:start + length]


class KernelEvents:
    """The kernel's uevents of some subsystems, straight from netlink. Needs no privilege and no udevd.

    Events of other subsystems are dropped inside the kernel where it takes our filter (`filtered`), else unparsed.
    """

    def __init__(self, subsystems: Collection[str], *, buffer: int = BUFFER, filtered: bool = True) -> None:
        """Listens from now on. Raises OSError where there is no netlink; `open` answers Unknown instead."""
        self._wanted = frozenset(name.encode() for name in subsystems)
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, kind, KOBJECT_UEVENT)
        try:
            _enlarge(self._socket, buffer)
            self.filtered = filtered and _attach(self._socket, subsystems)
            self._socket.bind((0, KERNEL_GROUP))
            self._losses = Losses(self._socket)
        except OSError:
            self._socket.close()
            raise

    @classmethod
    def open(cls, subsystems: Collection[str]) -> KernelEvents | Unknown:
        """A listener, or why there is none (a sandbox without netlink)."""
        try:
            return cls(subsystems)
        except OSError as error:
            return _no(error, "kernel uevents")

    def fileno(self) -> int:
        """Readable when there is something to read, a loss included."""
        return self._socket.fileno()

    def read(self, limit: int = LIMIT) -> Heard:
        """What waits now, at most `limit` messages, so that a storm leaves room for other work. Never blocks."""
        events: list[Uevent] = []
        seen = unclear = 0
        for _ in range(limit):
            try:
                raw, sender = self._socket.recvfrom(MESSAGE)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # said once at an overrun; Losses knows how many it was
                    raise
                continue
            at = time.monotonic()
            seen += 1
            # Only the kernel has address 0. It lends it to whoever owns the network namespace (CAP_SYS_ADMIN), so that
            # a container manager can announce a card: lib/kobject_uevent.c, uevent_net_broadcast.
            if sender[0] != 0 or not self._concerns(raw):
                continue
            event = parse(raw, at, "kernel") if len(raw) < MESSAGE else None  # None: cut, or it cannot be told
            if event is None:
                unclear += 1
            elif event.subsystem.encode() in self._wanted:
                events.append(event)
        return Heard(events, self._losses.new() + unclear, seen)

    def _concerns(self, raw: bytes) -> bool:
        """May it be about one of our subsystems? Told from the bytes; what cannot be told is parsed."""
        key = raw.find(b"\0SUBSYSTEM=")
        if key < 0 or raw.startswith(b"libudev\0"):
            return True
        return raw[key + 11:raw.find(b"\0", key + 11)] in self._wanted

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


class UdevEvents:
    """udev's uevents of some subsystems: sent when its rules have run, so owner and mode of nodes are final."""

    def __init__(self, subsystems: Collection[str], *, buffer: int = BUFFER) -> None:
        """Listens from now on. Raises ImportError without libudev, OSError without netlink; `open` answers instead."""
        import pyudev

        self._monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source="udev")
        for name in sorted(subsystems):
            self._monitor.filter_by(name)
        with suppress(OSError):  # needs CAP_NET_ADMIN; libudev's default stays
            self._monitor.set_receive_buffer_size(buffer)
        self._monitor.start()
        self._socket = socket.fromfd(self._monitor.fileno(), socket.AF_NETLINK, socket.SOCK_RAW, KOBJECT_UEVENT)
        self._losses = Losses(self._socket)

    @classmethod
    def open(cls, host: Host, subsystems: Collection[str]) -> Maybe[UdevEvents]:
        """A listener; None where no udevd runs, because libudev then says nothing for ever; or why there is none."""
        running = udev_running(host)
        if running is not True:
            return running or None
        try:
            return cls(subsystems)
        except ImportError:
            return Unknown("udev events: libudev is not installed", Kind.IO)
        except OSError as error:
            return _no(error, "udev events")

    def fileno(self) -> int:
        """Readable when there is something to read, a loss included."""
        return self._socket.fileno()

    def read(self, limit: int = LIMIT) -> Heard:
        """As KernelEvents.read."""
        events: list[Uevent] = []
        unclear = 0
        for _ in range(limit):
            try:
                device = self._monitor.poll(timeout=0)
            except OSError as error:
                # pyudev polls before it reads and raises on POLLERR without taking the error off the socket, so every
                # later poll raises too (pyudev issue #194). SO_ERROR takes it off, and what waited is still there.
                pending = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                unclear += errno.ENOBUFS not in (error.errno, pending)
                continue
            if device is None:
                break
            try:
                events.append(_told(device))
            except UnicodeDecodeError:
                unclear += 1
        return Heard(events, self._losses.new() + unclear, len(events) + unclear)

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        del self._monitor  # its descriptor is closed with the last reference


def udev_running(host: Host) -> bool | Unknown:
    """Does udevd run? Told as libudev tells it: by /run/udev/control."""
    names = host.names("/run/udev")
    return names if isinstance(names, Unknown) else "control" in (names or ())


class Losses:
    """How many messages a socket had no room for, counted by the kernel (netlink_overrun, net/netlink/af_netlink.c)."""

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening
        self._before = self._total()

    def new(self) -> int:
        """Messages lost since this was asked last."""
        total = self._total()
        new, self._before = (total - self._before) & 0xFFFFFFFF, total
        return new

    def _total(self) -> int:
        words = self._socket.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, MEMINFO.size)  # came with Linux 4.12
        return int(MEMINFO.unpack(words)[-1])


def _told(device: pyudev.Device) -> Uevent:
    return Uevent(
        device.sequence_number, device.action, device.subsystem, device.device_path, dict(device.properties),
        time.monotonic(), "udev",
    )


def _enlarge(listening: socket.socket, size: int) -> None:
    """Room for `size` bytes of waiting messages; without CAP_NET_ADMIN at most net.core.rmem_max."""
    try:
        listening.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, size)
    except PermissionError:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


def _attach(listening: socket.socket, subsystems: Collection[str]) -> bool:
    """Give the kernel our filter; False where it takes none, a sandbox for one."""
    import ctypes

    for last in (uevent_filter.LAST, uevent_filter.LAST_SMALL):
        steps = uevent_filter.program(subsystems, last)
        held = ctypes.create_string_buffer(steps, len(steps))
        with suppress(OSError):
            fprog = struct.pack("HP", len(steps) // 8, ctypes.addressof(held))  # struct sock_fprog
            listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, fprog)
            return True
    return False


def _no(error: OSError, what: str) -> Unknown:
    denied = error.errno in (errno.EACCES, errno.EPERM)
    return Unknown(f"{what}: {error.strerror or error}", Kind.DENIED if denied else Kind.IO)
