"""Dynamic resource allocation: the card in the ResourceSlices of its node, and the rules that keep work off it. Pure.

Devices and rules by https://kubernetes.io/docs/reference/kubernetes-api/resource/ (v1), and what came before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...model import Accelerator
from .api import Object, at, listed
from .recognise import described

GROUP = "/apis/resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3")     # newest first
RULES, SLICES, CLAIMS = "devicetaintrules", "resourceslices", "resourceclaims"
MANAGED = {"app.kubernetes.io/managed-by": "hotplugctl"}
TAINT = "hotplugctl/drain"
CLOSING = {"NoSchedule", "NoExecute"}
PROGRESS = "EvictionInProgress"


@dataclass(frozen=True, slots=True)
class Named:
    """A device as its driver names it. `tainted`: the driver itself keeps work off it."""

    driver: str
    pool: str
    device: str
    tainted: bool = False

    @property
    def selector(self) -> Mapping[str, str]:
        """What chooses it in a rule."""
        return {"driver": self.driver, "pool": self.pool, "device": self.device}

    def __str__(self) -> str:
        return f"driver {self.driver}, pool {self.pool}, device {self.device}"


def named(card: Accelerator, slices: Iterable[Object]) -> tuple[Named, ...]:
    """The devices that are the card or parts of it, out of the newest generation of each pool."""
    specs = [spec for spec in (at(one, "spec") for one in slices) if isinstance(spec, Mapping)]
    newest: dict[tuple[str, str], int] = {}
    for spec in specs:
        newest[_pool(spec)] = max(newest.get(_pool(spec), 0), at(spec, "pool", "generation") or 0)
    found = []
    for spec in specs:
        if (at(spec, "pool", "generation") or 0) < newest[_pool(spec)]:
            continue
        for device in listed(spec, "devices"):
            inner = at(device, "basic") or device       # v1beta1 and before have everything below `basic`
            driver, pool = _pool(spec)
            name = str(at(device, "name") or "")
            if described(card, name, at(inner, "attributes") or {}, driver):
                tainted = any(at(taint, "effect") in CLOSING for taint in listed(inner, "taints"))
                found.append(Named(driver, pool, name, tainted))
    return tuple(sorted(found, key=lambda one: (one.driver, one.pool, one.device)))


def _pool(spec: Mapping[str, Any]) -> tuple[str, str]:
    return str(at(spec, "driver") or ""), str(at(spec, "pool", "name") or "")


def rule(version: str, name: str, device: Named, effect: str, why: str) -> Mapping[str, Any]:
    """A DeviceTaintRule for one device."""
    return {
        "apiVersion": f"resource.k8s.io/{version}", "kind": "DeviceTaintRule",
        "metadata": {"name": name, "labels": MANAGED, "annotations": {"hotplugctl/why": why}},
        "spec": {"deviceSelector": device.selector, "taint": {"key": TAINT, "effect": effect}},
    }


def is_ours(found: Object) -> bool:
    """Does the rule carry our mark?"""
    return bool(MANAGED.items() <= (at(found, "metadata", "labels") or {}).items())


def closes(found: Object, device: Named) -> bool:
    """Does the rule keep new work off the device? One that chooses by class or expression cannot be judged here."""
    selector = at(found, "spec", "deviceSelector")
    return (
        isinstance(selector, Mapping) and at(found, "spec", "taint", "effect") in CLOSING
        and selector.keys() <= device.selector.keys() and selector.items() <= device.selector.items()
    )


def progress(found: Object) -> str | None:
    """What the server says of evictions, once it does: with effect None, what NoExecute would do."""
    for condition in listed(found, "status", "conditions"):
        if at(condition, "type") == PROGRESS:
            return str(at(condition, "message") or at(condition, "reason") or "")
    return None


def claimed(claim: Object, devices: Iterable[Named]) -> bool:
    """Has the claim one of the devices?"""
    wanted = [device.selector for device in devices]
    results = listed(claim, "status", "allocation", "devices", "results")
    return any(all(at(result, key) == value for key, value in one.items()) for result in results for one in wanted)
