"""The exchange of a card, with a person at the rack: out, another in, in service again.

Each wait has no limit but the person's patience; Ctrl-C keeps the record, and the same command goes on from what is
seen then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import Exit, HotplugError
from ..model import Device, Done, Plan, State, Step
from . import words
from .back import BACKWARD, READY_S, reach
from .bench import own
from .plan import plan
from .run import Run, Talk, attempt, begin, locked, resumable
from .site import Card, Wish
from .survey import Survey
from .there import identity
from .undo import BACK
from .undoing import finish

GLANCE_S = 0.25
REMIND_S = 60.0
UP_S = 10.0             # a port that acts on presence by itself has begun by then
# What is compared, in the words of a person; the numbers a card may lack are left out where both have none.
COMPARED = (
    ("model", "model"), ("vendor_id", "vendor id"), ("device_id", "device id"), ("serial", "serial"), ("uuid", "UUID"),
    ("driver", "driver"), ("driver_version", "driver version"), ("firmware", "firmware"), ("link_width", "link width"),
    ("link_gts", "link GT/s"), ("bars", "BAR bytes"), ("numa_node", "NUMA node"),
)


def replace_card(survey: Survey, devices: Sequence[Device], wish: Wish, talk: Talk, *, yes: bool) -> Plan:
    """Drain, see the card go, see another come, wait until it is ready, compare, and lift the hold.

    Raises HotplugError: as a drain does; FAILED when the new card does not become ready (the hold is kept).
    """
    site = survey.site(devices, None)
    if len(site.cards) != 1:
        raise HotplugError("--replace takes one card", why=f"{len(site.cards)} are meant: {words.names(site)}",
                           hint="hotplugctl drain slot:N --replace, one after the other", exit=Exit.USAGE)
    drained: tuple[Done, ...] = ()
    if not exchanged(site.cards[0]):
        talk.say(f"the card to replace: {_identity(site.cards[0])}, in {_where(site.cards[0])}")
        drained = begin(survey, devices, wish, talk, yes=yes, more=by_hand(site.cards[0])).done
    with locked(site, "waiting for its replacement"):
        survey.reread(site)
        run = Run(survey, site, wish, talk)
        with resumable(run):
            run.look()
            _see_it_go(run)
            _see_another(run)
            new = _ready(run)
            old = own(run.site.cards[0]).card
            found = compared(old, identity(new))
            for line in sentences(found):
                talk.say(line)
            _accepted(run, found, yes=yes)
            back = finish(run)
    talk.say(f"replaced in {_where(site.cards[0])}: {_named(found['old'])} out, {_named(found['new'])} in; "
             "it is in service, and nothing is left to do")
    return replace(
        back, done=(*drained, *back.done),
        more={"replaced": {name: found[name] for name in ("old", "new", "differs")}})


def exchanged(card: Card) -> bool:
    """Was the card drained and taken out by an earlier run? What is in the slot now must not be drained again.

    A slot that was switched off shows a card again only when one was put in; after a mere `remove`, or in the middle of
    an undo, it may be the same one.
    """
    record = card.record
    if record is None or record.find(BACK, card.key) is not None:
        return False
    return record.pulled or (bool(card.pieces) and record.has("power"))


def by_hand(card: Card) -> list[Step]:
    """What an exchange goes on with, once the card is drained: a person's part, and what is looked at then."""
    pull = Step("pull", card.name, "a person takes the card out", None, card.key)
    return [
        *(() if card.record is not None and card.record.pulled else (pull,)),
        Step("insert", card.name, "a person puts another one in", None, card.key),
        Step("ready", card.name, "the new card comes up, and is compared with the one before", None, card.key),
        Step("lift", card.name, "the hold, and what schedulers were told", None, card.key),
    ]


def _identity(card: Card) -> str:
    record = card.record
    return _named(record.card if record is not None else identity(card.device))


def _named(card: Mapping[str, Any]) -> str:
    serial = f", serial {card['serial']}" if card.get("serial") else ""
    return f"{card.get('model') or card.get('device_id') or 'the card'}{serial}"


def _accepted(run: Run, found: Mapping[str, Any], *, yes: bool) -> None:
    """The same card again is no exchange; one of another kind is for a person to say. The hold is kept meanwhile."""
    same = found["old"].get("serial") is not None and "serial" not in found["differs"]
    other = bool({"vendor_id", "device_id"} & set(found["differs"]))
    if not same and not other:
        return
    what = "it is the card that was there before" if same else "it is a card of another kind"
    if other and yes:
        run.talk.say(f"note: {what}")
        return
    if not yes and run.talk.confirm(f"{what}; take it into service all the same?"):
        return
    card = _card(run)
    raise HotplugError(
        f"not exchanged: {what}, and the hold is kept", why=f"{_named(found['new'])} is in {_where(card)}",
        hint=f"hotplugctl drain {card.name} --power-off (to pull it again), or {words.undo(run.site)} (keeps it)",
        exit=Exit.FAILED)


