"""The ladder: how far a device has come up, and what the next rung lacks. Pure.

Two rules for whoever edits this file: a standing is computed from facts every time and never carried along, and
UNKNOWN stops the climb; it never counts as reached. The rungs and what each asks stand in `RUNGS`, in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from .model import Bar, Device, Held, LogLine, Maybe, Node, Port, Profile, Standing, State, Unknown

NO_DRIVER = "no driver is bound"


@dataclass(frozen=True, slots=True)
class HealthRecord:
    """The remembered result of a second handshake. `age_s` is seconds since; `current`: same boot, card and driver."""

    passed: bool
    age_s: float
    current: bool
    said: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that `stand` judges by. `kernel_says` holds the kernel's last word on each rung, if it had one."""

    device: Device
    profile: Profile
    answering: Maybe[bool] = True
    port: Port | None = None
    firmware: Maybe[str] = None
    health: Maybe[HealthRecord] = None
    readiness: str | None = None
    held: Held | None = None
    hold_complete: bool = False
    kernel_says: Mapping[State, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lacks:
    """A rung is not reached: why, and whether that is known or could not be looked at."""

    why: str
    sure: bool = True


Answer = Lacks | None  # None = the rung is reached


def stand(facts: Facts) -> Standing:
    """How far up the ladder the device is, and what the next rung lacks."""
    rung, lacks = _climb(facts)
    state = rung
    if facts.held is not None:
        state = State.DRAINED if facts.hold_complete else State.DRAINING
    return Standing(state, rung, facts.held, lacks.why if lacks else None, lacks is None or lacks.sure)


def _climb(facts: Facts) -> tuple[State, Answer]:
    if facts.device.address is not None and facts.answering is False:
        return State.FAILED, Lacks("it has fallen off the bus: config space reads all ones")
    reached = State.DETECTED
    for rung, ask in RUNGS:
        lacks = ask(facts)
        if lacks is not None:
            said = facts.kernel_says.get(rung)
            why = f"{rung.value}: {lacks.why}" + (f"; kernel: {said}" if said else "")
            return reached, Lacks(why, lacks.sure)
        reached = rung
    return reached, None


def _identified(facts: Facts) -> Answer:
    if facts.device.address is not None:
        return None
    return Lacks("the slot has a card that the bus does not show; " + port_says(facts.port))


def _mapped(facts: Facts) -> Answer:
    bars = facts.device.bars
    if isinstance(bars, Unknown):
        return Lacks(f"could not look at its BARs ({bars.why})", sure=False)
    lost = [bar for bar in bars or () if bar.assigned is False]
    absent = [need.index for need in facts.profile.bars if need.index not in {bar.index for bar in bars or ()}]
    if lost or absent:
        return Lacks(" and ".join([_no_address(bar) for bar in lost] + [f"BAR {i} is missing" for i in absent]))
    if isinstance(facts.answering, Unknown) and facts.device.driver is None:
        # A BAR without an address shows in its register alone; only a bound driver proves that all have theirs.
        return Lacks(f"could not look at its BAR registers ({facts.answering.why})", sure=False)
    small = [
        need.index for need in facts.profile.bars for bar in bars or ()
        if bar.index == need.index and isinstance(bar.size, int) and bar.size < need.min_size
    ]
    return Lacks(f"BAR {small[0]} is smaller than the card needs") if small else None


def _no_address(bar: Bar) -> str:
    size = f" ({human_size(bar.size)})" if isinstance(bar.size, int) else ""
    return f"BAR {bar.index}{size} has no address"


def _bound(facts: Facts) -> Answer:
    driver, profile = facts.device.driver, facts.profile
    if isinstance(driver, Unknown):
        return Lacks(f"could not look at its driver ({driver.why})", sure=False)
    name = driver.name if driver is not None else None
    if isinstance(name, Unknown):
        return Lacks(f"could not look at its driver ({name.why})", sure=False)
    if name is None:
        if not profile.drivers and not profile.any_driver:
            return Lacks(f"{NO_DRIVER}, and none is known for it")
        return Lacks(NO_DRIVER + (f" (expected {' or '.join(profile.drivers)})" if profile.drivers else ""))
    if name in profile.drivers or profile.any_driver or name in profile.passthrough:
        return None
    return Lacks(f"{name} has it, expected {' or '.join(profile.drivers) or 'another driver'}")


def _initialised(facts: Facts) -> Answer:
    driver, profile = facts.device.driver, facts.profile
    if driver is not None and not isinstance(driver, Unknown) and driver.name in profile.passthrough:
        return Lacks("handed to a VM")
    lazy = (facts.readiness or profile.readiness) == "lazy"
    if profile.initialised is not None and not lazy:
        want = profile.initialised
        if isinstance(facts.firmware, Unknown):
            return Lacks(f"could not look at {want.attribute} ({facts.firmware.why})", sure=False)
        if facts.firmware is None:
            return Lacks(f"the driver shows no {want.attribute}")
        if facts.firmware.casefold() != want.equals.casefold():  # kernels differ from their own ABI documents in case
            return Lacks(f"{want.attribute} is {facts.firmware!r}, not {want.equals!r}")
    return _nodes_usable(facts.device.nodes, profile)


def _nodes_usable(nodes: Maybe[tuple[Node, ...]], profile: Profile) -> Answer:
    """Device nodes there, with an owner and mode by which those who should can open them."""
    if not profile.classes and not profile.nodes:
        return None
    if isinstance(nodes, Unknown):
        return Lacks(f"could not look at its device nodes ({nodes.why})", sure=False)
    if not nodes:
        return Lacks("it has no device node")
    for node in nodes:
        if isinstance(node.mode, Unknown):
            return Lacks(f"could not look at {node.path} ({node.mode.why})", sure=False)
        if node.mode is None:
            return Lacks(f"the node {node.path} is missing")
        everyone = int(node.mode, 8) & 0o006 == 0o006
        if profile.groups and not everyone and node.group not in profile.groups:
            return Lacks(f"{node.path} belongs to group {node.group}, expected {' or '.join(profile.groups)}")
    return None


def _ready(facts: Facts) -> Answer:
    check, health = facts.profile.handshake, facts.health
    if check is None:
        return None
    if isinstance(health, Unknown):
        return Lacks(f"could not look at its last health check ({health.why})", sure=False)
    if health is None or not health.current:
        return Lacks("its health check has not run since it came up", sure=False)
    if health.age_s > check.max_age:
        return Lacks(f"its last health check is {human_time(health.age_s)} old", sure=False)
    return None if health.passed else Lacks(f"its health check failed: {health.said}")


RUNGS: tuple[tuple[State, Callable[[Facts], Answer]], ...] = (
    (State.IDENTIFIED, _identified),
    (State.MAPPED, _mapped),
    (State.BOUND, _bound),
    (State.INITIALISED, _initialised),
    (State.READY, _ready),
)


# Why a card in a slot does not show on the bus: asked in the order in which a slot comes up (PCIe base spec 6.7.1).
_PORT_ASKS: tuple[tuple[Callable[[Port], Maybe[bool]], str], ...] = (
    (lambda p: _slot_bit(p, "latch_open"), "the slot's latch is open"),
    (lambda p: _slot_bit(p, "power_fault"), "the slot reports a power fault"),
    (lambda p: _slot_bit(p, "power_off"), "the slot's power is off"),
    (lambda p: p.link_disabled, "the port's link is disabled"),
    (lambda p: None if p.dpc is None else p.dpc if isinstance(p.dpc, Unknown) else p.dpc.triggered,
     "the port has contained an error (DPC) and keeps the link down"),
    (lambda p: p.link_training, "the link is training and does not come up"),
    (lambda p: None if p.link_active is None else p.link_active if isinstance(p.link_active, Unknown)
     else not p.link_active, "the link is down"),
)


def port_says(port: Port | None) -> str:
    """The first reason the port's registers give for showing no card, in words."""
    if port is None:
        return "no port above it can be asked"
    if port.answering is False:
        return f"the port {port.address} does not answer"
    answers = [(ask(port), why) for ask, why in _PORT_ASKS]
    for answer, why in answers:
        if answer is True:
            return why
    if any(isinstance(answer, Unknown) for answer, _ in answers):
        return "the port's registers cannot be read (needs root)"
    return "the link is up and nothing answers at it"


def _slot_bit(port: Port, name: str) -> Maybe[bool]:
    slot = port.slot
    return slot if slot is None or isinstance(slot, Unknown) else getattr(slot, name)


def human_size(size: int) -> str:
    """`64 GiB`: powers of 1024, as memory is counted."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size} {unit}"
        size = size // 1024 if size % 1024 == 0 else round(size / 1024)
    return str(size)


def human_time(seconds: float) -> str:
    """`12 min`, `3 h`: as people say an age."""
    for limit, unit, word in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {word}"
    return f"{seconds / 86400:.0f} days"




# The kernel's own words on why a rung is not reached; the first row that matches says it best.
_SAYS: tuple[tuple[State, re.Pattern[str]], ...] = (
    (State.IDENTIFIED, re.compile(
        r"[Ss]lot ?\([^)]*\):? (?:Power fault|Latch open|Cannot train link|No link|No device)")),
    (State.IDENTIFIED, re.compile(r"Cannot add device at|No bus number available")),
    (State.MAPPED, re.compile(r"can't assign; no space|no space for")),
    (State.MAPPED, re.compile(r"failed to assign|can't assign")),
    (State.BOUND, re.compile(r"firmware load for .* failed with error|[Ff]irmware .*(?:not found|missing)")),
    (State.BOUND, re.compile(r"not assigned; can't enable|can't enable device|can't reserve")),
    (State.BOUND, re.compile(r"probe (?:of \S+|with driver \S+) failed with error -\d+")),
    (State.BOUND, re.compile(r"probe rejects match|probe of \S+ rejects match")),
)
_ENUMERATED = re.compile(r"\[[0-9a-f]{4}:[0-9a-f]{4}\] type ")
_PREFIX = re.compile(r"^(?:\S+ )?[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]: ")


def kernel_says(lines: Iterable[LogLine], address: str | None) -> dict[State, str]:
    """The kernel's last word on each rung, from the lines about this device since it was last enumerated.

    Without an address all lines count: those of the port above a card that the bus does not show.
    """
    own = [line.text for line in lines if address is None or line.address == address]
    start = max((n for n, text in enumerate(own) if _ENUMERATED.search(text)), default=0)
    said: dict[State, str] = {}
    for rung, pattern in _SAYS:
        found = next((text for text in reversed(own[start:]) if pattern.search(text)), None)
        if found is not None and rung not in said:
            said[rung] = _PREFIX.sub("", found)
    return said


def enumerations(lines: Iterable[LogLine], address: str) -> list[float]:
    """Seconds since boot at each of which the kernel said that it found a device at this address."""
    return [
        line.monotonic for line in lines
        if line.address == address and line.monotonic is not None and _ENUMERATED.search(line.text)
    ]


def enumerated_at(lines: Iterable[LogLine], address: str) -> float | None:
    """The last of them; None when no line tells."""
    return max(enumerations(lines, address), default=None)


_LOST = re.compile(r"BAR (?P<index>[0-5])[: ].*\[mem size (?P<size>0x[0-9a-f]+)")


def lost_bar_sizes(lines: Iterable[LogLine], address: str) -> dict[int, int]:
    """Sizes of BARs that found no place: the kernel log alone still knows them."""
    own = (_LOST.search(line.text) for line in lines if line.address == address)
    return {int(match["index"]): int(match["size"], 16) for match in own if match}
