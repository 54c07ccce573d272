"""The node object of this machine: found, cordoned, and given back as it was. Pure: objects in, objects out.

Each cordon has an annotation of its own, so that two cards of one node can be drained at a time and the last one out
opens it again. What was there before stands in it, written together with the cordon: nothing can come between.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from .api import Object, at, listed

PREFIX = "hotplugctl/cordon-"
OPEN, CLOSED = "was-open", "was-cordoned"


def is_node(node: Object, host: str) -> bool:
    """Does one of its names say that it is this host?"""
    addresses = {at(one, "address") for one in listed(node, "status", "addresses") if at(one, "type") == "Hostname"}
    label = (at(node, "metadata", "labels") or {}).get("kubernetes.io/hostname")
    names = {at(node, "metadata", "name"), label, *addresses}
    return host.lower() in {str(name).lower() for name in names if name}


def is_another(node: Object, machine_id: str | None, boot_id: str | None) -> bool:
    """Does the node say that it is another machine? A kubeconfig may lead to a cluster with a node of the same name.

    Neither id alone decides: clones share the machine id, and the boot id is old until the kubelet has reported.
    """
    said = (at(node, "status", "nodeInfo", "machineID"), at(node, "status", "nodeInfo", "bootID"))
    return all(here and there and here != there for here, there in zip((machine_id, boot_id), said, strict=True))


def name_of(node: Object) -> str:
    """Its name."""
    return str(at(node, "metadata", "name"))


def is_cordoned(node: Object) -> bool:
    """Does the scheduler leave it out?"""
    return at(node, "spec", "unschedulable") is True


def has_token(node: Object, token: str | None) -> bool:
    """Is a cordon of ours on it?"""
    return token is not None and PREFIX + token in _annotations(node)


def extended(node: Object) -> tuple[str, ...]:
    """The resources that device plugins brought, of which the node has had any."""
    names = at(node, "status", "capacity") or {}
    return tuple(sorted(name for name in names if "/" in name and "kubernetes.io/" not in name))


def cordoned(node: Object, token: str) -> dict[str, Any] | None:
    """The node with our cordon; None = it has it."""
    if has_token(node, token) and is_cordoned(node):
        return None
    marks = {key: value for key, value in _annotations(node).items() if key.startswith(PREFIX)}
    if not is_cordoned(node):       # and if it was before, somebody has opened it since
        marks = dict.fromkeys(marks, OPEN)
    first = OPEN if not is_cordoned(node) else next(iter(marks.values()), CLOSED)
    made = _copy(node)
    made["metadata"]["annotations"] |= {PREFIX + token: first} | marks
    made["spec"]["unschedulable"] = True
    return made


def uncordoned(node: Object, token: str) -> dict[str, Any] | None:
    """The node without our cordon; None = it has none. It stays closed while anybody else wants it closed."""
    if not has_token(node, token):
        return None
    made = _copy(node)
    before = made["metadata"]["annotations"].pop(PREFIX + token)
    last = not any(key.startswith(PREFIX) for key in made["metadata"]["annotations"])
    if last and before == OPEN and _still_ours(node, token):
        made["spec"].pop("unschedulable", None)
    return made


def _still_ours(node: Object, token: str) -> bool:
    """Did whoever wrote our annotation also write the cordon that is there now?

    Somebody may have opened the node and closed it again for a reason of their own; the managed fields tell.
    """
    cordon, annotation = ("f:spec", "f:unschedulable"), ("f:metadata", "f:annotations", f"f:{PREFIX}{token}")
    writers = [_writers(node, cordon), _writers(node, annotation)]
    return not all(writers) or bool(writers[0] & writers[1])


def _writers(node: Object, path: tuple[str, ...]) -> set[Any]:
    return {at(entry, "manager") for entry in listed(node, "metadata", "managedFields")
            if at(entry, "fieldsV1", *path) is not None}


def _annotations(node: Object) -> Mapping[str, str]:
    return at(node, "metadata", "annotations") or {}


def _copy(node: Object) -> dict[str, Any]:
    made = deepcopy(dict(node))
    made["metadata"]["annotations"] = dict(_annotations(node))
    made["spec"] = dict(made.get("spec") or {})
    return made
