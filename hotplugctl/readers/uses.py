"""What the machine itself lives on: file systems, swap, the way out to the network, the console.

Sources: proc(5) (mountinfo, swaps, route), Documentation/ABI/testing/sysfs-bus-pci (boot_vga), sysfs-block.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ..host import Host
from ..model import Maybe, Unknown

BLOCK, NET = "/sys/class/block", "/sys/class/net"
NO_ADDRESS = "0" * 32
_ESCAPE = re.compile(r"\\([0-7]{3})")      # mountinfo writes blanks in names as \040


def uses(host: Host, paths: Sequence[str]) -> Mapping[str, tuple[str, ...]] | Unknown:
    """What each of these functions (sysfs directories) does for the machine itself, in words; nothing = not in it.

    Unknown when mounts, swap or routes could not be looked at.
    """
    found: dict[str, list[str]] = {path: [] for path in paths}
    for about in (_console(host, paths), _disks(host, paths), _network(host, paths)):
        if isinstance(about, Unknown):
            return about
        for path, what in about:
            found[path].append(what)
    return {path: tuple(dict.fromkeys(words)) for path, words in found.items()}


Found = list[tuple[str, str]] | Unknown


def _console(host: Host, paths: Sequence[str]) -> Found:
    return [(path, "it is the console's display (boot_vga)") for path in paths if host.text(f"{path}/boot_vga") == "1"]


def _disks(host: Host, paths: Sequence[str]) -> Found:
    names = host.names(BLOCK)
    if not isinstance(names, tuple):
        return names if isinstance(names, Unknown) else []
    below = [(path, name) for name in names for path in paths if _is_below(host, f"{BLOCK}/{name}", path)]
    if not below:
        return []
    mounts, swaps = _mounts(host), host.text("/proc/swaps")
    if isinstance(mounts, Unknown) or isinstance(swaps, Unknown):
        return mounts if isinstance(mounts, Unknown) else swaps  # type: ignore[return-value]
    swapped = {posixpath.basename(line.split()[0]) for line in (swaps or "").splitlines()[1:] if line.split()}
    found = []
    for path, disk in below:
        for name in _reached(disk, lambda one: _stacked(host, one)):
            on = "" if name == disk else f" on {name}"
            number = host.text(f"{BLOCK}/{name}/dev")
            found += [(path, f"{disk}{on} is mounted at {where}") for device, source, where in mounts
                      if device == number or source == f"/dev/{name}"]
            if name in swapped:
                found.append((path, f"{disk}{on} is swap"))
    return found


def _stacked(host: Host, name: str) -> tuple[str, ...]:
    """What is built on a block device: device mapper, RAID."""
    holders = host.names(f"{BLOCK}/{name}/holders")
    return holders if isinstance(holders, tuple) else ()


def _reached(start: str, further: Callable[[str], Iterable[str]]) -> list[str]:
    """`start`, and all that is reached from it, each once."""
    found = [start]
    for name in found:
        found += [other for other in further(name) if other not in found]
    return found


def _mounts(host: Host) -> tuple[tuple[str, str, str], ...] | Unknown:
    """(major:minor, source, mount point) of everything mounted, as process 1 sees it."""
    text = host.text("/proc/1/mountinfo")
    if not isinstance(text, str):
        text = host.text("/proc/self/mountinfo")
    if not isinstance(text, str):
        return text if isinstance(text, Unknown) else ()
    found = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, rest = left.split(), right.split()
        if len(fields) > 4 and len(rest) > 1:
            found.append((fields[2], rest[1], _ESCAPE.sub(lambda m: chr(int(m[1], 8)), fields[4])))
    return tuple(found)


def _network(host: Host, paths: Sequence[str]) -> Found:
    names = host.names(NET)
    if not isinstance(names, tuple):
        return names if isinstance(names, Unknown) else []
    below = {name: path for name in names for path in paths if _is_below(host, f"{NET}/{name}", path)}
    if not below:
        return []
    routes = _default_routes(host)
    if isinstance(routes, Unknown):
        return routes
    found = []
    for interface in routes:
        for name in _reached(interface, lambda one: _lower(host, one)):
            if name in below:
                over = "" if name == interface else f" by way of {interface}"
                found.append((below[name], f"{name} has the default route{over}"))
    return found


def _default_routes(host: Host) -> tuple[str, ...] | Unknown:
    four, six = host.text("/proc/net/route"), host.text("/proc/net/ipv6_route")
    if isinstance(four, Unknown):
        return four
    rows = [line.split() for line in (four or "").splitlines()[1:]]
    found = [row[0] for row in rows if len(row) > 7 and row[1] == "00000000" and row[7] == "00000000"]
    rows = [line.split() for line in (six if isinstance(six, str) else "").splitlines()]
    found += [row[9] for row in rows if len(row) > 9 and row[0] == NO_ADDRESS and row[1] == "00" and row[9] != "lo"]
    return tuple(dict.fromkeys(found))


def _lower(host: Host, interface: str) -> Iterator[str]:
    """What an interface is made of: bond, bridge, VLAN (`lower_*`, net/core/dev.c)."""
    names = host.names(f"{NET}/{interface}")
    for name in names if isinstance(names, tuple) else ():
        if name.startswith("lower_"):
            yield name.removeprefix("lower_")


def _is_below(host: Host, entry: str, path: str) -> bool:
    """Is a class device one of this function? Its link says: ../../devices/pci.../FUNCTION/..."""
    link: Maybe[str] = host.link(entry)
    return isinstance(link, str) and posixpath.normpath(posixpath.join(posixpath.dirname(entry), link)).startswith(
        f"{path}/")
