"""What the kubelet gave to which container, out of its checkpoint file or its PodResources answer. Pure.

Checkpoint: kubernetes, pkg/kubelet/cm/devicemanager/checkpoint. Since 1.20 DeviceIDs is a map NUMA node -> ids, before
it was a list. AllocResp is the plugin's ContainerAllocateResponse (deviceplugin/v1beta1 api.proto), which only the
checkpoint has: it tells which nodes and variables the container really got.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...model import Kind, Unknown
from . import wire

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
CHECKPOINT_LIMIT = 16 << 20
CONFIGURATION = "/var/lib/kubelet/config.yaml"


@dataclass(frozen=True, slots=True)
class Allotment:
    """Devices of one resource that a container got. `pod` is the pod's uid, or NAMESPACE/NAME.

    `nodes` are paths below /dev of the machine; `words` the values of variables, annotations and CDI names, and
    `visible` those of variables that list the devices a runtime shows (ASCEND_VISIBLE_DEVICES and the like).
    """

    pod: str
    resource: str
    ids: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claimed:
    """A device of dynamic resource allocation that a container got."""

    pod: str
    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class Given:
    """All that a kubelet gave out. `offered`: the ids that each resource's plugin registered."""

    allotments: tuple[Allotment, ...] = ()
    claimed: tuple[Claimed, ...] = ()
    offered: Mapping[str, tuple[str, ...]] | None = None


def checkpoint(raw: bytes) -> Given | Unknown:
    """The kubelet's checkpoint; Unknown when it is not of a form known here."""
    try:
        data = json.loads(raw)["Data"]
        entries = tuple(_entry(entry) for entry in data.get("PodDeviceEntries") or ())
        offered = {name: tuple(map(str, ids or ())) for name, ids in (data.get("RegisteredDevices") or {}).items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return Unknown(f"{CHECKPOINT} is not in a form known here ({type(error).__name__}: {error})", Kind.IO)
    return Given(entries, (), offered)


def _entry(entry: Mapping[str, Any]) -> Allotment:
    found = entry.get("DeviceIDs") or ()
    lists = found.values() if isinstance(found, Mapping) else (found,)
    ids = tuple(str(id) for some in lists for id in some or ())
    try:
        response = base64.b64decode(entry.get("AllocResp") or "", validate=True)
        nodes, words, visible = granted(response)
    except (ValueError, binascii.Error):     # the ids still tell
        nodes, words, visible = (), (), ()
    return Allotment(str(entry["PodUID"]), str(entry["ResourceName"]), ids, nodes, words, visible)


def granted(response: bytes) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Device nodes, words and lists of visible devices of a ContainerAllocateResponse. Raises ValueError."""
    variables = tuple(wire.pairs(response, 1))
    nodes = tuple(wire.text(spec, 2) or wire.text(spec, 1) for spec in wire.inside(response, 3))
    annotations = tuple(value for _, value in wire.pairs(response, 4))
    cdi = tuple(wire.text(device, 1) for device in wire.inside(response, 5))
    visible = tuple(value for name, value in variables if name.endswith("VISIBLE_DEVICES"))
    return nodes, (*(value for _, value in variables), *annotations, *cdi), visible


def pod_resources(answer: bytes) -> Given:
    """A ListPodResourcesResponse (k8s.io/kubelet podresources/v1 api.proto). Raises ValueError on other bytes."""
    found = tuple(_containers(answer))
    return Given(
        tuple(one for one in found if isinstance(one, Allotment)),
        tuple(one for one in found if isinstance(one, Claimed)),
    )


def _containers(answer: bytes) -> Iterator[Allotment | Claimed]:
    for resources in wire.inside(answer, 1):
        pod = f"{wire.text(resources, 2)}/{wire.text(resources, 1)}"
        for container in wire.inside(resources, 3):
            for devices in wire.inside(container, 2):
                ids = tuple(id.decode("utf-8", errors="backslashreplace") for id in wire.inside(devices, 2))
                yield Allotment(pod, wire.text(devices, 1), ids)
            for dynamic in wire.inside(container, 5):
                for claim in wire.inside(dynamic, 4):
                    yield Claimed(pod, wire.text(claim, 2), wire.text(claim, 3), wire.text(claim, 4))
