"""What the kernel has made of a function: its driver, NUMA node and IOMMU group; and the kernel itself."""

from __future__ import annotations

import posixpath

from ..host import UPTIME, Host
from ..model import Driver, Kind, Maybe, Unknown
from .pci import Function


def driver(host: Host, function: Function) -> Maybe[Driver]:
    """The bound driver; None = unbound."""
    link = host.link(f"{function.path}/driver")
    if not isinstance(link, str):
        return link
    module = host.link(f"{function.path}/driver/module")
    name = posixpath.basename(module) if isinstance(module, str) else module
    version = host.text(f"/sys/module/{name}/version") if isinstance(name, str) else None
    return Driver(name=posixpath.basename(link), module=name, version=version)


def numa_node(host: Host, function: Function) -> Maybe[int]:
    """The NUMA node; None where firmware does not say (-1)."""
    text = host.text(f"{function.path}/numa_node")
    if not isinstance(text, str):
        return text
    try:
        return int(text) if int(text) >= 0 else None
    except ValueError:
        return Unknown(f"numa_node says {text!r}", Kind.IO)


def iommu_group(host: Host, function: Function) -> Maybe[int]:
    """The IOMMU group's number; None without an IOMMU."""
    link = host.link(f"{function.path}/iommu_group")
    if not isinstance(link, str):
        return link
    name = posixpath.basename(link)
    return int(name) if name.isdigit() else Unknown(f"IOMMU group {name!r}", Kind.IO)


def iommu_peers(host: Host, function: Function, group: Maybe[int]) -> Maybe[tuple[str, ...]]:
    """The other functions of the IOMMU group, which are handed over together with this one."""
    if not isinstance(group, int):
        return group
    members = host.names(f"/sys/kernel/iommu_groups/{group}/devices")
    return tuple(m for m in members if m != function.address) if isinstance(members, tuple) else members


def uptime(host: Host) -> Maybe[float]:
    """Seconds since boot. The kernel log is stamped with another clock, which strays from this one (host/kmsg.py)."""
    text = host.text(UPTIME)
    if not isinstance(text, str):
        return text
    try:
        return float(text.split()[0])
    except (ValueError, IndexError):
        return Unknown(f"{UPTIME} says {text!r}", Kind.IO)


def release(host: Host) -> Maybe[str]:
    """The kernel's release, such as 6.12.117."""
    return host.text("/proc/sys/kernel/osrelease")


def boot_id(host: Host) -> Maybe[str]:
    """Which boot this is."""
    return host.text("/proc/sys/kernel/random/boot_id")


def modules(host: Host) -> Maybe[frozenset[str]]:
    """The modules that are loaded; built-in ones that show themselves in /sys/module count."""
    names = host.names("/sys/module")
    return frozenset(names) if isinstance(names, tuple) else names
