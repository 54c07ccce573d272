"""Cards that a card is joined with beside the PCI bus: xGMI, NVLink, HCCS.

Only AMD's driver tells the kernel: /sys/class/kfd/kfd/topology (drivers/gpu/drm/amd/amdkfd/kfd_topology.c). For the
others the vendor's tool knows, and this can only say whom to ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..host import Host
from ..model import Device

TOPOLOGY = "/sys/class/kfd/kfd/topology/nodes"
XGMI = "11"                # KFD_CRAT: link type of xGMI (amdkfd/kfd_crat.h, CRAT_IOLINK_TYPE_XGMI)
# Profile -> what joins its cards, and the command that shows it.
FABRICS = {"nvidia": ("NVLink", "nvidia-smi topo -m"), "ascend": ("HCCS", "npu-smi info -t topo")}


def joined(host: Host, device: Device, others: Iterable[Device]) -> tuple[str, ...]:
    """What is known, or has to be asked, of the cards this one is joined with; a sentence each."""
    alike = [o.address for o in others if o.profile == device.profile and o.address and o.address != device.address]
    if not alike:
        return ()
    if isinstance(device.profile, str) and device.profile in FABRICS:
        fabric, tool = FABRICS[device.profile]
        return (f"{device.address} may be joined by {fabric} with {_few(alike)}: jobs over several of them break; "
                f"only {tool} can tell",)
    linked = [a for a in _xgmi(host, device.address or "") if a in alike] if device.profile == "amd" else []
    told = f"{device.address} is joined by xGMI with {_few(linked)}: jobs over several of them break"
    return (told,) if linked else ()


def _few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _xgmi(host: Host, address: str) -> list[str]:
    names = host.names(TOPOLOGY)
    where = {name: _address(host, name) for name in (names if isinstance(names, tuple) else ())}
    mine = [name for name, at in where.items() if at == address]
    found = []
    for node in mine:
        links = host.names(f"{TOPOLOGY}/{node}/io_links")
        for link in links if isinstance(links, tuple) else ():
            told = _properties(host.text(f"{TOPOLOGY}/{node}/io_links/{link}/properties"))
            to = where.get(told.get("node_to", ""))
            if told.get("type") == XGMI and to is not None:
                found.append(to)
    return found


def _address(host: Host, node: str) -> str | None:
    """location_id is bus << 8 | device << 3 | function, as pci_dev_id() makes it; 0 = a CPU."""
    told = _properties(host.text(f"{TOPOLOGY}/{node}/properties"))
    if not told.get("location_id", "0").isdecimal() or int(told.get("location_id", "0")) == 0:
        return None
    place, domain = int(told["location_id"]), int(told.get("domain", "0"))
    return f"{domain:04x}:{place >> 8:02x}:{place >> 3 & 0x1f:02x}.{place & 7}"


def _properties(text: object) -> dict[str, str]:
    return dict(re.findall(r"^(\w+) (\S+)$", text, re.M)) if isinstance(text, str) else {}
