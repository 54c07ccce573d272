"""The drain command: an order checked, carried out, and its plan shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .. import probe, select, show
from ..errors import Exit
from ..look import Look
from ..model import Device, Machine, Plan
from ..options import Common
from ..output import documents, plans
from . import orders, refusing, replacing, run, undoing
from .site import Wish
from .survey import Survey


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked on the command line."""

    wish: Wish
    devices: tuple[str, ...]
    filters: select.Filters
    dry_run: bool = False
    yes: bool = False
    undo: bool = False
    status: bool = False


def carry_out(common: Common, order: Order, look: Callable[[], Look]) -> Exit:
    """Do it, and show what became of it. Raises HotplugError."""
    wish = orders.checked(
        order.wish, devices=order.devices, filters=order.filters, undoing=order.undo, status=order.status)
    seen = look()
    with show.progress(common, "reading the PCI bus"):
        machine = probe.machine(seen)
    if order.status:
        return _status(common, order, seen, machine)
    named = orders.meant(seen, machine, order.devices, order.filters, undoing=order.undo)
    survey = orders.survey(seen, machine, wish, named, undoing=order.undo)
    if order.dry_run:
        with show.progress(common, "asking who works on it"):
            planned = orders.dry(survey, named, undoing=order.undo, blind=refusing.blind(survey))
        show.value(common, "plan", planned, lambda: plans.pages(planned, before=True), machine)
        return Exit.REFUSED if planned.blockers else Exit.OK
    done = _done(common, order, survey, named)
    if order.undo and not done.done:
        show.hint(common, "nothing to take back: no drain is recorded of it")
    show.value(common, "plan", done, lambda: plans.pages(done, before=False), machine)
    return Exit.OK


def _status(common: Common, order: Order, seen: Look, machine: Machine) -> Exit:
    chosen = select.choose(machine, order.devices, order.filters, absent_ok=True)
    found = orders.status(seen, machine, chosen.devices)
    one = len(order.devices) == 1 and len(found) == 1
    show.value(common, "plan", found[0] if one else found, lambda: [plans.status(found)] if found else [], machine)
    if not found:
        show.hint(common, "no drain is in progress")
    return Exit.OK


def _done(common: Common, order: Order, survey: Survey, named: Sequence[Device]) -> Plan:
    talk = run.Talk(
        say=lambda text: show.hint(common, text), by=show.person(),
        ask=lambda planned: show.ask(
            common, plans.pages(planned, before=True, asking=True),
            f"{'replace the card in' if survey.wish.replace else 'drain'} {plans.named(planned)}?"),
        confirm=lambda question: show.ask(common, [], question),
        document=lambda planned: documents.alone("plan", planned))
    if order.undo:
        return undoing.take_back(survey, named, survey.wish, talk, yes=order.yes)
    if survey.wish.replace:
        return replacing.replace_card(survey, named, survey.wish, talk, yes=order.yes)
    return run.begin(survey, named, survey.wish, talk, yes=order.yes)
