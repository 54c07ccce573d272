"""The walk from presence to listener for one device: each station ok, fault or unknown, from facts alone. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..model import (
    Check,
    Device,
    Dpc,
    Driver,
    Finding,
    Layer,
    Link,
    Maybe,
    Node,
    Port,
    Probed,
    Severity,
    SlotControl,
    State,
    Trit,
    Unknown,
    unseen,
)
from ..rules.facts import NO_PORT, look_up
from ..rules.judge import Subject
from .rank import reached
from .spoken import STATION_OF

VERSIONS = ("driver", "library", "firmware", "rocm", "cann")     # keys of the runtime facts (readers/runtime.py)

Answer = tuple[Trit, str]
NOT_REACHED = "not reached"
OFF_THE_BUS = f"{NOT_REACHED}: the bus does not show the card"
NO_CARD = "no card is there"


def walk(subject: Subject, findings: Sequence[Finding] = ()) -> tuple[Check, ...]:
    """The stations in the order in which a card passes them.

    `findings` stand about this very place: a station that one speaks of is at fault, whatever the facts alone tell.
    What a card or slot does not have fails nobody: it is ok, and the reason says so.
    """
    spoken = {
        STATION_OF[one.id]: one.title for one in reversed(findings)
        if one.id in STATION_OF and one.severity.at_least(Severity.WARNING)
    }
    return tuple(
        Check(name, layer, {Trit.YES: "ok", Trit.NO: "fault", Trit.UNKNOWN: "unknown"}[answer], because)
        for name, layer, station in STATIONS
        for answer, because in [_spoken_of(station(subject), spoken.get(name))]
    )


def _spoken_of(answer: Answer, title: str | None) -> Answer:
    return answer if title is None or answer[0] is Trit.NO else (Trit.NO, title)


def _slot_control(subject: Subject) -> Maybe[SlotControl]:
    port = subject.port
    return port.slot if isinstance(port, Port) else NO_PORT


def _slot_bit(name: str, lacks: str, yes: str, no: str, *, wanted: bool = True) -> Callable[[Subject], Answer]:
    """A bit of the slot's registers: YES when as wanted, and where the slot has no such sensor."""
    def station(subject: Subject) -> Answer:
        control = _slot_control(subject)
        if not isinstance(control, SlotControl):
            if subject.enumerated:
                return Trit.YES, "the bus shows the card"
            return Trit.UNKNOWN, control.why if isinstance(control, Unknown) else "not a hot-plug slot"
        value: Maybe[bool] = getattr(control, name)
        if isinstance(value, Unknown):
            return Trit.UNKNOWN, value.why
        if value is None:
            return Trit.YES, lacks
        return (Trit.YES, yes) if value is wanted else (Trit.NO, no)

    return station


def _power(subject: Subject) -> Answer:
    control = _slot_control(subject)
    if isinstance(control, SlotControl) and control.power_fault is True:
        return Trit.NO, "the slot reports a power fault"
    return _slot_bit("power_off", "this slot has no power controller: it is powered with the machine",
                     "the slot is powered", "the slot is powered off", wanted=False)(subject)


def _empty(subject: Subject) -> bool:
    """Is it a slot that itself says that nothing is in it?"""
    control = _slot_control(subject)
    return not subject.enumerated and isinstance(control, SlotControl) and control.presence is False


# Why a port keeps its link down, the cause before what it causes (PCIe base spec 6.2.11, 7.5.3.7).
def _kept_down(port: Port) -> str | None:
    if port.answering is False:
        return f"the port {port.address} does not answer"
    if isinstance(port.dpc, Dpc) and port.dpc.triggered is True:
        why = f": {port.dpc.reason}" if isinstance(port.dpc.reason, str) else ""
        return f"the port has contained an error (DPC{why}) and keeps the link down"
    if port.link_disabled is True:
        return "the port's link is disabled"
    if port.link_training is True and port.link_active is not True:
        return "the link is training and does not come up"
    return "the link is down" if port.link_active is False else None