def _card(run: Run) -> Card:
    return run.site.cards[0]


def _where(card: Card) -> str:
    """`riser 2, slot 5` as the configuration or SMBIOS has it, else the slot's name."""
    printed = card.slot.printed if card.slot is not None else None
    name = f"slot {card.slot.name}" if card.slot is not None else card.key
    return f"{printed} ({name})" if isinstance(printed, str) else name


def _see_it_go(run: Run) -> None:
    """Until the slot has been seen empty; it may have been while nobody looked."""
    record = own(_card(run))
    if record.pulled or _on_the_bus(run):
        return
    what = _named(record.card)
    if not _empty(run):
        run.talk.say(f"now pull the card: {what}, from {_where(_card(run))}; its light blinks")
    _until(run, lambda: _empty(run) or _on_the_bus(run), f"the card ({what}) is still in {_where(_card(run))}: pull it")
    run.survey.keep(replace(own(_card(run)), pulled=True))
    run.look()
    run.talk.say(f"{_where(_card(run))} reports no card any more")


def _see_another(run: Run) -> None:
    if not _on_the_bus(run):
        run.talk.say(f"now put the new card into {_where(_card(run))}; there is no hurry, and Ctrl-C is safe: the same "
                     "command goes on")
    _until(run, lambda: not _empty(run) or _on_the_bus(run),
           f"{_where(_card(run))} reports no card yet: put the new card in; if it is in, press the slot's button")
    run.talk.say(f"a card is in {_where(_card(run))}; waiting for it to be ready")


def _empty(run: Run) -> bool:
    slot = _card(run).slot
    return slot is not None and slot.presence is False


def _on_the_bus(run: Run) -> bool:
    return bool(_card(run).pieces)


def _until(run: Run, seen: Callable[[], bool], reminder: str) -> None:
    told = run.host.elapsed()
    while not seen():
        run.host.pause(GLANCE_S)
        run.look()
        if run.host.elapsed() - told >= REMIND_S:
            told = run.host.elapsed()
            run.talk.say(reminder)


def _ready(run: Run) -> Device:
    """The new card at READY. A slot whose port does not act on presence by itself is switched on by hand."""
    card = _card(run)
    reach(run.bench, card, State.IDENTIFIED, UP_S)
    run.look()
    if not _on_the_bus(run) and card.slot is not None and card.slot.power == "off":
        attempt(run, Step("power", card.name, "the slot waits to be switched on", None, card.key), BACKWARD)
    device = reach(run.bench, card, State.READY, READY_S)
    if device is not None and device.rung is State.READY:
        run.look()
        return device
    missing = device.missing if device is not None else "the bus does not show it"
    raise HotplugError(
        f"the new card in {_where(card)} is not ready after {READY_S:g} s, and the hold is kept", why=str(missing),
        hint=f"hotplugctl diagnose {card.name}; then: {words.again(run.site, run.wish)}", exit=Exit.FAILED,
        more={"plan": plan(run.site, run.wish)},
    )


def compared(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Old and new side by side, and what differs."""
    differs = {name: [old.get(name), new.get(name)] for name, _ in COMPARED if old.get(name) != new.get(name)}
    return {"old": dict(old), "new": dict(new), "differs": differs}


def sentences(found: Mapping[str, Any]) -> list[str]:
    """A comparison in words, the serial's verdict last: that is the question at the rack."""
    old, new, differs = found["old"], found["new"], found["differs"]
    lines = [f"{said}: {_text(old.get(name))} before, {_text(new.get(name))} now"
             for name, said in COMPARED if name in differs]
    same = [said for name, said in COMPARED if name not in differs and old.get(name) is not None]
    lines.append(f"the same as before: {', '.join(same)}" if same else "nothing is the same as before")
    alike = not {"vendor_id", "device_id"} & set(differs)
    if alike and (old.get("serial") is None or new.get("serial") is None):
        lines.append("not both cards tell a serial: whether it is another card cannot be told by it")
    elif alike and "serial" not in differs:
        lines.append("the serial is the same: it is the card that was there before")
    return lines


def _text(value: object) -> str:
    return "none" if value is None else str(value)


