"""What forbids a drain, with the option that lifts it, and what should be known before saying yes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Blocker, Holder, Unknown, unseen
from .pulling import switches_power
from .record import path
from .site import Card, Piece, Site, Wish
from .workers import running, scheduled, text_of, working

LIFT_WORK = "--timeout D, or --stop-holders"
DIES = "it would lose the card in the middle of its work"


def blockers_of(site: Site, wish: Wish) -> Iterator[Blocker]:
    """Everything that forbids it, each with what lifts it; what nothing lifts comes first."""
    for card in site.cards:
        yield from _needed_here(site, card)
        yield from _goes_along(card, wish)
        yield from _cannot_switch(card, wish)
        for place in card.placements:
            yield from place.blockers
        yield from _busy(site, card, wish)


def _needed_here(site: Site, card: Card) -> Iterator[Blocker]:
    if card.record is not None and not card.record.goal:
        why = f"{card.record.reason}; look at {path(card.key)}"
        yield Blocker(f"{card.said} is held by a drain nobody can read", why, None)
    for piece in card.pieces:
        if isinstance(piece.uses, Unknown):
            if site.live:
                yield Blocker(f"could not look whether this machine itself needs {piece.address}", piece.uses.why, None)
        else:
            for use in piece.uses or ():
                yield Blocker(f"this machine itself needs {piece.address}", use, None)
        if _foreign(card, piece):
            yield Blocker(f"{piece.address} is below the same port and no accelerator", f"it is {piece.what}", None)


def _foreign(card: Card, piece: Piece) -> bool:
    """Neither matched by a profile nor another function of a card that is (a GPU's audio is no foreigner)."""
    if piece.bridge or piece.virtual or piece.profile is not None:
        return False
    known = {p.address.rpartition(".")[0] for p in card.pieces if p.profile is not None}
    return piece.address.rpartition(".")[0] not in known


def _goes_along(card: Card, wish: Wish) -> Iterator[Blocker]:
    if wish.group or not card.named:
        return
    places = {p.address.rpartition(".")[0]: p for p in card.pieces if p.profile is not None and not p.virtual}
    named = {address.rpartition(".")[0] for address in card.named}
    for place, piece in places.items():
        if place not in named:
            yield Blocker(f"{piece.address} goes with it", f"{piece.what} is behind the same port", "--group")


def _cannot_switch(card: Card, wish: Wish) -> Iterator[Blocker]:
    if wish.goal != "power":
        return
    slot = card.slot
    if slot is None or slot.hotplug.driver is None or slot.hotplug.capable is False:
        lift = None if wish.replace else "--remove"
        yield Blocker(f"{card.said} is in no hot-plug slot", "power the server off to pull it", lift)
    elif isinstance(switched := switches_power(card), Unknown):
        yield Blocker(f"could not look how {card.said} is switched off", switched.why, "--remove")


def _busy(site: Site, card: Card, wish: Wish) -> Iterator[Blocker]:
    if (gap := unseen(card.holders)) is not None and site.live:
        yield Blocker(f"could not look who has {card.said}", gap.why, None)
    waits = wish.timeout_s is not None
    for holder in working(card):
        who = f"{_who(holder)} has {text_of(holder.node)}"
        untouchable = site.untouchable.get(holder.pid)
        if holder.pid == 0:
            yield Blocker(who, f"the kernel itself uses it so; it ends with: {text_of(holder.release)}", None)
        elif not waits and not wish.stop_holders:
            yield Blocker(who, f"{DIES}; it ends with: {text_of(holder.release)}", LIFT_WORK)
        elif not waits and untouchable is not None and scheduled(card, holder) is None:
            yield Blocker(who, f"{untouchable}; it ends with: {text_of(holder.release)}", "--timeout D")
    if not waits and not wish.stop_holders:
        for work in running(card):
            yield Blocker(f"{work.id} runs on it", f"{DIES}; it ends with: {work.stop}", LIFT_WORK)


def _who(holder: Holder) -> str:
    command = text_of(holder.command)
    return f"pid {holder.pid} {command} ({text_of(holder.user)})" if holder.pid else command


def warnings_of(site: Site, wish: Wish) -> Iterator[str]:
    """What a person should know before saying yes."""
    if site.blind is not None:
        yield f"a run needs more: {site.blind}"
    for card in site.cards:
        yield from card.peers
        if wish.goal == "power" and card.slot is not None and switches_power(card) is False and not _no_slot(card):
            yield (f"the port of {card.said} has no power controller: it is taken off the bus instead, and the slot "
                   "keeps its power")
        vfs = [piece.address for piece in card.pieces if piece.virtual]
        if vfs:
            yield f"its virtual functions go with it: {', '.join(vfs)}"
        for place in card.placements:
            yield from place.warnings
        if (gap := unseen(card.holders)) is not None and not site.live:
            yield f"who has {card.said} was not captured ({gap.why})"
        for holder in working(card):
            if wish.stop_holders and (why := site.untouchable.get(holder.pid)) is not None:
                yield f"pid {holder.pid} {text_of(holder.command)} is only waited for: {why}"
        for holder in card.holders if isinstance(card.holders, tuple) else ():
            if holder.via == "module":
                yield f"the kernel module {text_of(holder.command)} uses the driver of {card.said}"
        if card.record is not None and card.record.boot_id != site.boot_id and card.record.goal:
            yield f"this drain was begun before a reboot ({card.record.since}): its kernel steps are done again"


def _no_slot(card: Card) -> bool:
    return card.slot is None or card.slot.hotplug.driver is None