def _link(subject: Subject) -> Answer:
    port, device = subject.port, subject.device
    if _empty(subject):
        return Trit.UNKNOWN, NO_CARD
    if isinstance(port, Port) and (down := _kept_down(port)) is not None:
        return Trit.NO, down
    link = device.link if device is not None else None
    if isinstance(link, Link) and isinstance(link.width, int) and link.width:
        limit, most = link.limit_width, link.max_width
        if isinstance(limit, int) and link.width < limit:
            return Trit.NO, f"the link runs x{link.width}, both ends can do x{limit}"
        if isinstance(most, int) and link.width < most and not isinstance(limit, int):
            return Trit.UNKNOWN, f"the link runs x{link.width} and the card can do x{most}; the slot was not looked at"
        return Trit.YES, f"the link is up, x{link.width}"
    if isinstance(port, Port) and port.link_active is True:
        return Trit.YES, "the link is active"
    return Trit.UNKNOWN, "the link's state could not be read"


def _enumeration(subject: Subject) -> Answer:
    device = subject.device
    if device is None and subject.address is not None and subject.port is None and not subject.bridge:
        return Trit.UNKNOWN, f"nothing is at {subject.address} that is known as an accelerator"
    if device is None:
        return Trit.UNKNOWN, NO_CARD if _empty(subject) else "no device was captured"
    if device.address is None:
        return Trit.NO, "the slot reports a card, the bus does not show it"
    if device.state is State.FAILED:
        return Trit.NO, "config space reads as all ones"
    return Trit.YES, f"found at {device.address}"


def _on_the_bus(station: Callable[[Subject, Device], Answer]) -> Callable[[Subject], Answer]:
    """A station that a card can only have reached when the bus shows it: below that, nothing is known of it."""
    def asked(subject: Subject) -> Answer:
        device = subject.device
        if device is None:
            return Trit.UNKNOWN, NO_CARD if _empty(subject) else "no device was captured"
        return (Trit.UNKNOWN, OFF_THE_BUS) if device.address is None else station(subject, device)

    return asked


def _bars(subject: Subject, device: Device) -> Answer:
    missing, assigned = look_up(subject, "bars.unassigned"), look_up(subject, "bars.assigned")
    if device.state is State.FAILED:
        return Trit.UNKNOWN, "config space reads as all ones"
    if isinstance(missing, Unknown):
        return Trit.UNKNOWN, missing.why
    if missing:
        return Trit.NO, f"{missing} BAR{'s have' if missing > 1 else ' has'} no address"
    if not assigned:
        return Trit.YES, "this card asks for no address"
    return Trit.YES, "its BAR has its address" if assigned == 1 else f"{assigned} BARs have their addresses"


def _driver(subject: Subject, device: Device) -> Answer:
    driver = device.driver
    if isinstance(driver, Unknown):
        return Trit.UNKNOWN, driver.why
    name = driver.name if isinstance(driver, Driver) else None
    if not isinstance(name, str):
        waits = look_up(subject, "runtime.remove_waits_in")
        return Trit.NO, f"its remove has not returned, it waits in {waits}" if isinstance(waits, str) \
            else "no driver is bound"
    profile = subject.profile
    if profile is None or profile.any_driver or name in profile.drivers:
        return Trit.YES, f"{name} is bound"
    if name in profile.passthrough:
        return Trit.YES, f"handed to a VM by {name}"
    return Trit.NO, f"{name} is bound, not {' or '.join(profile.drivers)}"


def _firmware(subject: Subject, device: Device) -> Answer:
    """From the profile's attribute, where it names one; the nodes are another station's."""
    profile = subject.profile
    wanted = profile.initialised if profile is not None else None
    missing = device.missing or ""
    if _handed(subject, device):
        return Trit.YES, "the VM that has the card starts it"
    if reached(device.rung, State.READY):
        return Trit.YES, "the card is ready"
    if not reached(device.rung, State.BOUND):
        return Trit.UNKNOWN, missing or "whether its firmware runs was not looked at"
    if wanted is None:
        return Trit.UNKNOWN, "nothing but its health check tells whether the firmware of such a card runs"
    if wanted.attribute in missing and not reached(device.rung, State.INITIALISED):
        return (Trit.NO if device.sure else Trit.UNKNOWN), missing
    return Trit.YES, f"{wanted.attribute} is {wanted.equals}, or its first job loads it"


def _handed(subject: Subject, device: Device) -> bool:
    """Has a VM the card?"""
    name = device.driver.name if isinstance(device.driver, Driver) else None
    return subject.profile is not None and name in subject.profile.passthrough


