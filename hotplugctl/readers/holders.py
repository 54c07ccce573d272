"""Who has a card: processes by whatever way, and users in the kernel that have no process.

A Host finds descriptors and mappings; sysfs tells the rest: KFD's processes, mediated devices, modules on the driver.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping, Sequence

from ..host import Host, OpenFile, Seen, Sought
from ..model import ADDRESS, UNSEEN, Driver, Holder, Kind, Maybe, Node, Unknown, device_of
from . import kernel, kfd, owners
from .owners import SHORT, Owner
from .pci import Function

VFIO = "/dev/vfio"
OWNER_CLASSES = ("apex",)       # gasket's class devices have `device_owner`, a process id or 0 (gasket_core.c)
_MEDIATED = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")     # an mdev's name is its UUID
# How to find those that were not seen, by what stood in the way.
LOOK_AGAIN = {Kind.DENIED: "look again as root, on the host itself", Kind.IO: "look again"}


def go_together(host: Host, function: Function, functions: Sequence[Function]) -> tuple[Function, ...]:
    """A function with the others of its card and their virtual functions; a virtual function is alone."""
    if isinstance(host.link(f"{function.path}/physfn"), str):
        return (function,)
    device = device_of(function.address)
    found = {f.address: f for f in functions if device_of(f.address) == device}
    physical = {a for a, f in found.items() if not isinstance(host.link(f"{f.path}/physfn"), str)}
    card = [f for a, f in found.items() if a in physical]
    names = {posixpath.basename(link) for f in card for link in _virtual(host, f)}
    return (*card, *(f for f in functions if f.address in names))


def _virtual(host: Host, function: Function) -> list[str]:
    names = host.names(function.path)
    links = (host.link(f"{function.path}/{name}") for name in names or () if name.startswith("virtfn")) \
        if isinstance(names, tuple) else ()
    return [link for link in links if isinstance(link, str)]


def of_card(
    host: Host, functions: Sequence[Function], nodes: Maybe[tuple[Node, ...]], modules: Collection[str] = ()
) -> Maybe[tuple[Holder, ...]]:
    """Everybody who has one of these functions or nodes, processes first; () = nobody, for certain.

    `modules` are the driver's own companions, no users. When some could not be looked for, the last holder is `unseen`
    and says why (`model.unseen` finds it); when nobody was found beside, the whole answer is Unknown.
    """
    asked, untold = sought(host, functions, nodes)
    found = host.holders(asked)
    if found is None:
        return None
    seen = found if isinstance(found, Seen) else Seen(unseen=found)
    known = owners.pods(host) if seen.files else {}
    who = [_process(host, file, known) for file in sorted(seen.files, key=lambda f: (f.pid, f.path, f.via))]
    gaps = [why for why in (seen.unseen, nodes, untold) if isinstance(why, Unknown)]
    for part in (_mediated(host, functions), _modules(host, functions, modules)):
        if isinstance(part, Unknown):
            gaps.append(part)
        else:
            who += part
    if gaps and not who:
        return gaps[0]
    return (*who, *(_gap(why) for why in gaps[:1]))


def sought(
    host: Host, functions: Sequence[Function], nodes: Maybe[tuple[Node, ...]]
) -> tuple[Sought, Unknown | None]:
    """What to look for in processes, and why other sources may know of more of them."""
    rows = [(n.path, _number(n.major), _number(n.minor)) for n in (nodes if isinstance(nodes, tuple) else ())]
    known = {path for path, _, _ in rows}
    rows += [(path, None, None) for path in sorted(_handed_over(host, functions)) if path not in known]
    told: list[tuple[int, str, str]] = []
    untold: Unknown | None = None
    for part in (kfd.processes(host, {f.address for f in functions}), _owners(host, functions)):
        if isinstance(part, Unknown):
            untold = part
        else:
            told += part
    places = tuple((f.address, f.path) for f in functions)
    return Sought(tuple(rows), places, _sole(host, functions), tuple(told)), untold


def _number(value: Maybe[int]) -> int | None:
    return value if isinstance(value, int) else None


def _handed_over(host: Host, functions: Sequence[Function]) -> set[str]:
    """The nodes by which virtual machines have these functions, or mediated devices of them.

    One user of a group has all of it (Documentation/driver-api/vfio.rst); a device has its own node since Linux 6.6.
    """
    found: set[str] = set()
    for function in functions:
        driver = host.link(f"{function.path}/driver")
        mediated = [f"{function.path}/{name}" for name in _mediated_names(host, function)]
        passed = [function.path] if isinstance(driver, str) and "vfio" in posixpath.basename(driver) else []
        for folder in (*passed, *mediated):
            group, devices = host.link(f"{folder}/iommu_group"), host.names(f"{folder}/vfio-dev")
            found |= {f"{VFIO}/{posixpath.basename(group)}"} if isinstance(group, str) else set()
            found |= {f"{VFIO}/devices/{name}" for name in devices} if isinstance(devices, tuple) else set()
    return found


def _sole(host: Host, functions: Sequence[Function]) -> str | None:
    """The driver of the first function, when no other function of the machine has it."""
    link = host.link(f"{functions[0].path}/driver") if functions else None
    if not isinstance(link, str):
        return None
    driver = posixpath.basename(link)
    bound = host.names(f"/sys/bus/pci/drivers/{driver}")
    ours = {f.address for f in functions}
    alone = isinstance(bound, tuple) and all(name in ours for name in bound if ADDRESS.fullmatch(name))
    return driver if alone else None


def _owners(host: Host, functions: Sequence[Function]) -> list[tuple[int, str, str]]:
    """Processes that a driver names as the owner of its device."""
    found = []
    for folder in (f"{f.path}/{class_}" for f in functions for class_ in OWNER_CLASSES):
        names = host.names(folder)
        for path in (f"{folder}/{name}/device_owner" for name in names) if isinstance(names, tuple) else ():
            pid = host.text(path)
            if isinstance(pid, str) and re.fullmatch("[1-9][0-9]{0,8}", pid):
                found.append((int(pid), "owner", path))
    return found


def _mediated_names(host: Host, function: Function) -> list[str]:
    names = host.names(function.path)
    return [name for name in names if _MEDIATED.fullmatch(name)] if isinstance(names, tuple) else []


def _mediated(host: Host, functions: Sequence[Function]) -> list[Holder]:
    """Mediated devices: parts of a function that virtual machines can be given."""
    paths = [f"{f.path}/{name}" for f in functions for name in _mediated_names(host, f)]
    return [_in_kernel(posixpath.basename(path), "mdev", path, f"echo 1 > {path}/remove") for path in paths]


def _modules(host: Host, functions: Sequence[Function], own: Collection[str]) -> list[Holder] | Unknown:
    """Kernel modules that use the driver's; whether they use this card or another of the driver is not to be seen."""
    found: dict[str, Holder] = {}
    for function in functions:
        driver = kernel.driver(host, function)
        if not isinstance(driver, Driver) or not isinstance(driver.module, str):
            continue
        names = host.names(f"/sys/module/{driver.module}/holders")
        if isinstance(names, Unknown):
            return names
        for name in names or ():
            if name not in own and name.replace("_", "-") not in own:
                found[name] = _in_kernel(name, "module", driver.module, f"unload the kernel module {name}")
    return list(found.values())


