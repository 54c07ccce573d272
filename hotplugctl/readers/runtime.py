"""What user space needs of a card: its device nodes, its number, and the versions of driver and firmware packages.

Nodes come from the kernel's own class devices below the PCI function (their `uevent` names the node), and from the
patterns of the profile where the kernel has no device for them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from ..host import Host, NodeStat
from ..model import ADDRESS, Maybe, Node, Profile, Unknown

# Where a node lies if the uevent file does not say: the classes' own devnode functions (drivers/accel/drm_accel.c,
# drivers/gpu/drm/drm_sysfs.c, drivers/vfio/vfio_main.c).
FOLDERS = {"accel": "/dev/accel", "drm": "/dev/dri", "vfio-dev": "/dev/vfio/devices"}
VFIO_CLASS = "vfio-dev"          # since Linux 6.6

# A number that no PCI attribute has: profile -> (file, the line that has it).
INFORMATION = "/proc/driver/nvidia/gpus/{address}/information"
INDEX_FILES = {"nvidia": (INFORMATION, re.compile(r"^Device Minor:\s*(\d+)", re.M))}
# One function, several chips, numbered on from the first: attribute -> the attribute that counts them.
COUNTED_BY = {"dev_id": "davinci_dev_num"}
# What has the number where the attribute itself is not there. davinci_dev_id only selects a chip in the drivers we have
# read, but they all have dev_id; a driver without it can mean nothing else.
STANDS_IN = {"dev_id": "davinci_dev_id"}
MOST_CHIPS = 64

UUID_FILES = {"nvidia": (INFORMATION, re.compile(r"^GPU UUID:\s*(GPU-[0-9a-fA-F-]{36})", re.M))}
UUID_ATTRIBUTES = {"amd": "unique_id"}

_PLAIN = re.compile(r"\s*(\S+)")
_ASCEND = re.compile(r"^Version=(\S+)", re.M)
VERSIONS: Mapping[str, Mapping[str, tuple[str, re.Pattern[str]]]] = {   # profile -> what -> (file, where in it)
    "ascend": {
        "driver": ("/usr/local/Ascend/driver/version.info", _ASCEND),
        "firmware": ("/usr/local/Ascend/firmware/version.info", _ASCEND),
    },
    "nvidia": {"driver": ("/proc/driver/nvidia/version", re.compile(r"Kernel Module.*?\s(\d[\d.]+)\s"))},
    "amd": {"rocm": ("/opt/rocm/.info/version", _PLAIN)},
}

# The library that programs load, by a link that names its version: it must be the driver's own.
LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "nvidia": tuple(
        f"/usr/{folder}/libnvidia-ml.so.1" for folder in ("lib/x86_64-linux-gnu", "lib64", "lib/aarch64-linux-gnu")),
}

# Entries of a PCI function that have a digit in their name and are no child device.
_NO_CHILD = re.compile(rf"resource|virtfn|d3cold_allowed|(?:{ADDRESS.pattern})$")


def attribute(host: Host, device_path: str, name: str) -> Maybe[str]:
    """A PCI attribute of the function."""
    return host.text(f"{device_path}/{name}")


def index_of(host: Host, device_path: str, profile: Profile) -> Maybe[tuple[str, ...]]:
    """The numbers the driver gave to the chips of this function; None = it gave none (not bound, or no such thing)."""
    if profile.index is None:
        number = _in_file(host, INDEX_FILES[profile.id], device_path) if profile.id in INDEX_FILES else None
        return (number,) if isinstance(number, str) else number
    text = attribute(host, device_path, profile.index)
    if text is None and profile.index in STANDS_IN:
        text = attribute(host, device_path, STANDS_IN[profile.index])
    if not isinstance(text, str):
        return text
    numbers = re.findall(r"\b[0-9]{1,5}\b", text)
    if len(numbers) != 1 or profile.index not in COUNTED_BY:
        return tuple(numbers) or None
    count = attribute(host, device_path, COUNTED_BY[profile.index])
    chips = int(count) if isinstance(count, str) and re.fullmatch("[0-9]{1,4}", count) else 1
    return tuple(str(int(numbers[0]) + n) for n in range(min(max(chips, 1), MOST_CHIPS)))


def nodes(host: Host, device_path: str, profile: Profile, index: tuple[str, ...]) -> Maybe[tuple[Node, ...]]:
    """The device nodes of a function, in path order.

    A node that should be there and is not has neither owner nor mode. So has one whose numbers are another device's:
    left over, or made by hand. Unknown when the numbers of the nodes cannot be learnt.
    """
    if not index and any("{index}" in pattern for pattern in profile.nodes):
        asked = index_of(host, device_path, profile)
        if isinstance(asked, Unknown):
            return asked
        index = asked or ()
    found: dict[str, Node] = {}
    for class_ in (*profile.classes, VFIO_CLASS):
        made = _class_nodes(host, device_path, class_)
        if isinstance(made, Unknown):
            return made
        found.update({path: _node(host, path, numbers) for path, numbers in made})
    numbered = [pattern for pattern in profile.nodes if "{index}" in pattern]
    plain = [pattern for pattern in profile.nodes if "{index}" not in pattern]
    named = [pattern.replace("{index}", number) for pattern in numbered for number in index]
    for path in (*named, *plain, *_vfio_group(host, device_path, profile)):
        found.setdefault(path, _node(host, path, None))
    return tuple(found[path] for path in sorted(found))


def node_patterns(profile: Profile) -> tuple[str, ...]:
    """What the nodes of single cards are called (fnmatch); nodes that all cards share are left out."""
    of_classes = [f"{FOLDERS[c]}/*" if c in FOLDERS else f"/dev/{c}[0-9]*" for c in profile.classes]
    return (*of_classes, *(node.replace("{index}", "[0-9]*") for node in profile.nodes if "{index}" in node))


def uuid(host: Host, device_path: str, profile: Profile) -> Maybe[str]:
    """The card's own UUID, where its driver tells one; None also while an NVIDIA GPU was not initialised yet."""
    if profile.id in UUID_ATTRIBUTES:
        return attribute(host, device_path, UUID_ATTRIBUTES[profile.id])
    return _in_file(host, UUID_FILES[profile.id], device_path) if profile.id in UUID_FILES else None


