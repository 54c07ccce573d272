"""The whole of `diagnose`: evidence and rules in, one Diagnosis out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..model import (
    Device,
    DeviceVerdict,
    Diagnosis,
    Finding,
    Machine,
    Profile,
    RootCause,
    Rule,
    State,
    Unknown,
)
from ..rules.hearing import must_hear, of_machine
from ..rules.judge import Subject
from . import tree
from .findings import HELD_EXPLAINS, Bound, Judged, judge_place, missing_rung
from .lacking import commands
from .rank import TOPMOST, Ranked, fold, root_of, worst
from .report import collect_next, layer_states
from .scene import KERNEL_LOG, scene
from .subjects import Place
from .timeline import timeline
from .topology import topology
from .unexplained import unexplained
from .walk import walk


@dataclass
class _Examined:
    """A place with all that was found out about it."""

    place: Place
    subject: Subject
    judged: Judged
    root: Ranked | None = None


def diagnose(
    machine: Machine, rules: Sequence[Rule], taxonomy: Mapping[str, RootCause], profiles: Sequence[Profile], *,
    named: tuple[str, ...] = (), live: bool, held_explains: frozenset[str] = HELD_EXPLAINS,
) -> Diagnosis:
    """The root cause of each device and of the machine, or an honest unknown.

    `named`: addresses, or `slot:NAME`, to look at; empty = all. `live`: the machine was probed (live or a bundle), so
    that its facts are of one moment; else it is an archive whose lines and listings are all there is.
    """
    seen = scene(machine, rules, profiles, named=named, live=live)
    lines, grown = seen.lines, seen.tree
    bound = [(rule, must_hear(rule.when), of_machine(rule.when)) for rule in rules]
    examined = [
        _examine(place, subject, bound, taxonomy, grown, live=live, held=held_explains)
        for place, subject in seen.judged
    ]
    ranked = fold(_with_dead_bridges([one for e in examined for one in e.judged.ranked], grown))
    for e in examined:
        own = [one for one in ranked if one.place == e.place.address]
        e.judged.ranked = own
        e.root = root_of(own, missing_rung(e.subject, live=live))
    root = worst(e.root for e in examined if e.root is not None)
    explained = frozenset(order for e in examined for order in e.judged.explained)
    troubles = frozenset(order for e in examined for order in e.judged.troubles)
    odd = unexplained(lines, explained, troubles, [(e.place, e.judged.settled) for e in examined])
    pending = [] if live else [step for e in examined for step in _pending(e)]
    verdict = _verdict(examined, root, live=live, open_end=bool(odd or pending))
    findings = sorted((one for e in examined for one in e.judged.ranked), key=_prominence)
    shown = [e for e in examined if _shown(e, live=live)]
    first = _walked(examined, root)
    checks = walk(first.subject, [one.finding for one in first.judged.ranked]) if live and first is not None else ()
    absent = [e.place.address or "" for e in examined if live and e.place.named and _nothing_there(e.place)]
    stands = {(one.finding.id, one.finding.address) for one in ranked}
    ruled_out = tuple(out for e in examined for out in e.judged.ruled_out
                      if (out.root_cause, out.address) not in stands)
    devices = tuple(_device_verdict(e, live=live) for e in shown)
    told = timeline(lines, seen.heard, rules, seen.places, [one.finding for one in findings], ruled_out,
                    _relevant(examined, grown), machine, KERNEL_LOG, live=live)
    return Diagnosis(
        verdict=verdict,
        root_cause=root.finding if root is not None else None,
        devices=devices,
        findings=tuple(one.finding for one in findings),
        layers=layer_states([one for e in examined for one in e.judged.ranked],
                            [proof for e in examined if not live or _looked_at(e) for proof in e.judged.fine],
                            pending, () if verdict == "healthy" else odd),
        ruled_out=ruled_out,
        unchecked=tuple(out for e in shown if e.place.probed for out in e.judged.unchecked),
        timeline=told.moments,
        collect_next=collect_next(
            machine, verdict, root.finding if root is not None else None, odd, live=live,
            profile=first.place.profile if first is not None else None, absent=absent,
            lacking=commands(checks, first.subject) if first is not None else (),
        ),
        checks=checks,
        clocks=told.clocks,
        timeline_left_out=told.left_out,
        topology=topology(machine, grown, devices, root.finding if root is not None else None),
    )


def _relevant(examined: Sequence[_Examined], grown: tree.Tree) -> frozenset[str]:
    """The accelerators, whatever was named or has a finding or an open end, and the ports above them."""
    places = [
        e.place.address for e in examined
        if e.place.accelerator or e.place.named or e.judged.ranked or (e.place.slot_name and e.judged.begun)
    ]
    return frozenset(one for place in places if place is not None for one in (place, *grown.above(place)))


def _walked(examined: Sequence[_Examined], root: Ranked | None) -> _Examined | None:
    """The place to walk through: the first named, else the one at fault, else the first card that is not in order."""
    cards = [e for e in examined if _looked_at(e)]
    at_fault = [e for e in examined if root is not None and e.root is root and e.place.address is not None]
    choices = (
        [e for e in at_fault if e.place.named],
        [e for e in examined if e.place.named],
        at_fault,
        [e for e in cards if not _in_order(e.subject)],
        cards,
    )
    return next((choice[0] for choice in choices if choice), None)


def _examine(
    place: Place, subject: Subject, rules: Sequence[Bound], taxonomy: Mapping[str, RootCause], grown: tree.Tree, *,
    live: bool, held: frozenset[str],
) -> _Examined:
    where = place.address if place.address is not None and not place.address.startswith("slot:") else None
    ports = grown.above(where) if where is not None else ()
    judged = judge_place(
        subject, rules, taxonomy, ports=ports, accelerator=place.prominent,
        live=live, held_explains=held, where=where, whole=place.whole,
        stranger=place.stranger if not live else None,      # of a machine looked at, strangers are no places at all
        drive=place.drive,
    )
    return _Examined(place, subject, judged)


def _with_dead_bridges(ranked: list[Ranked], grown: tree.Tree) -> list[Ranked]:
    """A dead bridge has lost its bus numbers; every dead thing on a higher bus may be below it, so it is put there."""
    dead = [one for one in ranked if one.finding.id in TOPMOST and one.place in grown.bridges]
    return [
        replace(one, ports=(*one.ports, *(
            bridge.place for bridge in dead if bridge.place is not None and _higher_bus(one.place, bridge.place)
        ))) if one.finding.id in TOPMOST else one
        for one in ranked
    ]


def _higher_bus(lower: str | None, upper: str) -> bool:
    if lower is None or lower.count(":") != 2:
        return False
    (domain, bus, _), (other, above, _) = lower.split(":"), upper.split(":")
    return domain == other and bus > above


def _pending(examined: _Examined) -> list[tuple[Rule, str]]:
    """The steps that began and that no later line shows done: a card announced, a driver at work."""
    place, judged = examined.place, examined.judged
    captured = place.probed and not place.bridge

    def done(rule: Rule, order: int) -> bool:
        if rule.blocks is State.IDENTIFIED:
            return captured or (not place.bridge and place.spoke > order)
        handed_over = place.device is not None and _handed_over(place.device, place.profile)
        return place.bound or judged.settled > order or judged.at_work or handed_over or not place.accelerator

    return [
        (rule, title) for rule, title, order in judged.begun if order > judged.ended and not done(rule, order)
    ]


def _nothing_there(place: Place) -> bool:
    """Is it an address at which neither a card nor a port was found?"""
    return place.device is None and place.port is None and place.slot is None and not place.bridge


def _verdict(examined: Sequence[_Examined], root: Ranked | None, *, live: bool, open_end: bool) -> str:
    """fault, healthy or unknown, as the contract has it.

    `open_end`: something in the evidence is not explained, or did not come to its end.
    """
    if root is not None:
        return "fault"
    probed = [e for e in examined if _looked_at(e)]
    if live:
        good = bool(probed) and all(_in_order(e.subject) for e in probed)
        return "healthy" if good else "unknown"
    progress = any(e.judged.fine for e in examined)
    return "healthy" if progress and not open_end else "unknown"


def _looked_at(examined: _Examined) -> bool:
    """Is the place a card, seen on the bus or only by its slot? An empty slot is nobody's fault."""
    device = examined.place.device
    return device is not None and device.state is not State.ABSENT


