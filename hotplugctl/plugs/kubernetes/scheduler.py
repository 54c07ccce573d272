"""Kubernetes as a Scheduler: by a DeviceTaintRule for one device, by a cordon for the node, by eviction for a pod."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...errors import Exit, HotplugError
from ...host import Host
from ...model import Accelerator, Blocker, Kind, Maybe, Placement, Unknown, Work
from . import asking, devices, nodes, placing, podresources, pods
from .api import Answer, Api, Object, Refused, at, part, refusal

LOOK_S = 15.0       # everything that `placement` asks
STOP_S = 10.0       # a pod, its node, and an eviction in two versions
PAUSE_S = 0.1       # after a write that came too late
MANAGER = "?fieldManager=hotplugctl"     # who is named as the writer, else kubectl: as of everybody else's writes
EVICTIONS = ("policy/v1", "policy/v1beta1")     # policy/v1 came with 1.22

Remembered = Mapping[str, Any]


class Kubernetes:
    """A Scheduler. What it keeps is `token`, `node`, `rules` (name and device of each) and `cordon` (was it asked?)."""

    name = placing.NAME

    def __init__(self, host: Host, api: Api, socket: str = podresources.SOCKET) -> None:
        self._host = host
        self._api = api
        self._socket = socket

    def placement(self, card: Accelerator, scope: str, ours: Remembered) -> Placement:
        """As in Scheduler."""
        api = self._api.within(LOOK_S)
        node = asking.find_node(self._host, api)
        if not isinstance(node, Mapping):
            return placing.unanswered(f"node {self._host.name}", node)
        seen = asking.see(self._host, api, node, card, self._socket)
        names = frozenset(str(rule["name"]) for rule in ours.get("rules", ()))
        return placing.placed(card, scope, seen, ours.get("token"), names)

    def cordon(
        self, card: Accelerator, scope: str, ours: Remembered, keep: Callable[[Remembered], None], deadline: float
    ) -> None:
        """As in Scheduler. Raises HotplugError(DENIED) as well, when the login may not do it."""
        api = self._api.within(deadline)
        node = self._node(api)
        mine = {**ours, "token": ours.get("token") or secrets.token_hex(4), "node": nodes.name_of(node)}
        if scope == "node":
            keep(mine := {**mine, "cordon": True})
            self._rewrite(api, mine["node"], lambda read: nodes.cordoned(read, mine["token"]), "cordon")
            return
        served = self._served(api)
        named = asking.slices(api, served, mine["node"], card)
        if not isinstance(named, tuple):
            raise refusal("cannot read the ResourceSlices", named, api.config)
        if not named or devices.RULES not in served:
            raise HotplugError(
                f"cannot close {card.address} alone", hint="--scope node", exit=Exit.FAILED,
                why="it is in no ResourceSlice" if not named else "the cluster has no DeviceTaintRule",
            )
        mine["rules"] = _rules(ours.get("rules", ()), named, mine["token"])
        keep(mine)
        for one in mine["rules"]:
            device = devices.Named(one["driver"], one["pool"], one["device"])
            self._add(api, served, one["name"], device, "NoSchedule", f"drain of {card.address}")

    def uncordon(self, ours: Remembered, deadline: float) -> None:
        """As in Scheduler. Raises HotplugError(DENIED) as well, when the login may not do it."""
        api = self._api.within(deadline)
        if ours.get("rules"):
            served = self._served(api)
            for one in ours["rules"] if devices.RULES in served else ():
                self._take_away(api, served, one["name"])
        if ours.get("cordon"):
            self._rewrite(api, ours["node"], lambda read: nodes.uncordoned(read, ours["token"]), "uncordon")

    def stop(self, work: Work, grace_s: float) -> str | None:
        """As in Scheduler. Raises HotplugError(DENIED) when the login may not do it: asking again would not help."""
        api = self._api.within(STOP_S)
        space, _, short = work.id.partition("/")
        path = f"/api/v1/namespaces/{part(space)}/pods/{part(short)}"
        pod = api.get(path)
        if not isinstance(pod, Mapping):
            return self._no(work, pod)
        if pods.finished(pod) or at(pod, "metadata", "deletionTimestamp"):
            return None
        if why := pods.comes_back(pod):
            return f"{work.id}: {why}"
        node = asking.find_node(self._host, api)
        if not isinstance(node, Mapping):
            why = node.why if isinstance(node, Blocker) else self._no(work, node)
            return why or "the node of this machine cannot be read"
        if at(pod, "spec", "nodeName") != nodes.name_of(node):
            return None     # the one that was here has gone, and its successor runs elsewhere
        answer: Answer = pod
        for version in EVICTIONS:
            answer = api.create(f"{path}/eviction", pods.eviction(pod, version, grace_s))
            if not (isinstance(answer, Refused) and answer.reason in ("BadRequest", "NotFound")):
                break
        return self._no(work, answer)

    def foresee(self, card: Accelerator, deadline: float) -> Maybe[str]:
        """What the server says would become of the pods on the card if it were cleared (`1 pod would be evicted`).

        A rule with effect None, which does nothing, is made for the moment of the question. None = the cluster cannot
        tell: no such rules, not this card, or not this effect (it came after the rules did).
        """
        api = self._api.within(deadline)
        node = asking.find_node(self._host, api)
        served = asking.versions(api)
        if not isinstance(node, Mapping) or not isinstance(served, Mapping):
            failed = served if isinstance(node, Mapping) else node
            return Unknown(_why(failed), Kind.IO)
        named = asking.slices(api, served, nodes.name_of(node), card)
        if not isinstance(named, tuple):
            return Unknown(_why(named), Kind.IO)
        said = [self._foreseen(api, served, device, card) for device in named if devices.RULES in served]
        unknown = next((one for one in said if isinstance(one, Unknown)), None)
        return unknown if unknown is not None else "; ".join(one for one in said if isinstance(one, str)) or None

    def _foreseen(self, api: Api, served: Mapping[str, str], device: devices.Named, card: Accelerator) -> Maybe[str]:
        name = f"hotplugctl-look-{secrets.token_hex(4)}"
        path = f"{asking.rules_path(served)}/{name}"
        try:
            self._add(api, served, name, device, "None", f"question about {card.address}")
        except HotplugError as error:
            return None if "invalid" in error.why.lower() else Unknown(str(error), Kind.IO)
        try:
            while not api.over:
                found = api.get(path)
                if not isinstance(found, Mapping):
                    return Unknown(_why(found), Kind.IO)
                if (said := devices.progress(found)) is not None:
                    return said
                api.pause(PAUSE_S)
            return None
        finally:
            self._take_away(self._api.within(STOP_S), served, name)

    def _node(self, api: Api) -> Object:
        node = asking.find_node(self._host, api)
        if isinstance(node, Mapping):
            return node
        if isinstance(node, Blocker):
            raise HotplugError(node.what, why=node.why, hint=node.lifted_by or "", exit=Exit.FAILED)
        raise refusal(f"cannot read the node {self._host.name}", node, api.config)

    @staticmethod
    def _served(api: Api) -> Mapping[str, str]:
        served = asking.versions(api)
        if not isinstance(served, Mapping):
            raise refusal("cannot ask what the cluster has for single devices", served, api.config)
        return served

    @staticmethod
    def _rewrite(api: Api, name: str, change: Callable[[Object], Object | None], doing: str) -> None:
        """Read, change, write with the version read; again when somebody wrote in between. A node that is gone is done.

        A write without an answer may have been done: reading again tells.
        """
        path = f"{asking.NODES}/{part(name)}"
        while True:
            read = api.get(path)
            if isinstance(read, Refused) and read.reason == "NotFound" and doing == "uncordon":
                return
            if not isinstance(read, Mapping):
                raise refusal(f"cannot {doing} node {name}", read, api.config)
            if (wanted := change(read)) is None:
                return
            answer = api.replace(path + MANAGER, wanted)
            if isinstance(answer, Mapping):
                return
            if (isinstance(answer, Refused) and answer.reason not in ("Conflict", "NotFound")) or api.over:
                raise refusal(f"cannot {doing} node {name}", answer, api.config)
            api.pause(PAUSE_S)

    @staticmethod
    def _add(
        api: Api, served: Mapping[str, str], name: str, device: devices.Named, effect: str, why: str
    ) -> None:
        path = asking.rules_path(served)
        answer = api.create(path, devices.rule(served[devices.RULES], name, device, effect, why))
        if isinstance(answer, Mapping):
            return
        there = api.get(f"{path}/{name}")       # an earlier, interrupted turn made it, or this one without hearing so
        done = isinstance(there, Mapping) and devices.is_ours(there)
        if not done or at(there, "spec", "taint", "effect") != effect:
            raise refusal(f"cannot keep new work off {device}", answer, api.config)

    @staticmethod
    def _take_away(api: Api, served: Mapping[str, str], name: str) -> None:
        path = f"{asking.rules_path(served)}/{name}"
        while True:
            found = api.get(path)
            if isinstance(found, Mapping) and not devices.is_ours(found):
                return
            if isinstance(found, Mapping):
                found = api.delete(path, {
                    "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": at(found, "metadata", "uid")},
                })
            if isinstance(found, Mapping) or (isinstance(found, Refused) and found.reason == "NotFound"):
                return
            if not (isinstance(found, Refused) and found.reason == "Conflict") or api.over:
                raise refusal(f"cannot take away the DeviceTaintRule {name}", found, api.config)
            api.pause(PAUSE_S)

    def _no(self, work: Work, answer: Answer) -> str | None:
        """Why an eviction will not be, out of its answer. A pod that is not there has gone."""
        if isinstance(answer, Mapping) or (isinstance(answer, Refused) and answer.reason == "NotFound"):
            return None
        if asking.denied(answer):
            raise refusal(f"cannot evict pod {work.id}", answer, self._api.config)
        # A precondition that fails: the pod was replaced by another of its name between our two calls.
        if isinstance(answer, Refused) and answer.reason == "Conflict" and "UID" in answer.said:
            return None
        return answer.said if isinstance(answer, Refused) else f"Kubernetes does not answer: {answer.why}"


def _rules(known: Iterable[Mapping[str, str]], named: tuple[devices.Named, ...], token: str) -> list[dict[str, str]]:
    """One rule a device: those of an interrupted turn as they are called, more for devices that came since."""
    rules = [dict(one) for one in known]
    has = {(one["driver"], one["pool"], one["device"]) for one in rules}
    for device in named:
        if (device.driver, device.pool, device.device) not in has:
            rules.append({"name": f"hotplugctl-{token}-{len(rules)}", **device.selector})
    return rules


def _why(failed: Object | Refused | Unknown | Blocker) -> str:
    if isinstance(failed, Refused):
        return failed.said
    return failed.why if isinstance(failed, Unknown | Blocker) else "no answer"