def versions(host: Host, profile: Profile) -> Mapping[str, Any]:
    """Versions of the driver's modules (`modules`) and of the vendor's packages; what is not installed is left out."""
    names = [driver.replace("-", "_") for driver in profile.drivers]
    modules = {name: host.text(f"/sys/module/{name}/version") for name in names}
    found: dict[str, Any] = {"modules": {name: text for name, text in modules.items() if text is not None}}
    for what, (path, where) in VERSIONS.get(profile.id, {}).items():
        text = host.text(path)
        match = where.search(text + "\n") if isinstance(text, str) else None
        if match or isinstance(text, Unknown):
            found[what] = match[1] if match else text
    library = next((match[1] for path in LIBRARIES.get(profile.id, ()) if (match := _linked(host, path))), None)
    found |= {"library": library} if library is not None else {}
    return {what: value for what, value in found.items() if value != {}}


def _linked(host: Host, path: str) -> re.Match[str] | None:
    """The version in the name of the library that a link stands for."""
    target = host.link(path)
    return re.search(r"\.so\.(\d+\.\d[\d.]*)$", target) if isinstance(target, str) else None


def _in_file(host: Host, where: tuple[str, re.Pattern[str]], device_path: str) -> Maybe[str]:
    """What a line of a file about this function says."""
    template, line = where
    text = host.text(template.format(address=posixpath.basename(device_path)))
    if not isinstance(text, str):
        return text
    match = line.search(text)
    return match[1] if match else None


def _class_nodes(host: Host, device_path: str, class_: str) -> list[tuple[str, tuple[int, int]]] | Unknown:
    """(path, (major, minor)) of the nodes that a kernel class made below the function, or below a child device."""
    folders = [f"{device_path}/{class_}"]
    children = host.names(folders[0])
    if class_ == VFIO_CLASS and not isinstance(children, tuple):
        return []
    if children is None:
        below = host.names(device_path)
        names = below if isinstance(below, tuple) else ()
        devices = [name for name in names if re.search(r"\d", name) and not _NO_CHILD.match(name)]
        folders = [f"{device_path}/{device}/{class_}" for device in devices]
    found = []
    for folder in folders:
        children = host.names(folder)
        if isinstance(children, Unknown):
            return children
        for child in children or ():
            numbers = host.text(f"{folder}/{child}/dev")
            match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", numbers) if isinstance(numbers, str) else None
            if match:      # connectors and the like have no `dev`
                found.append((_node_path(host, f"{folder}/{child}", class_), (int(match[1]), int(match[2]))))
    return found


def _node_path(host: Host, child: str, class_: str) -> str:
    """Where the kernel wants the node: DEVNAME, or the custom of the class."""
    uevent = host.text(f"{child}/uevent")
    match = re.search(r"^DEVNAME=(\S+)$", uevent, re.M) if isinstance(uevent, str) else None
    path = posixpath.normpath(f"/dev/{match[1]}") if match else ""
    if path.startswith("/dev/"):
        return path
    name = posixpath.basename(child).replace("!", "/")      # sysfs writes a slash in a name as !
    return f"{FOLDERS.get(class_, '/dev')}/{name}"


def _vfio_group(host: Host, device_path: str, profile: Profile) -> tuple[str, ...]:
    """The node by which a VM holds a function that was handed over."""
    driver = host.link(f"{device_path}/driver")
    group = host.link(f"{device_path}/iommu_group")
    if not isinstance(driver, str) or posixpath.basename(driver) not in profile.passthrough:
        return ()
    return (f"/dev/vfio/{posixpath.basename(group)}",) if isinstance(group, str) else ()


def _node(host: Host, path: str, numbers: tuple[int, int] | None) -> Node:
    """A node as it is; `numbers` are the kernel's, where it has a device for it."""
    status = host.stat(path)
    if isinstance(status, NodeStat) and numbers in (None, (status.major, status.minor)):
        return Node(path, status.major, status.minor, status.owner, status.group, status.mode)
    rest = status if isinstance(status, Unknown) else None
    major, minor = numbers if numbers is not None else (rest, rest)
    return Node(path, major, minor, rest, rest, rest)
