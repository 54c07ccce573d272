"""From a Site to the steps that take a drain back: only what the record says we changed, in reverse. Pure.

A step is gone from the next plan when its entry is gone from the record, or when the machine shows that nothing is left
to take back. After a reboot the kernel has forgotten what was done in it: only schedulers and hooks remember.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..model import Plan, State, Step
from . import words
from .plan import plan
from .record import Record, Taken
from .site import Card, Site, Wish

KERNEL = ("light", "power", "remove", "unbind", "vfs")
BACK = "back"               # an entry of its own: the undo has begun, and the card is to be ready again


def undo(site: Site) -> Plan:
    """What takes it back from here."""
    found = plan(site, Wish())
    steps = tuple(undo_steps(site))
    return Plan(
        device=found.device, devices=found.devices, group=found.group, steps=steps, holders=found.holders,
        state=State.DRAINING if steps else found.devices[0].state if found.devices else State.ABSENT,
        safe_to_pull=found.safe_to_pull, resume=words.undo(site),
    )


def undo_steps(site: Site) -> Iterator[Step]:
    """All that is left to take back, in reverse order of the drain."""
    for kind in KINDS:
        for card in site.cards:
            if card.record is not None and card.record.goal:
                yield from kind(site, card, card.record)


def in_kernel(site: Site, record: Record) -> bool:
    """Was anything changed in this boot's kernel?"""
    return record.boot_id == site.boot_id and any(t.do in KERNEL or t.do == "quiesce" for t in record.taken)


def _each(
    do: str, then: str, why: str, is_back: Callable[[Card, Taken], bool] = lambda _card, _taken: False
) -> Callable[[Site, Card, Record], Iterator[Step]]:
    """A step for every entry of this kind that is not back by itself; a scheduler remembers over a reboot."""
    def steps(site: Site, card: Card, record: Record) -> Iterator[Step]:
        for taken in reversed(record.taken):
            stands = record.boot_id == site.boot_id or do == "cordon"
            if taken.do == do and stands and not is_back(card, taken):
                yield Step(then, taken.target, why, None, card.key)
    return steps


def _on_the_bus(card: Card, taken: Taken) -> bool:
    return any(piece.address == taken.target for piece in card.pieces)


def _bound(card: Card, taken: Taken) -> bool:
    return any(piece.address == taken.target and piece.driver == taken.before for piece in card.pieces)


def _powered(card: Card, _taken: Taken) -> bool:
    return bool(card.pieces) and card.slot is not None and card.slot.power == "on"


def _as_many_vfs(card: Card, taken: Taken) -> bool:
    return any(piece.address == taken.target and piece.vfs == taken.before for piece in card.pieces)


def _record(site: Site, card: Card, record: Record) -> Iterator[Step]:
    if in_kernel(site, record) and record.find(BACK, card.key) is None:
        yield Step("record", card.key, "that it is being undone is on the disk first", None, card.key)


def _ready(site: Site, card: Card, record: Record) -> Iterator[Step]:
    begun = in_kernel(site, record) or record.find(BACK, card.key) is not None
    comes_back = bool(card.pieces) or any(t.do in ("power", "remove", "unbind") for t in record.taken)
    if record.boot_id == site.boot_id and begun and comes_back and not record.has(BACK):
        yield Step("ready", card.name, f"it was {record.rung} before", None, card.key)


def _hooks(site: Site, card: Card, record: Record) -> Iterator[Step]:
    for name in site.hooks.get("drain-undo", ()):
        if not record.has("hook", f"drain-undo/{name}"):
            yield Step("hook", f"drain-undo/{name}", "the administrator wants it run", None, card.key)


def _forget(_site: Site, card: Card, _record: Record) -> Iterator[Step]:
    yield Step("forget", card.key, "nothing of ours is left", None, card.key)


KINDS: tuple[Callable[[Site, Card, Record], Iterator[Step]], ...] = (
    _record,
    _each("light", "light", "as it was"),
    _each("power", "power", "power 1 brings the card back", _powered),
    _each("remove", "rescan", "the kernel finds it again", _on_the_bus),
    _each("unbind", "bind", "its driver takes it again", _bound),
    _each("vfs", "vfs", "its virtual functions again", _as_many_vfs),
    _each("quiesce", "start", "it ran before"),
    _ready,
    _each("cordon", "uncordon", "new work may land on it again"),
    _hooks,
    _forget,
)
