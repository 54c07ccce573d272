"""What is asked of the cluster and of the kubelet about one card, in as few calls as it takes; changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ...host import Host
from ...model import Accelerator, Blocker, Kind, Unknown
from . import devices, kubelet, nodes, podresources, pods
from .api import CONFIGURATIONS, DENIALS, Api, Object, Refused, at, listed, part

NODES = "/api/v1/nodes"
SOCKET_S = 2.0
KUBELET = CONFIGURATIONS[2]
# A page has to stay below what a command may print (4 MiB): a node with its images has some 20 KiB, a pod up to 30.
NODES_A_PAGE, PODS_A_PAGE, RULES_A_PAGE, SLICES_A_PAGE = 50, 50, 200, 8
_LOGIN = re.compile(r'User "system:node:(?P<name>[^"]+)"')

Failed: TypeAlias = "Refused | Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that is known about a card. `served`: resource of resource.k8s.io -> version, `named` the card's devices.

    `holders` are the names of pods whose claims have the card; Failed where that could not be asked.
    """

    node: Object
    pods: tuple[Object, ...] | Failed
    given: kubelet.Given | Unknown
    answered: kubelet.Given | Unknown | None
    served: Mapping[str, str] | Failed
    named: tuple[devices.Named, ...] | Failed
    rules: tuple[Object, ...] | Failed
    holders: frozenset[str] | Failed


def see(host: Host, api: Api, node: Object, card: Accelerator, socket: str) -> Seen:
    """Ask everything."""
    name = nodes.name_of(node)
    found = all_of(api, f"/api/v1/pods?fieldSelector=spec.nodeName%3D{part(name)}", PODS_A_PAGE)
    served = versions(api)
    named = slices(api, served, name, card)
    rules: tuple[Object, ...] | Failed = ()
    holders: frozenset[str] | Failed = frozenset()
    if isinstance(served, Mapping) and isinstance(named, tuple) and named:
        rules = all_of(api, rules_path(served), RULES_A_PAGE) if devices.RULES in served else ()
        holders = claim_holders(api, served, found, named) if isinstance(found, tuple) else frozenset()
    raw = host.data(kubelet.CHECKPOINT, kubelet.CHECKPOINT_LIMIT)
    given = kubelet.Given() if raw is None else raw if isinstance(raw, Unknown) else kubelet.checkpoint(raw)
    answered = podresources.ask(host, SOCKET_S, socket)
    return Seen(node=node, pods=found, given=given, answered=answered, served=served, named=named, rules=rules,
                holders=holders)


def find_node(host: Host, api: Api) -> Object | Blocker | Failed:
    """The node object of this machine; a Blocker when the cluster has none."""
    name = host.name.lower()
    answer = api.get(f"{NODES}/{part(name)}")
    if isinstance(answer, Refused) and api.config == KUBELET and (match := _LOGIN.search(answer.said)):
        # The kubelet's own login may read its own node alone (1.32), and says which one that is.
        answer = api.get(f"{NODES}/{part(match['name'])}")
        name = match["name"]
    if isinstance(answer, Refused) and answer.reason == "NotFound":
        label = f"{NODES}?labelSelector=kubernetes.io%2Fhostname%3D{part(name)}"
        for path, limit in ((label, 2), (NODES, NODES_A_PAGE)):
            for one in api.pages(path, limit):
                if not isinstance(one, Mapping):
                    return one
                if nodes.is_node(one, name):
                    return _checked(host, one)
        return Blocker("this machine is no node of the cluster",
                       f"no node has {name} as its name, its label kubernetes.io/hostname or its address",
                       "--scheduler none")
    if isinstance(answer, Mapping):
        if not isinstance(at(answer, "metadata", "name"), str):
            return Unknown("the API server's answer is no node", Kind.IO)
        return _checked(host, answer)
    return answer


def _checked(host: Host, node: Object) -> Object | Blocker:
    ids = (host.text(path) for path in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"))
    machine, boot = (id if isinstance(id, str) else None for id in ids)
    if nodes.is_another(node, machine, boot):
        return Blocker(f"node {nodes.name_of(node)} of this cluster is another machine",
                       "its machine id and its boot id are not this machine's: kubectl leads to another cluster",
                       "--scheduler none")
    return node


def all_of(api: Api, path: str, limit: int) -> tuple[Object, ...] | Failed:
    """A whole list, or why it could not be had."""
    found: list[Object] = []
    for one in api.pages(path, limit):
        if not isinstance(one, Mapping):
            return one
        found.append(one)
    return tuple(found)


def versions(api: Api) -> Mapping[str, str] | Failed:
    """The newest version in which the cluster serves each resource of resource.k8s.io; empty = it has none."""
    group = api.get(devices.GROUP)
    if not isinstance(group, Mapping):
        return {} if isinstance(group, Refused) and group.reason == "NotFound" else group
    offered = {at(one, "version") for one in listed(group, "versions")}
    found: dict[str, str] = {}
    wanted = {devices.RULES, devices.SLICES, devices.CLAIMS}
    for version in devices.VERSIONS:
        if version in offered and not wanted <= found.keys():
            answer = api.get(f"{devices.GROUP}/{version}")
            if not isinstance(answer, Mapping):
                return answer
            for one in listed(answer, "resources"):
                found.setdefault(str(at(one, "name")), version)
    return found


def slices(
    api: Api, served: Mapping[str, str] | Failed, node: str, card: Accelerator
) -> tuple[devices.Named, ...] | Failed:
    """The devices of dynamic resource allocation that are the card."""
    if not isinstance(served, Mapping):
        return served
    if devices.SLICES not in served:
        return ()
    path = f"{devices.GROUP}/{served[devices.SLICES]}/{devices.SLICES}?fieldSelector=spec.nodeName%3D{part(node)}"
    found = all_of(api, path, SLICES_A_PAGE)
    return devices.named(card, found) if isinstance(found, tuple) else found


def rules_path(served: Mapping[str, str]) -> str:
    """Where the DeviceTaintRules are."""
    return f"{devices.GROUP}/{served[devices.RULES]}/{devices.RULES}"


def claim_holders(
    api: Api, served: Mapping[str, str], found: tuple[Object, ...], named: tuple[devices.Named, ...]
) -> frozenset[str] | Failed:
    """The pods whose claims have one of the devices. Only the claims of this node's pods are read."""
    holders: set[str] = set()
    for pod, claim in _claims(found):
        space = part(str(at(pod, "metadata", "namespace")))
        path = f"{devices.GROUP}/{served.get(devices.CLAIMS, 'v1')}/namespaces/{space}/{devices.CLAIMS}/{part(claim)}"
        answer = api.get(path)
        if isinstance(answer, Mapping):
            if devices.claimed(answer, named):
                holders.add(pods.name_of(pod))
        elif not (isinstance(answer, Refused) and answer.reason == "NotFound"):
            return answer
    return frozenset(holders)


def _claims(found: tuple[Object, ...]) -> Iterator[tuple[Object, str]]:
    return ((pod, claim) for pod in found if not pods.finished(pod) for claim in pods.claims(pod))


def denied(answer: Failed) -> bool:
    """Does it fail for want of a permission?"""
    return answer.reason in DENIALS if isinstance(answer, Refused) else answer.kind is Kind.DENIED
