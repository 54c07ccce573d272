"""Whose work a drain has to wait for: processes, and the jobs and pods of schedulers. Pure."""

from __future__ import annotations

from ..model import UNSEEN, Holder, Maybe, Placement, Unknown, Work
from .site import Card

NO_WORK = ("module", UNSEEN)       # a module on top of the driver holds no card; a gap is told as what it is


def working(card: Card) -> tuple[Holder, ...]:
    """The processes whose work the drain has to wait for: all but the services that it stops itself."""
    found = card.holders if isinstance(card.holders, tuple) else ()
    return tuple(holder for holder in found if holder.via not in NO_WORK and _unit(holder) not in card.units)


def _unit(holder: Holder) -> str | None:
    """As profiles name units: without the ending."""
    return holder.unit.removesuffix(".service") if isinstance(holder.unit, str) else None


def running(card: Card) -> tuple[Work, ...]:
    """What the schedulers have on it now."""
    return tuple(work for place in card.placements if isinstance(place.work, tuple) for work in place.work)


def scheduled(card: Card, holder: Holder) -> tuple[Placement, Work] | None:
    """The job or pod that a process belongs to: it ends by its scheduler, never by a signal of ours."""
    for place in card.placements:
        for work in place.work if isinstance(place.work, tuple) else ():
            if work.id in (holder.job, holder.pod):
                return place, work
    return None


def text_of(value: Maybe[str]) -> str:
    """A fact in a sentence."""
    return "?" if isinstance(value, Unknown) else value or "-"
