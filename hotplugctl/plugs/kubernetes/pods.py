"""A pod as work on a card, and what asking it to go would do. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ...model import Work
from .api import Object, at, listed

FINISHED = {"Succeeded", "Failed"}
# A pod out of a file has a mirror in the API under another uid; this annotation has the uid the kubelet knows it by.
# https://kubernetes.io/docs/reference/labels-annotations-taints/
MIRROR, HASH = "kubernetes.io/config.mirror", "kubernetes.io/config.hash"


def name_of(pod: Object) -> str:
    """NAMESPACE/NAME."""
    return f"{at(pod, 'metadata', 'namespace')}/{at(pod, 'metadata', 'name')}"


def names(pod: Object) -> set[str]:
    """All that a kubelet may call the pod: its uid, that of its file, NAMESPACE/NAME."""
    annotations = at(pod, "metadata", "annotations") or {}
    return {name for name in (at(pod, "metadata", "uid"), annotations.get(HASH), annotations.get(MIRROR), name_of(pod))
            if name}


def finished(pod: Object) -> bool:
    """Has it ended? Then it holds nothing, even where the kubelet's file still names it."""
    return at(pod, "status", "phase") in FINISHED


def is_static(pod: Object) -> bool:
    """Is it a mirror of a file on the node?"""
    return MIRROR in (at(pod, "metadata", "annotations") or {})


def controller(pod: Object) -> tuple[str, str]:
    """Kind and name of what owns the pod; empty when nothing does."""
    for owner in listed(pod, "metadata", "ownerReferences"):
        if at(owner, "controller"):
            return str(at(owner, "kind")), str(at(owner, "name"))
    return "", ""


def claims(pod: Object) -> tuple[str, ...]:
    """The names of the pod's resource claims: those it names, and those that were made for it."""
    named = [at(one, "resourceClaimName") for one in listed(pod, "spec", "resourceClaims")]
    made = [at(one, "resourceClaimName") for one in listed(pod, "status", "resourceClaimStatuses")]
    # v1alpha2 and v1alpha3 of the first years had `source` between.
    old = [at(one, "source", "resourceClaimName") for one in listed(pod, "spec", "resourceClaims")]
    return tuple(dict.fromkeys(str(name) for name in (*named, *made, *old) if name))


def comes_back(pod: Object) -> str | None:
    """Why evicting it would not free the card; None = it would."""
    kind, name = controller(pod)
    if is_static(pod):
        return "it is a static pod: it ends when its file is taken out of the kubelet's manifest folder"
    # One that has its devices through claims is stopped by the taint of the device; a cordon does not bind DaemonSets.
    if kind == "DaemonSet" and not listed(pod, "spec", "resourceClaims"):
        return f"DaemonSet {name} would start it again at once: keep that off the node first (its nodeSelector)"
    return None


def work(pod: Object) -> Work:
    """What a plan shows of it."""
    kind, name = controller(pod)
    phase = "Terminating" if at(pod, "metadata", "deletionTimestamp") else str(at(pod, "status", "phase") or "Unknown")
    space, short = str(at(pod, "metadata", "namespace")), str(at(pod, "metadata", "name"))
    if is_static(pod):
        owner, stop = "static pod", "take its file out of the kubelet's manifest folder"
    else:
        owner, stop = f"{kind} {name}".strip(), f"kubectl delete pod {short} -n {space}"
        if comes_back(pod):
            stop = f"keep DaemonSet {space}/{name} off this node"
    return Work(name_of(pod), owner or None, None, phase, stop, _seconds(at(pod, "status", "startTime")))


def eviction(pod: Object, version: str, grace_s: float) -> Mapping[str, Any]:
    """The request to evict this very pod: one of the same name that came after it (a StatefulSet's) stays.

    The pod's own grace is shortened, never made longer, and never 0: that would take it out of the API while its
    processes still have the card.
    """
    own = at(pod, "spec", "terminationGracePeriodSeconds")
    options: dict[str, Any] = {"preconditions": {"uid": at(pod, "metadata", "uid")}}
    if isinstance(own, int) and own > grace_s:
        options["gracePeriodSeconds"] = max(1, int(grace_s))
    meta = {"name": at(pod, "metadata", "name"), "namespace": at(pod, "metadata", "namespace")}
    return {"apiVersion": version, "kind": "Eviction", "metadata": meta, "deleteOptions": options}


def waiting_for(pod: Object, resource: str) -> bool:
    """Is it bound to the node, not yet started, and asks for the resource? Then it may get the card in spite of all."""
    return at(pod, "status", "phase") == "Pending" and any(
        resource in (at(one, "resources", "limits") or {}) for one in listed(pod, "spec", "containers")
    )


def _seconds(stamp: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(stamp).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
