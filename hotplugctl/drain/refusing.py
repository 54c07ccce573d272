"""What stands in the way of a drain, told with the next thing to type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .. import records
from ..errors import Exit, HotplugError
from ..host.live import Live
from ..model import Blocker, Plan
from . import words
from .record import FOLDER, Record, path
from .site import Site, Wish
from .survey import Survey

CONFIRM = Blocker("nobody said yes", "there is no terminal to ask at", "--yes")


def blind(survey: Survey) -> str | None:
    """Why nothing could be changed on this machine; None = it can. Of a capture nothing is ever changed."""
    if not isinstance(survey.host, Live):
        return None
    return survey.host.unprivileged() or records.cannot_keep(FOLDER)


def refuse(found: Plan, wish: Wish, site: Site, say: Callable[[str], None]) -> None:
    """Raises HotplugError(REFUSED) when something forbids the plan; every blocker is told, with what lifts it."""
    if not found.blockers:
        return
    for blocker in found.blockers[1:]:
        lift = f"; lifted by {blocker.lifted_by}" if blocker.lifted_by else "; nothing lifts this"
        say(f"also in the way: {blocker.what}: {blocker.why}{lift}")
    first = found.blockers[0]
    named = " ".join(card.said for card in site.cards)
    lifting = lifted(first, site, wish)
    raise HotplugError(
        f"cannot drain {named}: {first.what}", why=first.why, hint=lifting, exit=Exit.REFUSED,
        more={"blockers": found.blockers, "plan": found},
    )


def unreadable(key: str, record: Record | None) -> None:
    """Raises HotplugError(FAILED) for a record that cannot be read: nobody knows what there is to take back."""
    if record is not None and not record.goal:
        raise HotplugError(
            f"the drain of {key} cannot be taken back", why=record.reason,
            hint=f"look at {path(key)}, put back by hand what it speaks of, then remove that file", exit=Exit.FAILED)


def lifted(blocker: Blocker, site: Site, wish: Wish) -> str:
    """The next thing to type when this stands in the way."""
    if blocker.lifted_by is None and any(card.record is not None and not card.record.goal for card in site.cards):
        return "put back by hand what that file speaks of, then remove it"
    if blocker.lifted_by is None:
        return f"hotplugctl probe {words.names(site)}, and free it of that first"
    option = blocker.lifted_by.partition(",")[0].replace("--timeout D", "--timeout 10m")
    base = replace(wish, scheduler="auto") if option.startswith("--scheduler") else wish
    if option == "--remove":        # instead of --power-off, not beside it
        base = replace(wish, goal="unbind")
    hint = words.again(site, base, option)
    if "--stop-holders" in blocker.lifted_by:
        hint += f" (waits for it), or {words.again(site, wish, '--stop-holders')} (ends it)"
    return hint
