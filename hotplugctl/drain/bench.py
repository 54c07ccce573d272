"""What the steps of a drain act with: the machine, the record, the words to listeners; all of it bounded.

Deadlines in seconds bound a write that may hang in the kernel. A probe runs inside `bind`, `rescan` and `power` 1, so
these may take long; a driver's remove runs inside `unbind`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .. import act
from ..errors import Exit, HotplugError
from ..host import Ran
from ..host.live import Live
from ..model import Step, Unknown
from ..plugs import hooks
from ..readers.slots import SLOTS
from .record import Record
from .site import Card, Piece, Site, Wish
from .survey import Survey

UNBIND_S, REMOVE_S, PROBE_S, LIGHT_S, UNIT_S, SCHEDULER_S = 20.0, 20.0, 60.0, 5.0, 60.0, 30.0
SETTLE_S = 5.0          # the kernel's own threads finish what a write began


@dataclass
class Bench:
    """What steps act with. `say` tells a person; `left_s` are the seconds that the work still has."""

    host: Live
    survey: Survey
    wish: Wish
    by: str
    say: Callable[[str], None]
    document: Callable[[Site], str]
    left_s: Callable[[], float | None]


@dataclass(frozen=True, slots=True)
class Turn:
    """A step whose turn it is, and what was seen just before."""

    site: Site
    card: Card
    step: Step


# Does the step, and says what is worth knowing beside that it was done. Raises HotplugError when it was not.
Act = Callable[[Bench, Turn], str | None]


def piece_of(card: Card, address: str) -> Piece:
    """A function of the card. Raises HotplugError when the bus does not show it."""
    for piece in card.pieces:
        if piece.address == address:
            return piece
    raise HotplugError(
        f"{address} is not on the bus", why=f"{card.said} shows {len(card.pieces)} functions",
        hint=f"hotplugctl diagnose {card.name}", exit=Exit.FAILED,
    )


def own(card: Card) -> Record:
    """The record of this place's drain."""
    if card.record is None:
        raise HotplugError(f"no drain of {card.name} is recorded", hint="hotplugctl drain --status", exit=Exit.FAILED)
    return card.record


def slot_files(card: Card) -> str:
    """The slot's directory in sysfs. Raises HotplugError for a card in none."""
    if card.slot is None:
        raise HotplugError(f"{card.said} is in no slot", hint="hotplugctl list --slots", exit=Exit.FAILED)
    return f"{SLOTS}/{card.slot.name}"


def hook_said(bench: Bench, site: Site, kind: str, name: str) -> str | None:
    """Run a hook with the plan on its standard input: None = it passed, else why not."""
    facts = {
        "KIND": kind, "SLOTS": " ".join(c.slot.name for c in site.cards if c.slot is not None),
        "ADDRESSES": " ".join(piece.address for c in site.cards for piece in c.pieces), "REASON": bench.wish.reason,
    }
    return hooks.one(bench.survey.seen.settings.hooks, kind, name, facts, bench.document(site))


def announcement(record: Record, word: str, left_s: float | None) -> str:
    """The line for a uevent file: letters and digits only, anything else gives EIO (kobject_uevent.c)."""
    deadline = f" DEADLINE={int(left_s)}" if left_s is not None and left_s != float("inf") else ""
    return f"change {record.announced} HOTPLUGCTL={word}{deadline}"


def say_draining(bench: Bench, card: Card) -> str | None:
    """Tell every listener on this machine; one that cannot be told is no reason to stop."""
    left = bench.left_s()
    return tell(bench, card, announcement(own(card), "draining", 0.0 if left is None else max(0.0, left)))


def tell(bench: Bench, card: Card, text: str) -> str | None:
    """Say it on the kernel's event bus, of every function of the card: None = it was said, else why not."""
    why = None
    for piece in card.pieces:
        if not piece.bridge:
            why = act.announce(bench.host, piece.path, text) or why
    if why is not None:
        bench.say(f"listeners of {card.said} could not be told: {why}")
    return why


def switch_unit(bench: Bench, verb: str, unit: str, *, wanted: bool) -> str | None:
    """`systemctl stop` or `start` of a service, verified. Raises HotplugError(FAILED)."""
    answer = bench.host.run(("systemctl", verb, unit), UNIT_S)
    if bench.survey.runs(unit) is wanted:
        return None
    why = answer.stderr.strip() if isinstance(answer, Ran) else answer.why if isinstance(answer, Unknown) else ""
    raise HotplugError(
        f"systemctl {verb} {unit} had no effect", why=why or f"the unit is {'not ' if wanted else 'still '}active",
        hint=f"systemctl status {unit}", exit=Exit.FAILED,
    )


def number_of_vfs(bench: Bench, card: Card, address: str, number: int) -> str | None:
    """So many SR-IOV virtual functions. Raises HotplugError(FAILED)."""
    path = f"{piece_of(card, address).path}/sriov_numvfs"
    act.write(bench.host, card.key, path, str(number), took=lambda: bench.host.text(path) == str(number),
              deadline=PROBE_S, about=address)
    return None


def indicate(bench: Bench, card: Card, value: str) -> str | None:
    """A light that does not work is told, and stops nothing."""
    path = f"{slot_files(card)}/attention"
    try:
        act.write(bench.host, card.key, path, value, took=lambda: bench.host.text(path) == value, deadline=LIGHT_S)
    except HotplugError as error:
        bench.say(f"the light of {card.said} could not be set: {error}")
        return str(error)
    return None
