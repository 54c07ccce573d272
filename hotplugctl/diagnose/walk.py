"""The walk from presence to listener for one device: each station ok, fault or unknown, from facts alone. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..model import Check, Driver, Layer, Link, Maybe, Node, Port, Probed, SlotControl, State, Trit, Unknown
from ..rules.facts import NO_DEVICE, NO_PORT, look_up
from ..rules.judge import Subject
from .rank import reached

Answer = tuple[Trit, str]


def walk(subject: Subject) -> tuple[Check, ...]:
    """The stations in the order in which a card passes them."""
    return tuple(
        Check(name, layer, {Trit.YES: "ok", Trit.NO: "fault", Trit.UNKNOWN: "unknown"}[answer], because)
        for name, layer, station in STATIONS
        for answer, because in [station(subject)]
    )


def _bool(value: Maybe[bool], yes: str, no: str, absent: str, *, wanted: bool = True) -> Answer:
    """YES when the fact is as wanted; a port that has no such sensor (None) fails nobody."""
    if isinstance(value, Unknown):
        return Trit.UNKNOWN, value.why
    if value is None:
        return Trit.UNKNOWN, absent
    return (Trit.YES, yes) if value is wanted else (Trit.NO, no)


def _slot_control(subject: Subject) -> Maybe[SlotControl]:
    port = subject.port
    return port.slot if isinstance(port, Port) else NO_PORT


def _slot_bit(name: str, sensor: str, yes: str, no: str, *, wanted: bool = True) -> Callable[[Subject], Answer]:
    def station(subject: Subject) -> Answer:
        control = _slot_control(subject)
        if isinstance(control, SlotControl):
            return _bool(
                getattr(control, name), yes, no, f"not expected of this card: its slot has no {sensor} sensor",
                wanted=wanted,
            )
        if subject.enumerated:
            return Trit.YES, "the bus shows the card"
        return Trit.UNKNOWN, control.why if isinstance(control, Unknown) else "not a hot-plug slot"

    return station


def _power(subject: Subject) -> Answer:
    control = _slot_control(subject)
    if isinstance(control, SlotControl) and control.power_fault is True:
        return Trit.NO, "the slot reports a power fault"
    return _slot_bit("power_off", "power", "the slot is powered", "the slot is powered off", wanted=False)(subject)


def _link(subject: Subject) -> Answer:
    port, device = subject.port, subject.device
    if isinstance(port, Port) and port.link_active is False:
        return Trit.NO, "the link is down"
    link = device.link if device is not None else None
    if isinstance(link, Link) and isinstance(link.width, int) and link.width:
        limit = link.limit_width
        if isinstance(limit, int) and link.width < limit:
            return Trit.NO, f"the link runs x{link.width}, both ends can do x{limit}"
        return Trit.YES, f"the link is up, x{link.width}"
    if isinstance(port, Port) and port.link_active is True:
        return Trit.YES, "the link is active"
    return Trit.UNKNOWN, "the link's state could not be read"


def _enumeration(subject: Subject) -> Answer:
    device = subject.device
    if device is None and subject.address is not None and subject.port is None and not subject.bridge:
        return Trit.UNKNOWN, f"nothing is at {subject.address} that is known as an accelerator"
    if device is None:
        return Trit.UNKNOWN, "no device was captured"
    if device.address is None:
        return Trit.NO, "the slot reports a card, the bus does not show it"
    if device.state is State.FAILED:
        return Trit.NO, "config space reads as all ones"
    return Trit.YES, f"found at {device.address}"


def _bars(subject: Subject) -> Answer:
    missing, assigned = look_up(subject, "bars.unassigned"), look_up(subject, "bars.assigned")
    if isinstance(missing, Unknown):
        return Trit.UNKNOWN, missing.why
    if missing:
        return Trit.NO, f"{missing} BAR{'s have' if missing > 1 else ' has'} no address"
    if not assigned:
        return Trit.YES, "it asks for no address"
    return Trit.YES, "its BAR has its address" if assigned == 1 else f"{assigned} BARs have their addresses"


def _driver(subject: Subject) -> Answer:
    driver = subject.device.driver if subject.device is not None else NO_DEVICE
    if isinstance(driver, Unknown):
        return Trit.UNKNOWN, driver.why
    name = driver.name if isinstance(driver, Driver) else None
    if not isinstance(name, str):
        return Trit.NO, "no driver is bound"
    profile = subject.profile
    if profile is None or profile.any_driver or name in profile.drivers:
        return Trit.YES, f"{name} is bound"
    if name in profile.passthrough:
        return Trit.YES, f"handed to a VM by {name}"
    return Trit.NO, f"{name} is bound, not {' or '.join(profile.drivers)}"


def _rung(rung: State, lacks: str) -> Callable[[Subject], Answer]:
    def station(subject: Subject) -> Answer:
        device = subject.device
        if device is None:
            return Trit.UNKNOWN, "no device was captured"
        if reached(device.rung, rung):
            return Trit.YES, f"the card is {device.rung.value}"
        if device.sure and device.missing is not None:
            return (Trit.NO if reached(device.rung, State.BOUND) else Trit.UNKNOWN), device.missing
        return Trit.UNKNOWN, device.missing or lacks

    return station


def _nodes(subject: Subject) -> Answer:
    nodes: Maybe[tuple[Node, ...]] = subject.device.nodes if subject.device is not None else None
    if isinstance(nodes, Unknown):
        return Trit.UNKNOWN, nodes.why
    if not nodes:
        return Trit.UNKNOWN, _without_nodes(subject, "no node of it was found")
    return Trit.YES, ", ".join(node.path for node in nodes)


def _without_nodes(subject: Subject, missing: str) -> str:
    """Why there is no node: nobody knows the card, its kind makes none, or it is missing."""
    expected = look_up(subject, "profile.expects_nodes")
    if expected is None:
        return "no device was captured" if subject.device is None else "no profile says whether it makes nodes"
    return missing if expected else "not expected of this card: it makes no nodes"


def _permissions(subject: Subject) -> Answer:
    nodes = subject.device.nodes if subject.device is not None else None
    if not isinstance(nodes, tuple) or not nodes:
        return Trit.UNKNOWN, _without_nodes(subject, "no node to look at")
    groups = subject.profile.groups if subject.profile is not None else ()
    if not groups:
        return Trit.UNKNOWN, "not expected of this card: no group is known that should have its nodes"
    wrong = [n for n in nodes if isinstance(n.group, str) and n.group not in groups and str(n.mode)[-1:] in ("0", "4")]
    if wrong:
        return Trit.NO, f"{wrong[0].path} belongs to group {wrong[0].group}, mode {wrong[0].mode}"
    return Trit.YES, f"group {' or '.join(groups)} may open the nodes"


def _listener(subject: Subject) -> Answer:
    holders = subject.device.holders if isinstance(subject.device, Probed) else None
    processes = {holder.pid for holder in holders if holder.pid} if isinstance(holders, tuple) else set()
    if processes:
        count = "a process has" if len(processes) == 1 else f"{len(processes)} processes have"
        return Trit.YES, f"{count} it open"
    return Trit.UNKNOWN, "who listens cannot be seen from here"


STATIONS: Sequence[tuple[str, Layer, Callable[[Subject], Answer]]] = (
    ("presence", Layer.HARDWARE,
     _slot_bit("presence", "presence", "the slot reports a card", "the slot reports no card")),
    ("latch", Layer.HARDWARE,
     _slot_bit("latch_open", "latch", "the latch is closed", "the latch is open", wanted=False)),
    ("power", Layer.HARDWARE, _power),
    ("link", Layer.HARDWARE, _link),
    ("enumeration", Layer.HARDWARE, _enumeration),
    ("bars", Layer.HARDWARE, _bars),
    ("driver", Layer.DRIVER, _driver),
    ("firmware", Layer.DRIVER, _rung(State.INITIALISED, "whether its firmware runs was not looked at")),
    ("nodes", Layer.RUNTIME, _nodes),
    ("permissions", Layer.RUNTIME, _permissions),
    ("runtime", Layer.RUNTIME, _rung(State.READY, "no health check was run")),
    ("listener", Layer.APPLICATION, _listener),
)
