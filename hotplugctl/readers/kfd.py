"""AMD's compute driver: which processes use which GPU.

They all have /dev/kfd open, which says nothing of a GPU. /sys/class/kfd/kfd names them by process id, with a file a GPU
that is there for each of them; what counts is memory taken on the GPU, or a queue that runs there (amdkfd,
kfd_process.c and kfd_topology.c).
"""

from __future__ import annotations

import re

from ..host import Host
from ..model import Maybe, Unknown, device_of

KFD = "/sys/class/kfd/kfd"


def location(properties: str) -> str | None:
    """The PCI device (`0000:c1:00`) of a topology node, out of its `properties`; None for a node without one."""
    found = dict(re.findall(r"^(location_id|domain) (\d{1,10})$", properties, re.M))
    if "location_id" not in found:
        return None
    # Bus and devfn; a partition has its number in bits that mean a function, or above all of them.
    place = int(found["location_id"]) & 0xFFFF
    return f"{int(found.get('domain', 0)):04x}:{place >> 8:02x}:{place >> 3 & 0x1F:02x}"


def gpu_ids(host: Host, addresses: set[str]) -> set[str] | Unknown:
    """KFD's numbers of the GPUs at these addresses; several when a GPU is partitioned."""
    nodes = host.names(f"{KFD}/topology/nodes")
    if isinstance(nodes, Unknown):
        return nodes
    devices = {device_of(address) for address in addresses}
    found = set()
    for node in nodes or ():
        number, properties = (host.text(f"{KFD}/topology/nodes/{node}/{name}") for name in ("gpu_id", "properties"))
        if isinstance(number, Unknown) or isinstance(properties, Unknown):
            return next(said for said in (number, properties) if isinstance(said, Unknown))
        if number not in (None, "0") and properties is not None and location(properties) in devices:
            found.add(str(number))
    return found


def processes(host: Host, addresses: set[str]) -> list[tuple[int, str, str]] | Unknown:
    """(pid, via, path) of every process that KFD knows to use a GPU at one of these addresses."""
    gpus = gpu_ids(host, addresses)
    if isinstance(gpus, Unknown):
        return gpus
    pids = host.names(f"{KFD}/proc") if gpus else None
    if isinstance(pids, Unknown):
        return pids
    found = []
    for pid in (name for name in pids or () if name.isdecimal()):
        path = _used(host, f"{KFD}/proc/{pid}", gpus)
        if isinstance(path, Unknown):
            return path
        if path is not None:
            found.append((int(pid), "kfd", path))
    return found


def _used(host: Host, folder: str, gpus: set[str]) -> Maybe[str]:
    """What shows that a process uses one of the GPUs; None = it does not."""
    for path in (f"{folder}/vram_{gpu}" for gpu in sorted(gpus)):
        taken = host.text(path)
        if isinstance(taken, Unknown):
            return taken
        if taken not in (None, "", "0"):
            return path
    queues = host.names(f"{folder}/queues")
    for path in (f"{folder}/queues/{queue}/gpuid" for queue in queues) if isinstance(queues, tuple) else ():
        if (gpu := host.text(path)) in gpus or isinstance(gpu, Unknown):
            return gpu if isinstance(gpu, Unknown) else path
    return None
