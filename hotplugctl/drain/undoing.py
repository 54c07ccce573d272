"""The undo itself: look, plan what is left to take back, take the first step, until nothing of ours is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import Exit, HotplugError
from ..model import Device, Plan
from . import words
from .back import BACKWARD, row
from .bench import own
from .refusing import unreadable
from .run import Run, Talk, attempt, changeable, locked, no_effect, resumable
from .site import Card, Wish
from .survey import Survey
from .undo import in_kernel, undo


def take_back(survey: Survey, devices: Sequence[Device], wish: Wish, talk: Talk, *, yes: bool) -> Plan:
    """Undo the drains of these places, up to READY again. Raises HotplugError: FAILED, DENIED, REFUSED.

    `yes`: where the card has gone for good, only the hold is lifted.
    """
    site = changeable(survey, devices, words.undo)
    with locked(site, "undoing its drain"):
        survey.reread(site)
        run = Run(survey, site, wish, talk, undoing=True)
        for card in site.cards:
            unreadable(card.key, survey.records.get(card.key))
            _gone_for_good(run, card, yes=yes)
            _exchanged_meanwhile(run, card)
        with resumable(run):
            return _backward(run)


def _backward(run: Run) -> Plan:
    last = None
    while True:
        run.look()
        found = undo(run.site)
        if not found.steps:
            return _as_it_is(run, found)
        step = found.steps[0]
        if step == last:
            raise no_effect(run, found, step)
        attempt(run, step, BACKWARD)
        last = step


def _as_it_is(run: Run, found: Plan) -> Plan:
    """The cards as they stand now that nothing holds them."""
    rows = [row(run.bench, card) for card in run.site.cards]
    devices = tuple(
        replace(device, state=now.state) if now is not None else device
        for device, now in zip(found.devices, rows, strict=True))
    states = {device.state for device in devices}
    return replace(
        found, done=tuple(run.done), devices=devices, device=rows[0] if len(rows) == 1 else None,
        state=states.pop() if len(states) == 1 else found.state)


def _gone_for_good(run: Run, card: Card, *, yes: bool) -> None:
    """There is no putting back what is not there. Raises HotplugError(FAILED) unless that was said to be known."""
    record = run.survey.records.get(card.key)
    empty = not card.pieces and card.slot is not None and card.slot.presence is False
    if record is None or not empty or not in_kernel(run.site, record):
        return
    if not yes:
        again = words.undo(run.site)
        raise HotplugError(
            f"slot {card.slot.name if card.slot is not None else ''} is empty", why="the card is not there to be put "
            "back into service", hint=f"put the card in, then: {again}; or, if it stays out: {again} --yes "
            "(lifts the hold)", exit=Exit.FAILED, more={"plan": undo(run.site)})
    forget_card(run, card)


def _exchanged_meanwhile(run: Run, card: Card) -> None:
    """Another card is in the place: its driver is its own, and what the first one had is not forced upon it."""
    record = run.survey.records.get(card.key)
    now = [p for p in card.pieces if record is not None and p.address == record.address]
    was = [record.card.get("vendor_id"), record.card.get("device_id")] if record is not None else []
    if record is not None and now and card.device.vendor_id is not None and None not in was and was != [
        card.device.vendor_id, card.device.device_id
    ]:
        run.talk.say(f"another card is in {card.said} ({record.card.get('model') or was[1]} before, "
                     f"{card.device.model or card.device.device_id} now): only the hold is lifted")
        forget_card(run, card)


def forget_card(run: Run, card: Card) -> None:
    """What was done to a card that is not there any more is not taken back; what schedulers were told is."""
    record = run.survey.records.get(card.key) or own(card)
    run.survey.keep(record.without_card())


def finish(run: Run) -> Plan:
    """Lift the hold from a place whose card was exchanged."""
    for card in run.site.cards:
        forget_card(run, card)
    run.undoing = True
    return _backward(run)