def _in_kernel(name: str, via: str, what: str, release: str) -> Holder:
    return Holder(0, name, None, via, what, None, None, None, release, None, None)


def _process(host: Host, file: OpenFile, pods: Mapping[str, tuple[str, str]]) -> Holder:
    owned = owners.of_process(host, file.pid)
    if not isinstance(owned, Owner):      # it ended meanwhile, or is another user's
        return Holder(
            file.pid, file.command, file.user, file.via, file.path, container=owned, pod=owned, job=owned,
            release=release(file.pid, Owner(), None), unit=owned, since=file.since,
        )
    name = pods.get(owned.pod or "")
    return Holder(
        file.pid, file.command, file.user, file.via, file.path, container=owned.container,
        pod="/".join(name) if name else owned.pod, job=owned.job, release=release(file.pid, owned, name),
        unit=owned.unit, since=file.since,
    )


def release(pid: int, owned: Owner, pod: tuple[str, str] | None) -> str:
    """How to make a process let go, for the one who owns it: the outermost that manages it comes first."""
    if isinstance(owned.job, str):
        return f"scancel {owned.job}"
    if pod is not None:
        return f"kubectl delete pod {pod[1]} -n {pod[0]}"
    if owned.pod is not None:
        return f"delete the pod with uid {owned.pod}"
    if owned.stop is not None:
        return owned.stop
    if owned.container is not None:
        return f"stop the container {owned.container[:SHORT]}"
    return f"systemctl stop {owned.service.removesuffix('.service')}" if owned.service else f"stop pid {pid}"


def _gap(why: Unknown) -> Holder:
    return Holder(0, why, why, UNSEEN, why, why, why, why, LOOK_AGAIN.get(why.kind, "look again"), why, why)
