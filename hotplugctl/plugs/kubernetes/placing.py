"""From what was seen to what a plan says: where the card is, whether it is closed, who is on it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Accelerator, Blocker, Maybe, Placement, Trit, Unknown, Work
from . import devices, nodes, pods, recognise
from .api import Object, Refused, unknown
from .asking import Failed, Seen, denied
from .kubelet import Allotment, Given

NAME = "kubernetes"


def unanswered(where: str, why: Failed | Blocker) -> Placement:
    """Nothing is known, and nothing may be done."""
    if isinstance(why, Blocker):
        blocker, answer = why, unknown(Refused("", why.what))
    else:
        answer = unknown(why)
        what = "Kubernetes does not permit it" if denied(why) else "Kubernetes does not answer"
        blocker = Blocker(what, answer.why, "--scheduler none")
    return Placement(scheduler=NAME, where=where, closed=answer, work=answer, blockers=(blocker,))


def placed(card: Accelerator, scope: str, seen: Seen, token: str | None, ours: frozenset[str]) -> Placement:
    """What is known of a card. `token` and `ours` are those of a cordon of ours, and the names of its rules."""
    cordoned = nodes.is_cordoned(seen.node)
    warnings = list(_doubts(card, seen))
    blockers: list[Blocker] = []
    closed: Maybe[bool] = cordoned
    if scope == "device":
        mine = _has_rule(seen, ours)
        closed, blockers = _device_closed(seen)
        if cordoned and blockers:       # no rule can be made, and none is needed
            closed, blockers = True, []
    else:
        mine = nodes.has_token(seen.node, token)
    if not _places(seen):
        closed, blockers = None, []
    if closed is True and not mine and cordoned and not nodes.has_token(seen.node, token):
        warnings.append(f"node {nodes.name_of(seen.node)} is cordoned, and not by this drain: it may be opened again")
    work = _work(card, seen)
    if isinstance(seen.pods, Refused | Unknown):
        blockers.append(unanswered("", seen.pods).blockers[0])
    return Placement(
        scheduler=NAME, where=_where(card, seen), closed=closed, ours=mine, work=work,
        blockers=tuple(dict.fromkeys(blockers)), warnings=tuple(warnings),
    )


def _device_closed(seen: Seen) -> tuple[Maybe[bool], list[Blocker]]:
    served, named, rules = seen.served, seen.named, seen.rules
    if isinstance(served, Refused | Unknown):
        return _unread(served)
    if isinstance(named, Refused | Unknown):
        return _unread(named)
    if isinstance(rules, Refused | Unknown):
        return _unread(rules)
    if devices.RULES not in served:
        why = "the cluster has no DeviceTaintRule (resource.k8s.io, feature gate DRADeviceTaintRules)"
    elif not named:
        why = f"it is in no ResourceSlice of node {nodes.name_of(seen.node)}: a device plugin takes no orders"
    else:
        return all(one.tainted or any(devices.closes(rule, one) for rule in rules) for one in named), []
    return False, [Blocker("only the whole node can be cordoned", why, "--scope node")]


def _unread(asked: Failed) -> tuple[Unknown, list[Blocker]]:
    answer = unknown(asked)
    if denied(asked):
        return answer, [Blocker("the rules of single devices may not be read", answer.why, "--scope node")]
    return answer, [Blocker("Kubernetes does not answer", answer.why, "--scheduler none")]


def _has_rule(seen: Seen, ours: frozenset[str]) -> bool:
    return isinstance(seen.rules, tuple) and any(
        nodes.name_of(rule) in ours and devices.is_ours(rule) for rule in seen.rules
    )


def _places(seen: Seen) -> bool:
    """May the cluster place anything on any card of this node? Whatever could not be looked at may."""
    known = isinstance(seen.given, Given) and isinstance(seen.named, tuple) and not isinstance(seen.answered, Unknown)
    return not known or bool(
        (isinstance(seen.named, tuple) and seen.named) or nodes.extended(seen.node)
        or (isinstance(seen.given, Given) and (seen.given.allotments or any((seen.given.offered or {}).values())))
        or (isinstance(seen.answered, Given) and (seen.answered.allotments or seen.answered.claimed))
    )


def _where(card: Accelerator, seen: Seen) -> str:
    node = f"node {nodes.name_of(seen.node)}"
    if isinstance(seen.named, tuple) and seen.named:
        return ", ".join((node, *map(str, seen.named)))
    found = recognise.offered(card, seen.given.offered or {}) if isinstance(seen.given, Given) else None
    return f"{node}, resource {found[0]}, device {found[1]}" if found else node


def _work(card: Accelerator, seen: Seen) -> Maybe[tuple[Work, ...]]:
    for asked in (seen.pods, seen.given, seen.named, seen.holders):
        if isinstance(asked, Refused | Unknown):
            return unknown(asked)
    return tuple(pods.work(pod) for pod, has in _pods(card, seen) if has is Trit.YES)


def _pods(card: Accelerator, seen: Seen) -> Iterator[tuple[Object, Trit]]:
    """The pods that have not ended, and whether each has the card."""
    for pod in seen.pods if isinstance(seen.pods, tuple) else ():
        if not pods.finished(pod):
            yield pod, _has(card, seen, pod)


def _has(card: Accelerator, seen: Seen, pod: Object) -> Trit:
    name = pods.name_of(pod)
    if isinstance(seen.holders, frozenset) and name in seen.holders:
        return Trit.YES
    kept = seen.given if isinstance(seen.given, Given) else Given()
    told = seen.answered if isinstance(seen.answered, Given) else Given()
    if isinstance(seen.named, tuple) and any(
        one.pod == name and (one.driver, one.pool, one.device) in {(d.driver, d.pool, d.device) for d in seen.named}
        for one in told.claimed
    ):
        return Trit.YES
    entries = [one for one in kept.allotments if one.pod in pods.names(pod)]
    known = {one.resource for one in entries}       # there the checkpoint tells more than the kubelet's answer
    entries += [one for one in told.allotments if one.pod == name and one.resource not in known]
    return max((recognise.has(card, one) for one in entries), key=_weight, default=Trit.NO)


def _weight(trit: Trit) -> int:
    return trit.value


def _doubts(card: Accelerator, seen: Seen) -> Iterator[str]:
    resources = {one.resource for one in _allotments(seen) if recognise.has(card, one) is Trit.YES}
    if isinstance(seen.given, Given) and (found := recognise.offered(card, seen.given.offered or {})):
        resources.add(found[0])
    for pod, has in _pods(card, seen):
        name = pods.name_of(pod)
        if has is Trit.UNKNOWN:
            yield f"pod {name} has a device that may be this card: the names do not tell"
        elif has is Trit.YES and (why := pods.comes_back(pod)):
            yield f"evicting pod {name} does not help: {why}"
        elif has is Trit.NO and any(pods.waiting_for(pod, resource) for resource in sorted(resources)):
            yield f"pod {name} is about to start on this node, and may get this card"
    if isinstance(seen.pods, tuple):
        known = {name for pod in seen.pods for name in pods.names(pod)}
        for one in _allotments(seen):
            if one.pod not in known and recognise.has(card, one) is Trit.YES:
                yield f"the kubelet still counts the card to pod {one.pod}, which the API server does not know"
    if isinstance(seen.answered, Unknown):
        yield f"the kubelet's PodResources did not answer ({seen.answered.why}): its checkpoint was read"


def _allotments(seen: Seen) -> tuple[Allotment, ...]:
    return seen.given.allotments if isinstance(seen.given, Given) else ()
