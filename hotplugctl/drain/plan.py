"""From a Site and a Wish to a Plan: all steps, all that forbids them, all that should be known before. Pure.

A plan is made afresh after every step, from what is seen then: its first step is the next thing to do, and when there
is none the drain is complete. So an interrupted drain goes on by running the same command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..model import Holder, Maybe, Plan, PlanDevice, SafeToPull, State, Step
from . import words
from .against import blockers_of, warnings_of
from .pulling import safe_to_pull, switches_power
from .record import GOALS
from .site import Card, Site, Wish
from .workers import running, scheduled, text_of, working


def plan(site: Site, wish: Wish) -> Plan:
    """What the drain that was wished does from here."""
    unreadable = any(card.record is not None and not card.record.goal for card in site.cards)
    steps = () if unreadable else tuple(steps_of(site, wish))
    blockers = tuple(blockers_of(site, wish))
    one = site.cards[0].device if len(site.cards) == 1 else None
    state = State.DRAINING if steps or unreadable else State.DRAINED
    return Plan(
        device=one,
        devices=tuple(_device(card, state) for card in site.cards),
        group=tuple(piece.address for card in site.cards for piece in card.pieces),
        steps=steps, blockers=blockers, warnings=tuple(warnings_of(site, wish)), holders=_all_holders(site),
        state=state, safe_to_pull=_together([safe_to_pull(card) for card in site.cards]) if site.cards else None,
        undo=words.undo(site), resume=words.again(site, wish),
    )


def _device(card: Card, state: State) -> PlanDevice:
    address = card.device.address if card.pieces else None
    held = state if card.record is not None else card.device.state
    return PlanDevice(address, card.slot.name if card.slot is not None else None, held, safe_to_pull(card))


def _all_holders(site: Site) -> Maybe[tuple[Holder, ...]]:
    found: list[Holder] = []
    for card in site.cards:
        if not isinstance(card.holders, tuple):
            return card.holders
        found += card.holders
    return tuple(found)


def _together(answers: list[SafeToPull]) -> SafeToPull:
    """Of several cards: the first that is not safe speaks for all."""
    order = {False: 0, None: 1, True: 2}
    return min(answers, key=lambda answer: order[answer.value])


# --- steps ------------------------------------------------------------------------------------------------------


def steps_of(site: Site, wish: Wish) -> Iterator[Step]:
    """All that is left to do, in order: each kind for every card before the next kind."""
    for kind in KINDS:
        for number, card in enumerate(site.cards):
            if number and kind in ONCE:
                continue
            yield from kind(_At(site, card, wish))


@dataclass(frozen=True, slots=True)
class _At:
    """One card of a plan that is being made."""

    site: Site
    card: Card
    wish: Wish

    def step(self, do: str, target: str, why: str, undo: str | None) -> Step:
        """A step for this card."""
        return Step(do, target, why, undo, self.card.key)


Making = Callable[[_At], Iterator[Step]]


def _check(at: _At) -> Iterator[Step]:
    if all(one.record is None for one in at.site.cards):
        for name in at.site.hooks.get("drain-check", ()):
            yield at.step("check", name, "it may veto before anything is changed", None)


def _record(at: _At) -> Iterator[Step]:
    record = at.card.record
    further = record is None or GOALS.index(at.wish.goal) > GOALS.index(record.goal)
    further = further or (record is not None and at.wish.replace and not record.replace)
    if record is None or further or record.boot_id != at.site.boot_id or record.find("back", at.card.key) is not None:
        yield at.step("record", at.card.key, "what is begun is on the disk first", "forget the record")


def _pre(at: _At) -> Iterator[Step]:
    yield from _hook(at, "drain-pre", "drain-undo")


def _post(at: _At) -> Iterator[Step]:
    yield from _hook(at, "drain-post", None)


def _hook(at: _At, kind: str, undo: str | None) -> Iterator[Step]:
    for name in at.site.hooks.get(kind, ()):
        if at.card.record is None or not at.card.record.has("hook", f"{kind}/{name}"):
            yield at.step("hook", f"{kind}/{name}", "the administrator wants it run", undo)


def _cordon(at: _At) -> Iterator[Step]:
    for place in at.card.placements:
        if place.closed is False:
            yield at.step(
                "cordon", place.said, "no new work may land on it", "give the place back")


def _announce(at: _At) -> Iterator[Step]:
    if at.card.record is not None and at.card.record.has("announce"):
        return
    if any(piece.driver is not None and not piece.bridge for piece in at.card.pieces):
        yield at.step(
            "announce", ", ".join(p.address for p in at.card.pieces if not p.bridge),
            "applications that listen finish up", "announce that it is undone")


def _wait(at: _At) -> Iterator[Step]:
    who = [f"pid {holder.pid}" for holder in working(at.card)] + [work.id for work in running(at.card)]
    if not who:
        return
    if at.wish.timeout_s is not None or not at.wish.stop_holders:
        yield at.step("wait", ", ".join(dict.fromkeys(who)), "their work ends first", None)
    if at.wish.stop_holders:
        for holder in working(at.card):
            ours = scheduled(at.card, holder) is None
            yield at.step(
                "stop", f"pid {holder.pid} {text_of(holder.command)} ({text_of(holder.user)})",
                f"TERM, and KILL after {words.seconds(at.wish.grace_s)}" if ours else "by its scheduler", None)
        for work in running(at.card):
            yield at.step("stop", work.id, work.stop, None)


def _quiesce(at: _At) -> Iterator[Step]:
    for unit in at.card.units:
        why = at.card.quiesce.get(unit, "it holds every card open")
        yield at.step("quiesce", unit, why, f"systemctl start {unit}")


def _vfs(at: _At) -> Iterator[Step]:
    for piece in at.card.pieces:
        if isinstance(piece.vfs, int) and piece.vfs > 0:
            yield at.step("vfs", piece.address, f"{piece.vfs} virtual functions go with it", f"{piece.vfs} again")


def _unbind(at: _At) -> Iterator[Step]:
    """Before any `remove` or power write: only this one blocks nobody else when a driver hangs (facts of remove.c)."""
    for piece in reversed(at.card.pieces):
        # The kernel takes the `driver` link away before the driver's remove has returned (drivers/base/dd.c).
        leaving = at.card.hanging == f"{piece.path}/driver/unbind"
        if (piece.driver is not None or leaving) and not piece.bridge:
            driver = "the driver" if leaving else text_of(piece.driver)
            yield at.step("unbind", piece.address, f"{driver} lets go of it", f"bind {driver}")


def _off_the_bus(at: _At) -> Iterator[Step]:
    if at.wish.goal == "power" and switches_power(at.card) is True and at.card.slot is not None:
        if at.card.pieces or at.card.slot.power != "off":
            yield at.step("power", f"slot:{at.card.slot.name}", "it may be pulled only without power", "power 1")
    elif at.wish.goal in ("remove", "power"):
        for piece in reversed(at.card.pieces):
            if piece.top:
                yield at.step("remove", piece.address, "the kernel forgets it and all below it", "rescan its bus")


def _light(at: _At) -> Iterator[Step]:
    tried = at.card.record is not None and at.card.record.has("light", at.card.name)
    if at.wish.goal != "unbind" and at.card.light is not None and at.card.slot is not None and not tried:
        yield at.step("light", at.card.name, "the technician finds the slot", f"light {at.card.light}")


KINDS: tuple[Making, ...] = (
    _check, _record, _pre, _cordon, _announce, _wait, _quiesce, _vfs, _unbind, _off_the_bus, _light, _post,
)
ONCE: tuple[Making, ...] = (_check,)     # about the whole plan, not about each card of it
