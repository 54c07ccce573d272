"""The socket filter, run by the kernel itself on a pair of sockets."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hotplugctl.readers import uevent_filter
from hotplugctl.readers.uevents import SO_ATTACH_FILTER

from .bench.messages import message, of_udev


@contextmanager
def filtering(subsystems: set[str], last: int) -> Iterator[Callable[[bytes], bool]]:
    """Does the kernel let a message through?"""
    steps = uevent_filter.program(subsystems, last)
    held = ctypes.create_string_buffer(steps, len(steps))
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    fprog = struct.pack("HP", len(steps) // 8, ctypes.addressof(held))
    with here, there:
        there.setblocking(False)
        there.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, fprog)

        def passes(raw: bytes) -> bool:
            here.send(raw)
            try:
                return there.recv(1 << 16) == raw
            except BlockingIOError:
                return False

        yield passes


@pytest.mark.parametrize("last", [uevent_filter.LAST, uevent_filter.LAST_SMALL])
def test_the_filter_lets_our_subsystems_through_and_no_others(last: int) -> None:
    ours = {"pci", "drm", "accel", "infiniband", "devcoredump", "vfio-dev"}
    others = {"mem", "pc", "pcie", "pci_express", "pci_bus", "net", "drm_dp_aux_dev", "dr", "vfio", "x" * 40, ""}
    actions = ("add", "remove", "change", "move", "online", "offline", "bind", "unbind")
    with filtering(ours, last) as passes:
        for length in (2, 3, 7, 40, 64, 100, last - 20, last - 8):
            for action in actions:
                path = "/" + "d" * (length - 1)
                for name in ours:
                    assert passes(message(action, path, name)), (action, length, name)
                for name in others:
                    if len(action) + 1 + length < last:
                        assert not passes(message(action, path, name)), (action, length, name)


def test_the_filter_lets_through_what_it_cannot_tell() -> None:
    with filtering({"pci"}, uevent_filter.LAST) as passes:
        assert passes(message("add", "/" + "d" * 600, "mem")), "a longer path than it looks for"
        assert passes(of_udev(b"SUBSYSTEM=mem\0")), "libudev's framing"
        assert passes(b"change@/devices/x\0SOMETHING=else\0DEVPATH=/devices/x\0SUBSYSTEM=mem\0SEQNUM=1234567890\0")
        assert passes(b"add@/devices/x\0ACTION=add\0"), "shorter than anything it compares"