def _nodes(subject: Subject, device: Device) -> Answer:
    nodes: Maybe[tuple[Node, ...]] = device.nodes
    if isinstance(nodes, Unknown):
        return Trit.UNKNOWN, nodes.why
    if nodes:
        gone = [node.path for node in nodes if node.mode is None]
        unseen_node = next((node.mode for node in nodes if isinstance(node.mode, Unknown)), None)
        if gone:
            return Trit.NO, f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} missing"
        if unseen_node is not None:
            return Trit.UNKNOWN, unseen_node.why
        return Trit.YES, ", ".join(node.path for node in nodes)
    expected = look_up(subject, "profile.expects_nodes")
    if expected is None:
        return Trit.UNKNOWN, "no profile says whether it makes nodes"
    if not expected:
        return Trit.YES, "this card has no device nodes"
    if not reached(device.rung, State.BOUND):
        return Trit.UNKNOWN, f"{NOT_REACHED}: its driver makes them, and is not there"
    return Trit.NO, "its driver is bound, and no device node of it is there"


def _permissions(subject: Subject, device: Device) -> Answer:
    nodes = device.nodes
    if not isinstance(nodes, tuple) or not nodes:
        stop, because = _nodes(subject, device)
        return (Trit.YES, because) if stop is Trit.YES else (Trit.UNKNOWN, "no node to look at")
    groups = subject.profile.groups if subject.profile is not None else ()
    if not groups:
        return Trit.YES, "this card's nodes belong to no group of their own"
    closed = look_up(subject, "nodes.closed")
    if closed is True:
        node = next((n for n in nodes if n.group not in groups), nodes[0])
        return Trit.NO, f"{node.path} belongs to group {node.group}, mode {node.mode}"
    known = [node for node in nodes if isinstance(node.mode, str)]
    return (Trit.YES, f"group {' or '.join(groups)} may open the nodes") if known else (
        Trit.UNKNOWN, "the nodes could not be looked at")


def _runtime(subject: Subject, device: Device) -> Answer:
    """Its health check, and versions that must be equal and are not."""
    facts = device.runtime if isinstance(device, Probed) and isinstance(device.runtime, Mapping) else {}
    driver, library = facts.get("driver"), facts.get("library")
    if isinstance(driver, str) and isinstance(library, str) and driver != library:
        return Trit.NO, f"the loaded driver is {driver}, the library {library}: one of them is of another version"
    if _handed(subject, device):
        return Trit.YES, "the VM that has the card brings its own"
    versions = ", ".join(f"{name} {facts[name]}" for name in VERSIONS if isinstance(facts.get(name), str))
    if reached(device.rung, State.READY):
        check = subject.profile is not None and subject.profile.handshake is not None
        said = "its health check passed" if check else "no health check of such a card is known"
        return Trit.YES, f"{said}; {versions}" if versions else said
    if reached(device.rung, State.INITIALISED) and device.sure and device.missing is not None:
        return Trit.NO, device.missing
    return Trit.UNKNOWN, device.missing or "no health check was run"


def _listener(_: Subject, device: Device) -> Answer:
    holders = device.holders if isinstance(device, Probed) else None
    processes = {holder.pid for holder in holders if holder.pid} if isinstance(holders, tuple) else set()
    if processes:
        count = "a process has" if len(processes) == 1 else f"{len(processes)} processes have"
        return Trit.YES, f"{count} it open"
    hidden = unseen(holders)
    if hidden is not None or holders is None:
        why = f": {hidden.why}" if hidden is not None else ""
        return Trit.UNKNOWN, f"who uses it was not looked at{why}"
    return Trit.YES, "nobody has it open: it is free for work"


STATIONS: Sequence[tuple[str, Layer, Callable[[Subject], Answer]]] = (
    ("presence", Layer.HARDWARE, _slot_bit(
        "presence", "this slot has no presence sensor", "the slot reports a card", "the slot reports no card")),
    ("latch", Layer.HARDWARE, _slot_bit(
        "latch_open", "this slot has no latch sensor", "the latch is closed", "the latch is open", wanted=False)),
    ("power", Layer.HARDWARE, _power),
    ("link", Layer.HARDWARE, _link),
    ("enumeration", Layer.HARDWARE, _enumeration),
    ("bars", Layer.HARDWARE, _on_the_bus(_bars)),
    ("driver", Layer.DRIVER, _on_the_bus(_driver)),
    ("firmware", Layer.DRIVER, _on_the_bus(_firmware)),
    ("nodes", Layer.RUNTIME, _on_the_bus(_nodes)),
    ("permissions", Layer.RUNTIME, _on_the_bus(_permissions)),
    ("runtime", Layer.RUNTIME, _on_the_bus(_runtime)),
    ("listener", Layer.APPLICATION, _on_the_bus(_listener)),
)
