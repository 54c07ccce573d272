"""From the words of the command line to a drain: what is wished, which places are meant, whom to ask."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from .. import select
from ..errors import Exit, HotplugError
from ..host.live import Live
from ..look import Look
from ..model import Device, Machine, Plan
from ..plugs import schedulers
from . import words
from .plan import plan
from .record import scheduler_of
from .refusing import unreadable
from .replacing import by_hand, exchanged
from .site import Site, Wish
from .survey import Survey
from .undo import BACK, undo

FORESEE_S = 10.0
WAYS = ("auto", "none", *schedulers.SCHEDULERS)


def checked(wish: Wish, *, devices: Sequence[str], filters: select.Filters, undoing: bool, status: bool) -> Wish:
    """The wish, if it makes sense. Raises HotplugError(USAGE)."""
    if wish.scheduler not in WAYS:
        raise _wrong(f"--scheduler {wish.scheduler!r}", f"it is one of {', '.join(WAYS)}", "--scheduler auto")
    if wish.scope not in schedulers.SCOPES:
        raise _wrong(f"--scope {wish.scope!r}", f"it is one of {', '.join(schedulers.SCOPES)}", "--scope device")
    if undoing and status:
        raise _wrong("--undo cannot be used with --status", "one changes, the other looks", "leave one of them out")
    if (undoing or status) and (wish.goal != "unbind" or wish.stop_holders or wish.replace):
        raise _wrong("this goes only with a drain", "--undo and --status take no --remove, --power-off, --replace or "
                     "--stop-holders", "leave it out")
    if not status and not devices and filters == select.Filters():
        raise _wrong("no device is named", "drain takes what is named, never simply everything",
                     "hotplugctl list, then: hotplugctl drain slot:N --dry-run")
    if wish.replace and len(devices) != 1:
        raise _wrong("--replace takes one device", "a person exchanges one card at a time",
                     "hotplugctl drain slot:N --replace")
    return wish


def _wrong(what: str, why: str, hint: str) -> HotplugError:
    return HotplugError(what, why=why, hint=hint, exit=Exit.USAGE)


def meant(
    seen: Look, machine: Machine, devices: Sequence[str], filters: select.Filters, *, undoing: bool = False
) -> tuple[Device, ...]:
    """The devices named, those off the bus through their drain's record.

    To an undo any existing slot and any well-formed address will do: there may be nothing to take back. Raises
    HotplugError(UNKNOWN) when there is nothing.
    """
    chosen = select.choose(machine, devices, filters, absent_ok=True)
    found = list(chosen.devices)
    for address in chosen.addresses:
        keys = {hold.key for hold in seen.drains.values() if address in (hold.address, *hold.addresses)}
        rows = [d for d in machine.devices if d.held is not None and d.held.place in keys]
        if not rows and not undoing:
            raise HotplugError(f"no device {address}", why="it is not on the bus, and no drain is recorded of it",
                               hint="hotplugctl list --slots", exit=Exit.UNKNOWN)
        found += [row for row in rows if row not in found]
    for name in chosen.slots if not undoing else ():
        raise HotplugError(f"slot {name} is empty", why="there is nothing to drain, and no drain is recorded of it",
                           hint="hotplugctl list --slots", exit=Exit.UNKNOWN)
    if not found and not (undoing and (chosen.slots or chosen.addresses)):
        raise HotplugError("no device is meant", why="none passes the filters", hint="hotplugctl list",
                           exit=Exit.UNKNOWN)
    return tuple(found)


def survey(seen: Look, machine: Machine, wish: Wish, named: Sequence[Device], *, undoing: bool = False) -> Survey:
    """How the drain will look. An undo asks the schedulers its own records speak of, whatever is wished now."""
    if not isinstance(seen.host, Live):
        return Survey(seen, machine, wish)
    if not undoing:
        return Survey(seen, machine, wish, schedulers.found(wish.scheduler, seen.host))
    places = [d.held.place for d in named if d.held is not None and d.held.place is not None]
    names = dict.fromkeys(
        scheduler_of(key) for place in places if place in seen.drains for key in seen.drains[place].told)
    there: list[schedulers.Scheduler] = []
    for name in names:
        with suppress(HotplugError):    # whose step comes and finds it missing says so
            there += schedulers.found(name, seen.host) if name in schedulers.SCHEDULERS else []
    return Survey(seen, machine, wish, there)


def dry(found: Survey, devices: Sequence[Device], *, undoing: bool, blind: str | None) -> Plan:
    """What a run would do."""
    site = found.site(devices, blind)
    if undoing:
        for card in site.cards:
            unreadable(card.key, card.record)
        return undo(site)
    if found.wish.replace and all(exchanged(card) for card in site.cards):
        return undo(replace(site, cards=tuple(
            replace(card, record=card.record.without_card() if card.record is not None else None)
            for card in site.cards)))
    planned = plan(site, found.wish)
    if found.wish.replace and len(site.cards) == 1:
        planned = replace(planned, steps=(*planned.steps, *by_hand(site.cards[0])))
    return replace(planned, warnings=(*planned.warnings, *_foreseen(found, site)))


def _foreseen(found: Survey, site: Site) -> list[str]:
    """What schedulers say beforehand of the cards they would close."""
    said = []
    for card in site.cards:
        for (scheduler, one), place in zip(found.asked(card), card.placements, strict=True):
            word = scheduler.foresee(one, FORESEE_S) if place.closed is False and not place.blockers else None
            said += [f"{scheduler.name} says: {word}"] if isinstance(word, str) else []
    return said


def status(seen: Look, machine: Machine, devices: Sequence[Device]) -> list[Plan]:
    """Each drain in progress among these devices, planned as it was wished when it began; no scheduler is asked."""
    plans = []
    for device in {d.held.place: d for d in devices if d.held is not None}.values():
        look = Survey(seen, machine, Wish())
        site = look.site([device], None)
        record = site.cards[0].record
        if record is None:
            continue
        wish = replace(Wish(), goal=record.goal or "unbind", scope=record.scope, replace=record.replace)
        if record.find(BACK, record.key) is not None:
            plans.append(undo(site))
            continue
        found = plan(site, wish)
        if record.replace and not found.steps:
            found = replace(found, steps=tuple(by_hand(site.cards[0])))
        waits = any(step.do == "wait" for step in found.steps)
        plans.append(replace(found, resume=words.again(site, wish, "--timeout 10m") if waits else found.resume))
    return plans