def _in_order(subject: Subject) -> bool:
    """Ready, held by our own drain, or handed to a VM."""
    device = subject.device
    if device is None:
        return False
    return device.state is State.READY or device.held is not None or _handed_over(device, subject.profile)


def _handed_over(device: Device, profile: Profile | None) -> bool:
    driver = device.driver
    if profile is None or driver is None or isinstance(driver, Unknown):
        return False
    return isinstance(driver.name, str) and driver.name in profile.passthrough


def _shown(examined: _Examined, *, live: bool) -> bool:
    """Is the place worth a row: a device that was probed, one with a finding or an open end, or one that was named?"""
    place = examined.place
    known = _looked_at(examined) and (place.accelerator or bool(examined.judged.fine))
    known = known or (not live and place.slot_name is not None and bool(_pending(examined)))
    return place.address is not None and (place.named or bool(examined.judged.ranked) or known)


def _device_verdict(examined: _Examined, *, live: bool) -> DeviceVerdict:
    place, root = examined.place, examined.root
    if root is not None:
        verdict = "fault"
    elif live and place.device is not None:
        verdict = "healthy" if _in_order(examined.subject) else "unknown"
    elif any(one.finding.follows_from is not None for one in examined.judged.ranked):
        verdict = "fault"
    else:
        verdict = "healthy" if examined.judged.fine and not _pending(examined) else "unknown"
    # A slot that shows no card has no device address, though its findings name the port (bdf_rule).
    shows_none = place.bridge and place.slot_name is not None
    address = None if shows_none else place.device.address if place.device is not None else place.address
    return DeviceVerdict(address, place.slot_name, verdict, root.finding if root is not None else None)


def _prominence(one: Ranked) -> tuple[bool, int, int]:
    finding: Finding = one.finding
    return finding.follows_from is not None, -finding.severity.weight, one.order
